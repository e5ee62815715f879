"""EDF with elastic scaling: ElasticFlow's shares without admission control."""

from __future__ import annotations

from typing import ClassVar

from harness.contracts.decision import Decision
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.elasticflow import check_time_slots
from systems.schedulers.shares.min_share import fill_all
from systems.schedulers.shares.share_book import ShareBook, TimeSlots


class EdfElastic:
    """EDF with minimum satisfactory shares; free slots go to the job that saves most.

    Every job is admitted. At each decision the jobs with a deadline get their shares, the earliest
    deadline first. A job that cannot meet its deadline next to the jobs before it has no share this
    time. It gets remaining slots, like jobs without a deadline.

    Source: EDF + Elastic Scaling of Gu et al., "ElasticFlow", ASPLOS 2023, section 6.4, which
    describes it in one sentence. All of the above is chosen here; the parts are ElasticFlow's.

    Checked: ``described``.
    """

    checked: ClassVar[str] = "described"
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
            slot_s: length of a time slot, seconds; 60 in the authors' code of ElasticFlow.
            powers_of_two: jobs have powers of two only, as ElasticFlow's placement wants them.
            margin_s: deadlines are planned for this many seconds earlier.
            zero_first: jobs without slots come first when free slots are handed out.
        """
        check_time_slots(slot_s, margin_s)
        self._book = ShareBook(slot_s, powers_of_two, margin_s)
        self._time = TimeSlots(slot_s)
        self._zero_first = zero_first

    def decide(self, view: ClusterView) -> Decision:
        """Fill the shares and grow them at the begin of a time slot."""
        book = self._book
        changes = book.look_again(view)
        slot = self._time.begins(view)
        if slot is None:
            return Decision(changes, self._time.wake_s)
        book.refresh(view)
        for job in book.arrived:
            (book.others if job.spec.deadline_s is None else book.promised).add(job)
        book.arrived.clear()
        plan = fill_all([job.demand for job in book.promised], slot, view.num_usable, skip=True)
        assert plan is not None, "with skip, there is always a plan"
        missed = [book.promised[index] for index in plan.missed]
        others = sorted([*missed, *book.others], key=lambda job: job.spec.order)
        more, short_of = book.changes(plan, book.promised, others, self._zero_first)
        return Decision(changes | more, self._time.wake(short_of))
