"""Simulated speeds on several device types, with and without a plan of virtual workers."""

from dataclasses import replace

import pytest

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant
from harness.engines.simulated.options import Simulated
from harness.profiles import load_profile
from harness.profiles.read import SHIPPED
from harness.replay import DecisionError, replay
from harness.trace.model.events import TraceEvent, TraceEventKind
from tests.engines.setups import setup
from tests.replay.worlds import Driver, FirstFree, Mechanism, engine, job
from tests.schedulers.mixed import mixed, speeds

WHERE = mixed(v=2, t=2)
KNOWN = speeds(v=3.0, t=1.0)


def finish_s(grants, *, work=120.0, logical=4, events=()):
    """When a job ends whose scheduler goes through these (time, grant)."""
    spec = job("a", 0.0, 4, work, workload="net", logical_workers=logical)

    def rule(view):
        due = [grant for at_s, grant in grants if at_s <= view.time_s]
        later = [at_s for at_s, _ in grants if at_s > view.time_s]
        one = view.jobs.get("a")
        changed = one is not None and one.grant != due[-1] and not events
        return Decision(
            {"a": due[-1]} if changed or not view.time_s else {}, min(later, default=None)
        )

    mechanism = Mechanism(Abilities(True, True, True, survive=True))
    records = replay(
        jobs=[spec],
        cluster=WHERE,
        scheduler=Driver(rule),
        placement=FirstFree(),
        engine=engine(WHERE, KNOWN, mechanism, events),
        profile=KNOWN,
    )
    return records.jobs[0].finish_s


@pytest.mark.parametrize(
    ("slots", "workers", "rate"),
    [
        ((0, 1), None, 3.0),  # the curve of V
        ((0, 2), None, 1.0),  # T sets the pace
        ((2, 3), None, 1.0),
        ((0, 1), (2, 2), 6.0),  # 8 samples in the time of 2 local mini-batches of 2
        ((0, 2), (3, 1), 4.0),  # both take 2 s
        ((0, 2), (2, 2), 2.0),  # T takes 4 s
        ((0, 1, 2, 3), (1, 1, 1, 1), 4.0),
    ],
)
def test_the_rate_of_mixed_slots(slots, workers, rate):
    grant = Grant(len(slots), slots=slots, virtual_workers=workers)
    assert finish_s([(0.0, grant)]) == pytest.approx(120 / rate)


def test_a_plan_belongs_to_its_slots_whatever_their_rank():
    """The job holds slot 2 and is given (0: 3, 2: 1): slot 2 stays the first, with 1."""
    first = Grant(1, slots=(2,), virtual_workers=(4,))
    then = Grant(2, slots=(0, 2), virtual_workers=(3, 1))
    assert finish_s([(0.0, first), (20.0, then)]) == pytest.approx(20 + 100 / 4)


def test_a_new_plan_for_the_same_slots_is_a_rescale():
    first = Grant(2, slots=(0, 2), virtual_workers=(2, 2))
    then = Grant(2, slots=(2, 0), virtual_workers=(1, 3))
    assert finish_s([(0.0, first), (10.0, then)]) == pytest.approx(10 + 100 / 4)


def test_virtual_workers_of_a_lost_slot_move_to_the_others():
    """(1, 1, 1, 1) at 4 samples/s; without a V: (2, 1, 1), T and V take 2 and 4/3 s."""
    events = (
        TraceEvent(10.0, TraceEventKind.SLOTS_DOWN, (0,)),
        TraceEvent(999.0, TraceEventKind.SLOTS_UP, (0,)),
    )
    grant = Grant(4, slots=(0, 1, 2, 3), virtual_workers=(1, 1, 1, 1))
    assert finish_s([(0.0, grant)], events=events) == pytest.approx(10 + 80 / 4)


@pytest.mark.parametrize("workers", [(4,), (2, 1), (4, 0), (3, 2)])
def test_plans_that_are_not_whole_are_refused(workers):
    with pytest.raises(DecisionError, match="virtual workers"):
        finish_s([(0.0, Grant(2, slots=(0, 1), virtual_workers=workers))])


def test_a_cluster_with_unknown_device_types_is_refused_before_the_run():
    known = load_profile(SHIPPED / "v100_p100_t4.yaml")
    here = replace(setup(known, job("a", workload="lm")), cluster=mixed(v100=1, t4=1))
    (problem,) = Simulated().problems(here)
    assert "'lm' on device type 't4'" in problem
