"""Strong and weak scaling of a job that real workers train while it grows and shrinks."""

import pytest

from harness.results.store import load_run
from harness.validate import check_run
from tests.config.commands import command
from tests.consistency.worlds import BATCH, grow_and_shrink, write_files

__all__ = ["command"]


@pytest.mark.parametrize(
    ("scaling", "batches"),
    [
        ("strong", {(1, BATCH), (2, BATCH)}),
        ("weak", {(1, BATCH), (2, 2 * BATCH)}),
    ],
)
@pytest.mark.parametrize(
    "backend", ["stop_free", pytest.param("stop_resume", marks=pytest.mark.long)]
)
@pytest.mark.long
def test_the_batch_follows_the_slots_or_does_not(tmp_path, command, backend, scaling, batches):
    trace, pool = write_files(tmp_path)
    answer = command(
        *(f"trace={trace}", f"workload={pool}", "cluster=cpu2", "profile=recorded"),
        *("engine=live", "engine.fast_forward=false", f"scaling={scaling}"),
        *(f"backend={backend}", "backend.start=preimported", *grow_and_shrink()),
    )
    assert answer.code == 0, answer.err
    (path,) = command.results.iterdir()
    assert check_run(path) == []
    run = load_run(path)
    steps = run.records.steps
    assert {(step.num_workers, step.global_batch) for step in steps} == batches
    assert sum(step.global_batch for step in steps) >= 60 * BATCH
    assert run.metrics["samples_missed"] == run.metrics["samples_repeated"] == 0
