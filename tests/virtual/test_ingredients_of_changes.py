"""Where slots change, too: without any one ingredient the bits differ from the change on, and the
comparison names that ingredient.

The job begins on one slot with all that it needs. Then it goes on on two others, whose processes
lack the ingredient, or did not get it from those before. It is compared with one that stays on its
slot; that such a one, and one that lacks nothing, are stock training's is tested too.
"""

import re

import pytest

from harness.consistency.__main__ import main
from harness.contracts.change import ChangeKind
from harness.contracts.evidence import Evidence
from systems.runtime.wire.step_log import read_lines
from tests.virtual import carried, without
from tests.virtual.test_ingredients import (
    BATCH,
    job_without,
    stock_training,
)
from tests.virtual.worlds import virtual

FIRST, SECOND = (0,), (1, 2)
ALL = Evidence(1, 10**6, tensors=True)
ONLY_AT_FIRST = {"bucket layout"}
"""Ingredients of ``without`` that a job needs in its first step alone; ``carried`` has another."""
PRESENT = sorted(set(without.REMOVE) - {"nothing"} - ONLY_AT_FIRST)
QUICK = {("stop_free", "buffers", True)}


@pytest.fixture(scope="module")
def fixed(launcher, tmp_path_factory):
    """Trains a job that stays on its slot for at least so many steps; an earlier one will do."""
    made = {}

    def at_least(num_steps):
        if max(made, default=0) < num_steps:
            world = virtual(launcher, tmp_path_factory.mktemp("fixed"))
            try:
                job_without(world, FIRST, "nothing", ALL, steps=num_steps)
                world.until_end()
            finally:
                world.backend.close()
            made[num_steps] = world.job_dir()
        return made[max(made)]

    return at_least


def changed(launcher, folder, reconfigure, ingredient, *, is_carried=False):
    """The directory of a job that lacks an ingredient from its change of slots on, the step before
    which that was, and its last."""
    world = virtual(launcher, folder, reconfigure=reconfigure)
    once = folder / "once"
    lacking = {"once": str(once), "carried": is_carried}
    try:
        start = job_without(world, FIRST, ingredient, ALL, **lacking)
        world.until_step(world.until_change(start).step + 2)
        once.touch()
        step = world.do(ChangeKind.RESCALE, SECOND, batch=BATCH).step
        world.until_step(step + 3)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    before = list(read_lines(world.job_dir() / "generations.jsonl"))[1]["resumed_at"]
    return world.job_dir(), before, end.step


@pytest.mark.long
@pytest.mark.parametrize("reconfigure", ["stop_free", "checkpoint"])
def test_with_all_of_them_the_jobs_are_equal(launcher, tmp_path, reconfigure, capsys):
    job, before, last = changed(launcher, tmp_path, reconfigure, "nothing")
    assert 0 < before < last
    folder = tmp_path / "stock"
    folder.mkdir()
    assert main([str(stock_training(folder, last)), str(job)]) == 0
    assert f"evidence of {last} steps agrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reconfigure", "ingredient", "is_carried"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.long)
        for reconfigure in ("stop_free", "checkpoint")
        for case in [
            *((reconfigure, name, False) for name in PRESENT),
            *((reconfigure, name, True) for name in carried.REMOVE),
        ]
    ],
)
def test_the_ingredient_that_lacks_from_a_change_on_is_named(
    launcher, fixed, tmp_path, capsys, reconfigure, ingredient, is_carried
):
    job, before, last = changed(launcher, tmp_path, reconfigure, ingredient, is_carried=is_carried)
    assert main([str(fixed(last)), str(job)]) == 1
    text = capsys.readouterr().out
    assert f"points to: {ingredient}" in text, text
    found = re.match(r"different from step (\d+) on", text)
    assert found is not None, text
    assert int(found[1]) == before + 1, text
