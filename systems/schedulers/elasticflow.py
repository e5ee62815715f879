"""ElasticFlow: admitted jobs are promised their deadlines, and the promises are kept."""

from __future__ import annotations

from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.job import DeadlineKind
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.shares.min_share import SharePlan, fill_all
from systems.schedulers.shares.share_book import BY_DEADLINE, ShareBook, ShareJob, TimeSlots


class ElasticFlow:
    """ElasticFlow: admission by minimum satisfactory shares; free slots go to the job that saves
    most.

    Time is cut into slots. The minimum satisfactory share of a job is the least, and latest, use of
    the cluster that meets its deadline together with all jobs with earlier deadlines. An arrival is
    admitted if all jobs still have such a share with it (Algorithm 1). Otherwise it is refused or,
    if its deadline is soft, gets what is left, as jobs without a deadline do. Slots that the shares
    leave free in the present time slot go to the job that saves the most slot time, one level at a
    time (Algorithm 2). The next decision comes when something happens or when some job's share asks
    for more than the job has.

    Source: Gu et al., "ElasticFlow", ASPLOS 2023, sections 4.1, 4.2 and 4.4. In the paper's text
    the sum of Algorithm 1, line 15, ends at t-1; it must be i-1. Algorithm 2 leaves slots idle if
    line 10 is taken literally; a job may take a step if the step makes it faster and the job would
    not end within the time slot without it (the paper's constraint 7).

    The paper leaves these open; chosen here:
    - Decisions are made at the boundaries of time slots; events in between wait for the next
      boundary.
    - A job that takes more now may use any slots later that other jobs' shares leave.
    - Among equal jobs the first arrival wins.
    - Jobs without a guarantee start in order of arrival. Further slots go to them by the slot time
      that they would save to their end.
    - Progressive filling is a heuristic. If it fails for admitted jobs, the rest of the previous
      plan is kept, which is still valid. A job loses its guarantee only if neither plan serves it,
      because it lost slots or changes took longer than ``margin_s``.
    - On a curve with dips, only counts that are faster than every smaller count are considered.

    Checked: ``exact``, on figures 3 and 4 and the examples of section 4.1; also against an
    independent plain version of both algorithms, and against brute force.
    """

    checked: ClassVar[str] = "exact"
    needs = frozenset({Knowledge.DEADLINE, Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires = frozenset({Requirement.RESCALE, Requirement.SUSPEND})
    wants_progress = False

    def __init__(
        self,
        slot_s: float = 60.0,
        powers_of_two: bool = True,
        margin_s: float = 0.0,
        zero_first: bool = False,
    ) -> None:
        """Start without any job.

        Args:
            slot_s: length of a time slot, seconds; 60 in the authors' code.
            powers_of_two: jobs have powers of two only, so that blocks of buddies hold them
                (section 4.3); otherwise any count.
            margin_s: deadlines are planned this many seconds earlier, to allow for the cost of
                changes.
            zero_first: jobs without slots come first when free slots are handed out, as in the
                authors' code; the paper does not state it.
        """
        check_time_slots(slot_s, margin_s)
        self._book = ShareBook(slot_s, powers_of_two, margin_s)
        self._time = TimeSlots(slot_s)
        self._zero_first = zero_first
        self._before: list[ShareJob] = []
        """Jobs of the previous plan, in its order."""
        self._plan: SharePlan | None = None

    def decide(self, view: ClusterView) -> Decision:
        """Admit jobs, fill the shares and grow them at the begin of a time slot."""
        book = self._book
        changes = book.look_again(view)
        slot = self._time.begins(view)
        if slot is None:
            return Decision(changes, self._time.wake_s)
        book.refresh(view)
        changes |= self._admit(slot, view.num_usable)
        plan = self._plan
        assert plan is not None, "the plan is made with the admission"
        more, short_of = book.changes(plan, book.promised, list(book.others), self._zero_first)
        return Decision(changes | more, self._time.wake(short_of))

    def _admit(self, slot: int, num_slots: int) -> dict[str, Grant | Suspend | Refuse]:
        """Decide about every arrival, and make a plan for the jobs with a promise."""
        book = self._book
        refusals: dict[str, Grant | Suspend | Refuse] = {}
        arrived, book.arrived = book.arrived, []
        hopeful = [job for job in arrived if could_alone(job, slot, num_slots)]
        # Not filled: it holds the data that all plans of this time slot share, computed once.
        known = SharePlan([job.demand for job in book.promised], slot, num_slots)
        if len(hopeful) == 1:
            plan = self._plan_with(hopeful[0], known)
            together = plan is not None
        else:
            plan = self._plan_together(hopeful, known)
            # If many jobs arrive at once and all of them fit together, they also fit one by one.
            together = plan is not None and not plan.capped
        for job in arrived:
            with_it = plan if together and job in hopeful else None
            if not together and len(hopeful) > 1 and job in hopeful:
                with_it = self._plan_with(job, known)
                known = with_it or known
            if with_it is not None:
                plan = with_it
                book.promised.add(job)
            elif job.spec.deadline_kind is DeadlineKind.HARD:
                book.drop(job)
                refusals[job.job_id] = Refuse(
                    "its deadline cannot be kept beside those of the jobs that were admitted"
                )
            else:
                book.others.add(job)
        if plan is None or len(plan.demands) != len(book.promised):
            plan = self._plan_promised(known)
        self._plan = plan
        self._before = [*book.promised]
        return refusals

    def _plan_with(self, job: ShareJob, known: SharePlan) -> SharePlan | None:
        """Return shares of this job and of all promised jobs; None if they do not fit.

        ``known`` is a plan of the promised jobs.
        """
        place = self._book.promised.bisect_key_left(job.by_deadline)
        plan = known.next_to(job.demand, place)
        return plan if plan.fill(skip=False) else None

    def _plan_together(self, arrived: list[ShareJob], known: SharePlan) -> SharePlan | None:
        """Return shares of these jobs and of all promised jobs; None if they do not fit."""
        if not arrived:
            return known if known.fill(skip=False) else None
        jobs = sorted([*self._book.promised, *arrived], key=BY_DEADLINE)
        return fill_all([job.demand for job in jobs], known.start, known.num_slots)

    def _plan_promised(self, known: SharePlan) -> SharePlan:
        """Return shares of all promised jobs; jobs that cannot be served lose their promise."""
        book = self._book
        slot, num_slots = known.start, known.num_slots
        if known.fill(skip=False):
            return known
        plan: SharePlan | None = None
        before = self._plan
        place_of = {job.job_id: place for place, job in enumerate(self._before)}
        if before is not None and all(job.job_id in place_of for job in book.promised):
            places = [place_of[job.job_id] for job in book.promised]
            plan = SharePlan(known.demands, slot, num_slots)
            if not plan.keep([before.share(place).from_slot(slot) for place in places]):
                plan = None
        if plan is None:
            plan = fill_all(known.demands, slot, num_slots, skip=True)
        assert plan is not None, "with skip, there is always a plan"
        lost = [book.promised[index] for index in plan.missed]
        for job in lost:
            book.promised.remove(job)
            book.others.add(job)
        if not lost:
            return plan
        left = [job.demand for job in book.promised]
        return self._plan_promised(SharePlan(left, slot, num_slots))


def could_alone(job: ShareJob, slot: int, num_slots: int) -> bool:
    """Return whether a job has a deadline that it could meet alone on the cluster."""
    levels, demand = job.demand.levels, job.demand
    rates = zip(levels.counts, levels.rates, strict=True)
    best = max(rate for count, rate in rates if count <= num_slots)
    return job.spec.deadline_s is not None and best * (demand.end - slot) >= demand.need


def check_time_slots(slot_s: float, margin_s: float) -> None:
    """Refuse options that are out of range.

    Raises:
        ValueError: all problems at once.
    """
    problems = []
    if not 0.0 < slot_s < float("inf"):
        problems.append(f"slot_s is {slot_s}; a time slot lasts more than 0 s")
    if not 0.0 <= margin_s < float("inf"):
        problems.append(f"margin_s is {margin_s}; give seconds, at least 0")
    if problems:
        raise ValueError("\n".join(problems))
