"""Jobs on slots of one device: each is slower for the others, to the exact moment; and a grant that
does not ask to share waits for devices of its own."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cluster import Cluster, uniform_cluster
from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.event import EventKind
from harness.metrics.compute import compute
from harness.replay import DecisionError
from harness.replay.occupancy import Occupancy
from harness.trace.model.events import TraceEvent, TraceEventKind, on_devices
from tests.examples import examples
from tests.replay.worlds import Driver, Mechanism, job, simulate

SHARES = Mechanism(Abilities(True, True, True, True, share_device=True))


def shared(num_hosts: int = 1, devices: int = 2, speed: tuple[float, ...] = (1.0, 0.6)) -> Cluster:
    """Devices with a slot for each factor of ``speed``: slots 0 and 1 on the first, and so on."""
    return uniform_cluster(
        name="shared",
        num_hosts=num_hosts,
        devices_per_host=devices,
        device_type="test",
        slots_per_device=len(speed),
        shared_speed=list(speed),
    )


def named(**slots: tuple[int, ...]) -> Driver:
    """Grants these slots to each job whenever it has none, whoever else is on their devices."""

    def rule(view):
        return Decision(
            {
                job_id: Grant(len(slots[job_id]), slots=slots[job_id], share=0.5)
                for job_id, known in view.jobs.items()
                if known.grant is None
            }
        )

    return Driver(rule)


def ends(records) -> dict[str, float]:
    return {record.job_id: record.finish_s for record in records.jobs}


def test_two_on_a_device_are_slower_while_they_are_two():
    """a makes 20 alone, then both 0.6 a second until b has made 60, then a is alone again."""
    jobs = [job("a", 0, 1, 100), job("b", 20, 1, 60)]
    records = simulate(jobs, named(a=(0,), b=(1,)), on=shared(), mechanism=SHARES)
    assert ends(records) == pytest.approx({"b": 120.0, "a": 140.0})
    assert {record.samples_done for record in records.jobs} == {100.0, 60.0}
    (held,) = [grant for grant in records.grants if grant.job_id == "a"]
    assert held.speedup == pytest.approx(100 / 140)


def test_on_devices_of_their_own_nobody_is_slower():
    jobs = [job("a", 0, 1, 100), job("b", 20, 1, 60)]
    records = simulate(jobs, named(a=(0,), b=(2,)), on=shared(), mechanism=SHARES)
    assert ends(records) == {"a": 100.0, "b": 80.0}


def test_a_gang_goes_at_the_pace_of_its_slowest_worker():
    """wide has both devices, 2 a second; from 10 s on a guest on one of them makes it 1.2."""
    jobs = [job("wide", 0, 2, 80), job("guest", 10, 1, 30)]
    records = simulate(jobs, named(wide=(0, 2), guest=(3,)), on=shared(), mechanism=SHARES)
    assert ends(records) == pytest.approx({"guest": 60.0, "wide": 60.0})


def test_three_on_a_device():
    """At 1, then at 0.5 each from 10 s, then at 0.25 each from 20 s on."""
    jobs = [job("a", 0, 1, 20), job("b", 10, 1, 30), job("c", 20, 1, 100)]
    where = shared(1, 1, (1.0, 0.5, 0.25))
    records = simulate(jobs, named(a=(2,), b=(0,), c=(1,)), on=where, mechanism=SHARES)
    # a: 10 + 5, and 5 more at 0.25 to 40 s; b: 5 + 5, and 20 more at 0.5 to 80 s.
    assert ends(records) == pytest.approx({"a": 40.0, "b": 80.0, "c": 80.0 + (100 - 5 - 20)})


def test_who_is_stopped_for_a_change_slows_nobody():
    """A start stops for 5 s: b is beside a from 15 s on."""
    jobs = [job("a", 0, 1, 100), job("b", 10, 1, 1000)]
    costs = {"pause_s": 5.0}
    records = simulate(jobs, named(a=(0,), b=(1,)), on=shared(), mechanism=SHARES, costs=costs)
    # a trains from 5 s on: 10 samples by 15 s, 90 more at 0.6.
    assert ends(records)["a"] == pytest.approx(15.0 + 90 / 0.6)


def test_who_prepares_slows_nobody_and_trains_on_where_it_was():
    """wide grows onto a's device: prepared from 10 to 14 s, as slow as a neighbour from then on."""

    def rule(view):
        if view.time_s == 0:
            grants = {"a": (0,), "wide": (2,)}
            named_ones = {i: Grant(1, slots=slots, share=0.5) for i, slots in grants.items()}
            return Decision(named_ones, wake_s=10.0)
        if view.time_s == 10:
            return Decision({"wide": Grant(2, slots=(2, 1), share=0.5)})
        return Decision()

    cells = [
        {"preparation_s": 0.0, "pause_s": 0.0},
        {"kind": "rescale", "preparation_s": 4.0, "pause_s": 0.0},
    ]
    jobs = [job("a", 0, 1, 100), job("wide", 0, 1, 1000, max_slots=2)]
    records = simulate(jobs, Driver(rule), on=shared(), mechanism=SHARES, cells=cells)
    assert ends(records)["a"] == pytest.approx(14.0 + 86 / 0.6)
    # 14 at 1 a second, then 1.2 until a ends, then 2.
    left = 1000 - 14 - 1.2 * 86 / 0.6
    assert ends(records)["wide"] == pytest.approx(14.0 + 86 / 0.6 + left / 2)


def test_a_neighbour_does_not_disturb_a_change_under_way():
    """The end of a's preparation stays at 16 s although b comes beside it at 14 s."""

    def rule(view):
        if "a" in view.jobs and view.jobs["a"].grant is None:
            return Decision({"a": Grant(1, slots=(0,), share=0.5)}, wake_s=10.0)
        if view.time_s == 10:
            return Decision({"a": Grant(2, slots=(0, 2), share=0.5)})
        if any(event.kind is EventKind.ARRIVAL for event in view.news):
            return Decision({"b": Grant(1, slots=(1,), share=0.5)})
        return Decision()

    cells = [
        {"preparation_s": 0.0, "pause_s": 0.0},
        {"kind": "rescale", "preparation_s": 6.0, "pause_s": 0.0},
    ]
    jobs = [job("a", 0, 1, 100, max_slots=2), job("b", 14, 1, 1000)]
    records = simulate(jobs, Driver(rule), on=shared(), mechanism=SHARES, cells=cells)
    grown = next(change for change in records.changes if change.kind == "rescale")
    assert (grown.ended_s, grown.outcome) == (16.0, "done")
    assert ends(records)["a"] == pytest.approx(16.0 + (100 - 14 - 2 * 0.6) / 1.2)


def test_checkpoints_hold_what_was_done_by_then_at_every_speed():
    """Each 10 s: 10, 20, then at 30 s what 25 s alone and 5 s beside b made, 28. b slows a down
    from 25 s on; the crash at 37 s costs a what it made after 30 s."""
    crash = TraceEvent(37.0, TraceEventKind.CRASH, job_id="a")
    jobs = [job("a", 0, 1, 100), job("b", 25, 1, 1000)]
    records = simulate(
        jobs,
        named(a=(0,), b=(1,)),
        on=shared(),
        mechanism=SHARES,
        events=(crash,),
        checkpoint_every_s=10.0,
    )
    assert ends(records)["a"] == pytest.approx(37.0 + (100 - 28) / 0.6)


def test_a_job_whose_processes_are_ending_is_not_held_up_by_a_neighbour():
    """a has its last sample at 100 s and ends 8 s later, although b comes at 104 s."""
    cells = [
        {"preparation_s": 0.0, "pause_s": 0.0},
        {"kind": "stop", "preparation_s": 0.0, "pause_s": 8.0},
    ]
    jobs = [job("a", 0, 1, 100), job("b", 104, 1, 1000)]
    driver = named(a=(0,), b=(1,))
    records = simulate(jobs, driver, on=shared(), mechanism=SHARES, cells=cells)
    assert ends(records)["a"] == 108.0


@pytest.mark.parametrize(("workers", "took_s"), [((2, 1), 40.0), ((1, 2), 20.0)])
def test_a_plan_of_virtual_workers_is_slowed_slot_by_slot(workers, took_s):
    """Each computes 8 / 3 samples a step, at 1 a second alone: a step of 32 / 3 s where two are on
    the device that b halves, of 16 / 3 s where one is; so 0.75 or 1.5 samples a second."""
    plans = {"a": ((0, 2), workers), "b": ((1,), None)}

    def rule(view):
        return Decision(
            {
                i: Grant(len(plans[i][0]), plans[i][0], share=0.5, virtual_workers=plans[i][1])
                for i, known in view.jobs.items()
                if known.grant is None
            }
        )

    jobs = [job("a", 0, 3, 30, logical_workers=3), job("b", 0, 1, 10_000)]
    where = shared(1, 2, (1.0, 0.5))
    records = simulate(jobs, Driver(rule), on=where, mechanism=SHARES)
    assert ends(records)["a"] == pytest.approx(took_s)


def test_who_does_not_ask_to_share_waits_for_devices_of_its_own():
    """One device; b's grant names its free second slot, but only share < 1 may begin beside a."""
    for share, begins in ((1.0, 100.0), (0.5, 20.0)):

        def rule(view, share=share):
            slots = {"a": (0,), "b": (1,)}
            return Decision(
                {
                    i: Grant(1, slots=slots[i], share=share)
                    for i, known in view.jobs.items()
                    if known.grant is None
                }
            )

        jobs = [job("a", 0, 1, 100), job("b", 20, 1, 60)]
        records = simulate(jobs, Driver(rule), on=shared(1, 1), mechanism=SHARES)
        first = {record.job_id: record.first_start_s for record in records.jobs}
        assert first == {"a": 0.0, "b": begins}


def test_placements_are_offered_one_slot_of_every_device_that_nobody_is_on():
    free = Occupancy(shared(2, 2))
    assert [list(free.on_host(host)) for host in (0, 1)] == [[0, 2], [4, 6]]
    free.take([1])
    assert (list(free.on_host(0)), free.num_free) == ([2], 3)
    free.take([0])
    free.release([1])
    assert list(free.on_host(0)) == [2]
    free.mark_down(1)
    free.release([0])
    free.mark_down(4)
    assert [list(free.on_host(host)) for host in (0, 1)] == [[0, 2], [5, 6]]
    free.mark_down(5)
    assert (list(free.on_host(1)), list(free.hosts_with(1)), free.num_free) == ([6], [1], 3)
    free.mark_up(5)
    free.mark_up(4)
    assert [list(free.on_host(host)) for host in (0, 1)] == [[0, 2], [4, 6]]
    assert free.is_free([1], beside_others=True) is False
    assert free.is_free([0]) is True


@pytest.mark.parametrize(
    ("grant", "mechanism", "message"),
    [
        (Grant(1, slots=(0,), share=0.5), Mechanism(), "the backend cannot share a device"),
        (Grant(1, share=0.5), SHARES, "share 0.5, but no slots are named"),
        (Grant(1, slots=(0,), share=0.0), SHARES, "share 0.0 is not above 0 and at most 1"),
    ],
)
def test_grants_that_share_wrongly_are_refused(grant, mechanism, message):
    driver = Driver(lambda _: Decision({"a": grant}))
    with pytest.raises(DecisionError, match=message):
        simulate([job("a")], driver, on=shared(), mechanism=mechanism)


def test_efficiency_counts_devices_and_the_bound_is_left_out():
    """Two jobs at 0.6 each all the time: 1.2 of one device; both of its two slots held."""
    jobs = [job("a", 0, 1, 60), job("b", 0, 1, 60)]
    records = simulate(jobs, named(a=(0,), b=(1,)), on=shared(1, 1), mechanism=SHARES)
    found = compute(records)
    assert found["cluster_efficiency_mean"] == pytest.approx(1.2)
    assert found["slot_utilization_mean"] == pytest.approx(1.0)
    assert "jct_bound_mean_s" not in found


def test_a_device_goes_down_with_all_its_slots():
    crash = TraceEvent(5.0, TraceEventKind.CRASH, job_id="a")
    down = TraceEvent(7.0, TraceEventKind.SLOTS_DOWN, (0, 3))
    crashed, gone = on_devices((crash, down), shared(2, 2).devices)
    assert (crashed, gone.slots) == (crash, (0, 1, 6, 7))


def reckless(seed: int, where: Cluster):
    """Grants named slots at random, beside whomever, and suspends at random."""
    rng = random.Random(seed)

    def rule(view):
        changes: dict[str, Grant | Suspend] = {}
        known = sorted(view.jobs.values(), key=lambda one: one.spec.order)
        for one in known:
            if one.grant is not None and rng.random() < 0.2:
                changes[one.job_id] = Suspend()
        taken = {
            slot
            for one in known
            if one.grant is not None and one.job_id not in changes
            for slot in one.slots
        }
        for one in known:
            left = [slot for slot in range(where.num_slots) if slot not in taken]
            if one.grant is None and left and rng.random() < 0.7:
                slots = tuple(rng.sample(left, rng.randint(1, min(3, len(left)))))
                taken.update(slots)
                changes[one.job_id] = Grant(len(slots), slots=slots, share=0.5)
        return Decision(changes, view.time_s + rng.randint(1, 20))

    return Driver(rule)


@settings(deadline=None, max_examples=examples(80))
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 200)), min_size=1, max_size=8),
    st.integers(0, 2**16),
    st.sampled_from([(1.0, 0.6), (1.0, 0.55, 0.3)]),
)
def test_every_job_makes_its_work_at_the_speeds_of_its_neighbourhoods(rows, seed, speed):
    """The work of every job, added up piece by piece from who held what when."""
    where = shared(2, 2, speed)
    jobs = [job(f"{i}", at, 1, work) for i, (at, work) in enumerate(rows)]
    records = simulate(jobs, reckless(seed, where), on=where, mechanism=SHARES)
    times = sorted({t for grant in records.grants for t in (grant.start_s, grant.end_s)})
    made = dict.fromkeys(ends(records), 0.0)
    for start_s, end_s in pairwise(times):
        here = [g for g in records.grants if g.start_s <= start_s and end_s <= g.end_s]
        on = [where.device_of[slot] for grant in here for slot in grant.slots]
        for grant in here:
            factor = min(speed[on.count(where.device_of[slot]) - 1] for slot in grant.slots)
            made[grant.job_id] += len(grant.slots) * factor * (end_s - start_s)
    work = {record.job_id: record.work_samples for record in records.jobs}
    assert made == pytest.approx(work)
    assert {record.state for record in records.jobs} == {"finished"}
