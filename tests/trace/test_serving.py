"""Serving that takes slots from the jobs, by a curve."""

import pytest

from harness.trace.model.events import TraceEventKind
from harness.trace.model.trace import TraceError
from harness.trace.transforms import ServingDemand, TransformContext
from tests.schedulers.mixed import mixed
from tests.trace.examples import job, trace

WHERE = mixed(v=8, p=4, t=4)
TRACE = trace(*(job(number, 100.0 * number, duration_s=7000.0) for number in range(1, 5)))


def held_at(events, time_s):
    held: set[int] = set()
    for event in events:
        if event.time_s <= time_s:
            move = (
                held.update if event.kind is TraceEventKind.SLOTS_DOWN else held.difference_update
            )
            move(event.slots)
    return held


def test_demand_follows_the_cosine_and_leaves_everything_at_the_end():
    serving = ServingDemand(least=2, most=10, period_s=3600.0, every_s=600.0, until_s=7200.0)
    made = serving.apply(TRACE, TransformContext(cluster=WHERE))
    sizes = [len(held_at(made.events, 600.0 * step)) for step in range(13)]
    assert sizes == [2, 4, 8, 10, 8, 4, 2, 4, 8, 10, 8, 4, 0]
    assert "ServingDemand: 2 to 10 of 16 slots" in made.history[-1]


def test_types_are_taken_in_proportion():
    serving = ServingDemand(least=8, most=8, until_s=10.0)
    made = serving.apply(TRACE, TransformContext(cluster=WHERE))
    types = [WHERE.slots[slot].device_type for slot in held_at(made.events, 0.0)]
    assert {name: types.count(name) for name in "vpt"} == {"v": 4, "p": 2, "t": 2}


def test_it_lasts_until_the_last_job_could_have_ended():
    made = ServingDemand(1, 1).apply(TRACE, TransformContext(cluster=WHERE))
    assert made.events[-1].time_s >= 7400.0


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"least": -1, "most": 2}, "least is -1"),
        ({"least": 3, "most": 2}, "most 2 is below least 3"),
        ({"least": 1, "most": 2, "period_s": 0.0}, "period_s is 0"),
        ({"least": 1, "most": 2, "every_s": -1.0}, "every_s is -1"),
        ({"least": 1, "most": 2, "until_s": 0.0}, "until_s is 0"),
    ],
)
def test_wrong_options_are_refused(options, fact):
    with pytest.raises(ValueError, match=fact):
        ServingDemand(**options)


def test_it_needs_a_cluster_larger_than_itself():
    with pytest.raises(TraceError, match="needs a cluster"):
        ServingDemand(1, 2).apply(TRACE, TransformContext())
    with pytest.raises(TraceError, match=r"most is 16, but cluster mixed has 16 slots"):
        ServingDemand(1, 16).apply(TRACE, TransformContext(cluster=WHERE))
