"""Work at the lowest priority, by whoever cannot raise a priority again."""

import os
import threading
from contextlib import suppress

import psutil
import pytest

from harness.contracts.engine import ChangeKind
from harness.contracts.training import ReportKind
from systems.backends.stop_free import StopFree
from systems.runtime.giving_way import giving_way
from tests.backends.world import World, workers


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_call_has_the_lowest_priority():
    before = niceness()
    assert giving_way(niceness) == 19
    assert niceness() == before < 19


def test_what_the_call_raises_is_raised():
    def fails():
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        giving_way(fails)


def test_newcomers_cannot_give_way_where_they_would_keep_the_priority():
    with pytest.raises(ValueError, match="prefetch_steps is 2") as error:
        StopFree(gives_way=True, prefetch_steps=2)
    assert "gives_way=false" in str(error.value)


def nicenesses():
    """Of all threads of all workers."""
    found = set()
    for process in workers():
        for thread in process.threads():
            with suppress(ProcessLookupError):
                found.add(os.getpriority(os.PRIO_PROCESS, thread.id))
    return found


@pytest.mark.parametrize("start", ["cold", "preimported"])
def test_newcomers_give_way_until_they_are_ready(launcher, tmp_path, start):
    world = World(StopFree(start=start, gives_way=True), launcher, tmp_path)
    try:
        world.until_change(world.start((0,), step_s=0.002))
        change, seen = world.ask(ChangeKind.RESCALE, (0, 1)), set()
        while not any(r.change_id == change and r.kind is ReportKind.DONE for r in world.reports):
            with suppress(psutil.NoSuchProcess):
                seen |= nicenesses()
            world.poll(0.001)
        assert seen == {0, 19}
        assert nicenesses() == {0}
        world.backend.hold("job", 0)
        world.until_end()
    finally:
        world.backend.close()
