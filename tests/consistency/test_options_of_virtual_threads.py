"""Live runs whose jobs draw their samples, or have several processes on a slot, held to the stock
script by the run itself."""

import pytest
import yaml

from harness.results.store import load_run
from harness.validate import check_run
from tests.config.commands import command
from tests.consistency.worlds import checked, grow_and_shrink, write_files

__all__ = ["command"]
DRAWING = "tests.virtual.drawing_workload.Drawing"
AHEAD = ("backend.prefetch_steps=3", "backend.loader_processes=2")


def drawing(folder):
    """As ``write_files``, with a workload that draws."""
    trace, pool = write_files(folder, logical_workers=3)
    pool.write_text(yaml.safe_dump({"pool": {"small": {"_target_": DRAWING, "fetch_s": 0.005}}}))
    return trace, pool


@pytest.mark.long
def test_samples_that_are_drawn_are_refused_with_the_way_out(tmp_path, command):
    answer = command(*checked(drawing(tmp_path), *AHEAD))
    assert answer.code != 0
    assert "draws from the random state of NumPy and Python and torch" in answer.err
    assert "backend=virtual_thread backend.drawn_samples=true" in answer.err


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("backend.drawn_samples=true", *AHEAD), id="loaders"),
        pytest.param(("backend.drawn_samples=true",), id="in turn", marks=pytest.mark.soak),
        pytest.param(
            (
                *("backend.drawn_samples=true", *AHEAD, "backend.executors=2"),
                "backend.reconfigure=checkpoint",
            ),
            id="loaders of executors",
        ),
    ],
)
def test_drawn_samples_are_those_of_the_stock_script(tmp_path, command, words):
    answer = command(*checked(drawing(tmp_path), *words, *grow_and_shrink()))
    assert answer.code == 0, answer.err
    assert "Bitwise equal to training on fixed workers: 1 of 1 finished jobs." in answer.out
    (path,) = command.results.iterdir()
    run = load_run(path)
    assert {len(grant.slots) for grant in run.records.grants} == {1, 2}
    assert {step.num_workers for step in run.records.steps} == {1, 2}
    assert check_run(run.path) == []
