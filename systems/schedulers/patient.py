"""Patient: ElasticFlow's shares and promises, but promises are made later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.job import DeadlineKind
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.elasticflow import check_time_slots, could_alone
from systems.schedulers.shares.min_share import SharePlan, fill_all
from systems.schedulers.shares.share_book import ShareBook, ShareJob, TimeSlots

_Changes = dict[str, Grant | Suspend | Refuse]


class Patient:
    """Scheduler with late promises, which prefers cheap jobs and reconsiders waiting jobs.

    Time slots, minimum satisfactory shares and the use of free slots are ElasticFlow's. ElasticFlow
    promises or refuses for good on arrival. So jobs of a burst, or one big job, exclude many small
    jobs that arrive a minute later. Here a job with a deadline is in one of three states:

    - *planned*: it has a share in the plan and runs by it, but is not promised anything yet. An
      arrival is planned if all planned jobs still fit with it. If they do not fit, planned jobs
      without a promise are taken out. Candidates are the jobs that end no later than the first job
      that does not fit, which includes the new job. The candidate with the greatest usage (slot
      time of its share, alone) is taken out. That is Moore's rule, which keeps most deadlines on
      one machine.
    - *promised*: planned when ``answer_after`` of the time from its arrival to its deadline had
      passed. From then on no job takes its place.
    - *waiting*: not in the plan. It gets remaining slots, before jobs without a deadline, and is
      planned again as soon as it fits, least usage first. If even the whole cluster could not meet
      its deadline, it is refused; if the deadline is soft, it joins the jobs without a deadline.

    The guarantee is ElasticFlow's. A promised job meets its deadline if changes of slots cost
    nothing (or no more than ``margin_s``), no slots are lost, and the stated work and speeds are
    right. The guarantee is weaker in two ways. The promise comes later, and a job may be refused
    late, after it has used slots. A job on remaining slots is refused only once its deadline is
    impossible, and it may end late if no decision was made in between.

    Source: ours; the shares are those of Gu et al., "ElasticFlow", ASPLOS 2023, sections 4.1, 4.2
    and 4.4, and the rule for which jobs to leave out is Moore's, Management Science 15 (1968).
    Progressive filling is a heuristic, so the rule is a heuristic here too.

    Checked: ``compared``: the promise under random traces, and the planned jobs with brute force
    over all subsets if all jobs arrive at once.
    """

    checked: ClassVar[str] = "compared"
    needs = frozenset({Knowledge.DEADLINE, Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires = frozenset({Requirement.RESCALE, Requirement.SUSPEND})
    wants_progress = False
    refuses_late: ClassVar[bool] = True
    """True: a refused job may have used slots before."""

    def __init__(
        self,
        slot_s: float = 60.0,
        powers_of_two: bool = True,
        margin_s: float = 0.0,
        answer_after: float = 0.5,
        tries: int = 4,
    ) -> None:
        """Start without any job.

        Args:
            slot_s: length of a time slot, seconds.
            powers_of_two: jobs have powers of two only; otherwise any count.
            margin_s: deadlines are planned this many seconds earlier, to allow for the cost of
                changes.
            answer_after: share of the time from a job's arrival to its deadline after which it is
                promised, if it is planned; from 0 to below 1.
            tries: number of waiting jobs that may be tried without success in one decision. The
                others wait for the next decision, which bounds the cost of a decision.
        """
        check_time_slots(slot_s, margin_s)
        problems = []
        if not 0.0 <= answer_after < 1.0:
            problems.append(f"answer_after is {answer_after}; give a share from 0 to below 1")
        if tries < 0:
            problems.append(f"tries is {tries}; give a number of jobs from 0 on")
        if problems:
            raise ValueError("\n".join(problems))
        self._book = ShareBook(slot_s, powers_of_two, margin_s)
        self._time = TimeSlots(slot_s)
        self._answer_after = answer_after
        self._tries = tries
        self._waiting: dict[str, ShareJob] = {}
        self._hopeless: dict[str, ShareJob] = {}
        """Jobs that are refused as soon as they hold no more slots."""
        self._promised: set[str] = set()
        self._plan: SharePlan | None = None
        self._before: dict[str, int] = {}
        """Jobs of the previous plan, with their indices in it."""

    @property
    def promised(self) -> frozenset[str]:
        """Ids of the live jobs that have been promised their deadlines."""
        return frozenset(self._promised)

    def decide(self, view: ClusterView) -> Decision:
        """Promise, plan and grow shares at the begin of a time slot."""
        book = self._book
        changes = book.look_again(view)
        slot = self._time.begins(view)
        if slot is None:
            return Decision(changes, self._time.wake_s)
        book.refresh(view)
        self._promised = {name for name in self._promised if name in view.jobs}
        for left in (self._waiting, self._hopeless):
            for job_id in [job_id for job_id in left if job_id not in view.jobs]:
                del left[job_id]
        self._promise(view.time_s)
        num_slots = view.num_usable
        self._plan_again(slot, num_slots)
        arrived, book.arrived = book.arrived, []
        changes |= self._give_up_hopeless(arrived, slot, view)
        self._take_in(arrived, slot, num_slots)
        waiting = self._try_again(slot, num_slots)
        plan = self._plan
        assert plan is not None, "rebuilt above"
        self._before = {job.job_id: place for place, job in enumerate(book.promised)}
        more, short_of = book.changes(plan, book.promised, [*waiting, *book.others], False)
        if self._hopeless:
            short_of = slot + 1
        return Decision(changes | more, self._time.wake(short_of))

    def _promise(self, now_s: float) -> None:
        """Promise the deadlines of planned jobs whose answer is due."""
        for job in self._book.promised:
            spec = job.spec
            assert spec.deadline_s is not None, "only jobs with a deadline are planned"
            if now_s >= spec.arrival_s + self._answer_after * (spec.deadline_s - spec.arrival_s):
                self._promised.add(job.job_id)

    def _plan_again(self, slot: int, num_slots: int) -> None:
        """Plan the jobs that were planned before, without those that have ended.

        If filling fails for all of them together, the rest of the previous plan is still valid,
        unless slots were lost or a job is behind schedule. In that case jobs without a promise are
        taken out first.
        """
        book = self._book
        planned = list(book.promised)
        plan = fill_all([job.demand for job in planned], slot, num_slots)
        plan = plan or self._rest_of_plan(planned, slot, num_slots)
        if plan is None or plan.missed:
            kept, plan = self._leave_out(planned, slot, num_slots)
            self._set_planned(kept, planned)
        if plan is None:
            planned = [job for job in planned if job.job_id in self._promised]
            plan = self._rest_of_plan(planned, slot, num_slots)
            plan = plan or fill_all([job.demand for job in planned], slot, num_slots, skip=True)
            assert plan is not None, "with skip, there is always a plan"
            lost = [planned[index] for index in plan.missed]
            for job in lost:
                book.promised.remove(job)
                book.others.add(job)
                self._promised.discard(job.job_id)
            if lost:
                self._plan_again(slot, num_slots)
                return
        self._plan = plan

    def _rest_of_plan(
        self, planned: Sequence[ShareJob], slot: int, num_slots: int
    ) -> SharePlan | None:
        """Return the previous plan for these jobs, from now on; None if there is none or it does
        not fit.

        Jobs that the plan does not serve are in its ``missed``.
        """
        before = self._plan
        if before is None or any(job.job_id not in self._before for job in planned):
            return None
        places = [self._before[job.job_id] for job in planned]
        plan = SharePlan([job.demand for job in planned], slot, num_slots)
        shares = [before.share(place).from_slot(slot) for place in places]
        return plan if plan.keep(shares) else None

    def _give_up_hopeless(self, arrived: list[ShareJob], slot: int, view: ClusterView) -> _Changes:
        """Separate jobs without a deadline, and jobs whose deadline even the whole cluster cannot
        keep.

        A job with a hard deadline is refused only while it holds no slots. If it holds slots, this
        decision suspends it, since it is in no list any more, and the next decision refuses it.
        ``arrived`` keeps the other jobs.
        """
        for job in [*arrived, *self._waiting.values()]:
            if could_alone(job, slot, view.num_usable):
                continue
            if job in arrived:
                arrived.remove(job)
            self._waiting.pop(job.job_id, None)
            if job.spec.deadline_kind is DeadlineKind.HARD:
                self._hopeless[job.job_id] = job
            else:
                self._book.others.add(job)
        refusals: _Changes = {}
        for job_id, job in list(self._hopeless.items()):
            seen = view.jobs[job_id]
            # A job whose decided start is pending or has failed still has a grant.
            if seen.grant is None and seen.state in (JobState.PENDING, JobState.SUSPENDED):
                del self._hopeless[job_id]
                self._book.drop(job)
                refusals[job_id] = Refuse("its deadline can no more be kept by any share")
        return refusals

    def _take_in(self, arrived: Sequence[ShareJob], slot: int, num_slots: int) -> None:
        """Plan new jobs, and leave out the jobs that Moore's rule selects."""
        planned = list(self._book.promised)
        self._waiting |= {job.job_id: job for job in arrived}
        if arrived:
            jobs = sorted([*planned, *arrived], key=lambda job: job.by_deadline)
            kept, plan = self._leave_out(jobs, slot, num_slots)
            if plan is not None:
                self._set_planned(kept, planned)
                self._plan = plan

    def _leave_out(
        self, jobs: Sequence[ShareJob], slot: int, num_slots: int
    ) -> tuple[list[ShareJob], SharePlan | None]:
        """Return jobs that fit together, by deadline, and their plan.

        As few jobs are left out as by Moore's rule, and none with a promise. If that is not enough,
        the plan is None.
        """
        kept = list(jobs)
        usage = dict(zip(_ids(jobs), _usage(jobs, slot, num_slots), strict=True))
        while True:
            plan = fill_all([job.demand for job in kept], slot, num_slots, skip=True)
            assert plan is not None, "with skip, there is always a plan"
            if not plan.missed:
                return kept, plan
            free = [job for job in kept[: plan.missed[0] + 1] if job.job_id not in self._promised]
            if not free:
                return [job for job in kept if job.job_id in self._promised], None
            kept.remove(max(free, key=lambda job: (usage[job.job_id], job.spec.order)))

    def _set_planned(self, kept: Sequence[ShareJob], before: Sequence[ShareJob]) -> None:
        """Set the planned jobs; jobs that were planned before and are not planned now wait."""
        book = self._book
        names = set(_ids(kept))
        for job in before:
            if job.job_id not in names:
                book.promised.remove(job)
                self._waiting[job.job_id] = job
        for job in kept:
            if self._waiting.pop(job.job_id, None) is not None:
                book.promised.add(job)

    def _try_again(self, slot: int, num_slots: int) -> list[ShareJob]:
        """Plan waiting jobs that fit; return the jobs that still wait, least usage first."""
        book, failures = self._book, 0
        jobs = list(self._waiting.values())
        usage = dict(zip(_ids(jobs), _usage(jobs, slot, num_slots), strict=True))
        jobs.sort(key=lambda job: (usage[job.job_id], job.spec.order))
        for job in jobs:
            if failures == self._tries:
                break
            planned = sorted([*book.promised, job], key=lambda one: one.by_deadline)
            plan = fill_all([one.demand for one in planned], slot, num_slots)
            if plan is None:
                failures += 1
            else:
                self._plan = plan
                self._set_planned(planned, ())
        return [job for job in jobs if job.job_id in self._waiting]


def _ids(jobs: Sequence[ShareJob]) -> list[str]:
    """Return the ids of jobs, in the order of the jobs."""
    return [job.job_id for job in jobs]


def _usage(jobs: Sequence[ShareJob], slot: int, num_slots: int) -> list[int]:
    """Return the slot time of each job's share if it were alone; each can be served alone."""
    usage: list[int] = SharePlan([job.demand for job in jobs], slot, num_slots).alone.usage.tolist()
    return usage
