"""No starvation where promised: how long a job can wait under Tiresias with promotion."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.tiresias import Tiresias
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run

NEAR_S = 1e-4
"""Far above the rounding of sums of floats and the tolerance of group changes, far below what
any two moments of these traces lie apart."""


@dataclass
class Stay:
    """A time that one job spends in the first group, as the records of its slots say."""

    job_id: str
    gang: int
    entered_s: float
    arrival_s: float
    budget_slot_s: float
    """Service after which it leaves the group: the limit, or what was left of its work."""
    is_promoted: bool
    left_s: float = 0.0
    runs: list[tuple[float, float]] = field(default_factory=list)

    def is_before(self, other: Stay) -> bool:
        """Whether it is served earlier; of two that entered at once it may be."""
        if abs(self.entered_s - other.entered_s) < NEAR_S:
            return (self.arrival_s, self.job_id) < (other.arrival_s, other.job_id)
        return self.entered_s < other.entered_s

    def still_to_serve_slot_s(self, at_s: float) -> float:
        """What it may still be served in the group, slot-seconds."""
        served_s = sum(max(0.0, min(end, at_s) - start) for start, end in self.runs)
        return self.budget_slot_s - self.gang * served_s

    def waits(self) -> list[tuple[float, float]]:
        """When it had no slots."""
        edges = [self.entered_s, *(edge for piece in self.runs for edge in piece), self.left_s]
        return list(zip(edges[::2], edges[1::2], strict=True))


def stays(records, jobs, limit_slot_s, factor):
    """Every job's stays in the first group, and when it ran below it.

    Levels follow from the slots that a job held and from the rule alone: out of the first group
    with ``limit_slot_s`` of service since it entered, back into it after waiting ``factor`` times
    as long as it has run.
    """
    found: list[Stay] = []
    below: dict[str, list[tuple[float, float]]] = {}
    for spec in jobs:
        gang, work = spec.requested_slots, spec.work_samples
        below[spec.job_id] = []
        now_s, executed_s = spec.arrival_s, 0.0
        stay = Stay(spec.job_id, gang, now_s, now_s, min(limit_slot_s, work), is_promoted=False)
        inside = True
        found.append(stay)
        for start_s, end_s, _ in periods(records, spec.job_id):
            due_s = now_s + factor * executed_s
            if not inside and due_s <= start_s + NEAR_S:
                left = work - gang * executed_s
                entered_s = min(due_s, start_s)
                stay = Stay(spec.job_id, gang, entered_s, spec.arrival_s,
                            min(limit_slot_s, left), is_promoted=True)  # fmt: skip
                inside = True
                found.append(stay)
            out_s = start_s + stay.still_to_serve_slot_s(start_s) / gang if inside else start_s
            if inside:
                stay.runs.append((start_s, min(out_s, end_s)))
                stay.left_s = stay.runs[-1][1]
                inside = out_s > end_s + NEAR_S
            if out_s < end_s - NEAR_S:
                below[spec.job_id].append((max(start_s, out_s), end_s))
            now_s, executed_s = end_s, executed_s + (end_s - start_s)
    return found, below


def overlap_s(one, other):
    return min(one[1], other[1]) - max(one[0], other[0])


def check(rows, limits, factor, num_slots):
    """Replay and hold every stay to the bound; those that began with a promotion."""
    jobs = [
        job(f"{i:02d}", at, slots, slots * seconds) for i, (at, slots, seconds) in enumerate(rows)
    ]
    records, _ = run(jobs, Tiresias(limits, promote_after=factor), cluster(1, num_slots))
    assert {record.state for record in records.jobs} == {"finished"}
    found, below = stays(records, jobs, limits[0], factor)
    for own in found:
        waited_s = sum(end - start for start, end in own.waits())
        others = [stay for stay in found if stay.job_id != own.job_id]
        ahead = [
            stay.still_to_serve_slot_s(own.entered_s)
            for stay in others
            if stay.is_before(own) and stay.left_s > own.entered_s
        ]
        assert waited_s <= sum(ahead) / (num_slots - own.gang + 1) + NEAR_S
        later = [
            piece
            for stay in others
            if stay.gang >= own.gang and not stay.is_before(own)
            for piece in stay.runs
        ]
        lower = [
            piece
            for spec in jobs
            if spec.requested_slots >= own.gang and spec.job_id != own.job_id
            for piece in below[spec.job_id]
        ]
        for wait in own.waits():
            assert all(overlap_s(wait, piece) < NEAR_S for piece in [*later, *lower])
    return [stay for stay in found if stay.is_promoted]


def test_the_bound_worked_by_hand_is_reached():
    """One slot, limit 10, promotion after twice the executed time.

    a has run 10 s when b, c and d arrive at 10 s, and is due at 30 s. Then d and e are before it
    in the first group, each with 10 s to go: it runs at 30 + 20 s, before f, which came at 35 s.
    """
    rows = [(0, 1, 30), (10, 1, 10), (10, 1, 10), (10, 1, 10), (25, 1, 10), (35, 1, 10)]
    (promoted,) = check(rows, [10], 2.0, 1)
    assert (promoted.job_id, promoted.entered_s) == ("00", 30.0)
    assert promoted.waits()[0] == (30.0, 50.0)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.integers(0, 80), st.sampled_from([1, 1, 1, 2, 3, 4]), st.integers(1, 60)),
        min_size=1,
        max_size=16,
    ),
    st.sampled_from([(7,), (5, 30), (1, 2, 60)]),
    st.sampled_from([0.25, 1.0, 3.0]),
    st.integers(4, 6),
)
def test_a_waiting_job_is_promoted_as_promised_and_then_served_in_turn(
    rows, limits, factor, num_slots
):
    """No starvation, where changes of slots cost nothing and no slot goes down.

    Let a job of g slots have run for e seconds when it is left without slots at w, below the first
    group. Then, on M slots, with K = ``promote_after`` and L the first group's limit:

    - it is in the first group by w + K e, if it has no slots before;
    - from there until it leaves the group, with L slot-seconds or its end, it is without slots for
      no longer than sum(min(L, work left) - service) / (M - g + 1) over the jobs that are in the
      first group already, each counted from its own entry. For while it waits, those that are
      before it hold more than M - g slots, and nobody comes before it any more: who enters
      the group later, by arrival or promotion, stands behind;
    - meanwhile no job of g slots or more runs that entered the group after it, or is below it.

    So its wait ends by w + K e + n L / (M - g + 1), n being the jobs before it.
    """
    check(rows, limits, factor, num_slots)


@pytest.mark.parametrize("factor", [0.25, 1.0])
def test_a_crowd_in_which_many_are_promoted(factor):
    """So many short newcomers that without promotion the long jobs would wait for all of them."""
    rows = [(0, 1, 60), (0, 2, 60), (1, 3, 60), *((2 * i, 1 + i % 2, 5) for i in range(1, 40))]
    promoted = check(rows, [5, 30], factor, 4)
    assert {stay.job_id for stay in promoted} >= {"00", "01", "02"}
