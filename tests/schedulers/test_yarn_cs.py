"""YARN-CS: strict FIFO in gangs of one device type."""

import random

import pytest

from harness.contracts.decision import Refuse
from harness.trace.model.events import TraceEvent, TraceEventKind
from systems.schedulers.fifo import Fifo
from systems.schedulers.yarn_cs import YarnCs
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.mixed import BATCH, held_types, mixed, run_mixed, speeds
from tests.schedulers.world import run

KNOWN = speeds(v=2.0, t=1.0)


def net(job_id, arrival_s=0.0, slots=1, work=100.0, **more):
    return job(job_id, arrival_s, slots, work, **{"workload": "net", "global_batch": BATCH} | more)


def test_the_fastest_type_that_has_room_and_nobody_overtakes():
    """a: 2 V; b: 2 T, though one V is left; c: 3 of one type: waits; d fits, and waits too."""
    where = mixed(v=3, t=3)
    jobs = [net("a", 0.0, 2), net("b", 1.0, 2), net("c", 2.0, 3), net("d", 3.0, 1)]
    records, _ = run_mixed(jobs, YarnCs(), where, KNOWN)
    held = {one.job_id: held_types(records, where, one.job_id) for one in jobs}
    assert held["a"] == [(0.0, "v v")]
    assert held["b"] == [(1.0, "t t")]
    (c_starts, c_types), (d_starts, _) = held["c"][0], held["d"][0]
    # Two slots are as fast as one here (the profile ends at one): 50 s on V.
    assert (c_starts, c_types) == (50.0, "v v v")
    assert d_starts == 50.0


def test_a_job_that_no_type_can_hold_is_refused():
    _, recorder = run_mixed([net("a", 0.0, 3)], YarnCs(), mixed(v=2, t=2), KNOWN)
    (refusal,) = recorder.decisions[0].changes.values()
    assert isinstance(refusal, Refuse)
    assert "3 slots at once of one device type" in refusal.reason


def test_one_each_is_reckoned_without_communication():
    """Curve: two slots as fast as one, 50 s. Plan: each does half, 25 s."""
    for one_each, took_s in ((False, 50.0), (True, 25.0)):
        records, recorder = run_mixed(
            [net("a", 0.0, 2)], YarnCs(one_each=one_each), mixed(v=2, t=2), KNOWN
        )
        assert records.jobs[0].finish_s == pytest.approx(took_s)
        (grant,) = recorder.decisions[0].changes.values()
        assert grant.virtual_workers == ((1, 1) if one_each else None)


def test_a_slot_that_is_down_is_not_counted():
    """When a ends, at 50 s, one of its V is down: b waits for both T, though a V is free."""
    where = mixed(v=2, t=2)
    events = (
        TraceEvent(50.0, TraceEventKind.SLOTS_DOWN, (0,)),
        TraceEvent(9000.0, TraceEventKind.SLOTS_UP, (0,)),
    )
    jobs = [net("a", 0.0, 2), net("t", 0.0, 2, 60.0), net("b", 1.0, 2)]
    records, _ = run_mixed(jobs, YarnCs(), where, KNOWN, events=events)
    assert held_types(records, where, "a") == [(0.0, "v v")]
    assert held_types(records, where, "b")[0] == (60.0, "t t")


@pytest.mark.parametrize("seed", range(40))
def test_on_one_type_it_is_fifo(seed):
    rng = random.Random(seed)
    jobs = [
        job(f"{i}", float(rng.randint(0, 30)), rng.randint(1, 4), float(rng.randint(1, 60)))
        for i in range(10)
    ]
    outages = ((rng.randrange(4), 5, 20),) if seed % 2 else ()

    def periods_under(scheduler):
        chaos = ChaosEngine(cluster(), seed, outages=outages, max_delay_s=seed % 3)
        records, _ = run(jobs, scheduler, chaos=chaos)
        return sorted((g.job_id, g.start_s, g.end_s, len(g.slots)) for g in records.grants)

    assert periods_under(YarnCs()) == periods_under(Fifo())
