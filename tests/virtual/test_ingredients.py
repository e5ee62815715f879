"""Without any one ingredient the bits differ, and the comparison names that ingredient."""

import json
import subprocess
import sys

import pytest

from harness.consistency.__main__ import main
from harness.contracts.evidence import Evidence
from harness.contracts.workload import WorkloadSpec
from tests.backends.world import ENDLESS
from tests.virtual.without import REMOVE
from tests.virtual.worlds import SEED, virtual

NUM_WORKERS, STEPS, BATCH = 3, 4, 96
OPTIONS = {"width": 600}
"""Wide enough for two threads to share an operator, and for sums to have several chunks."""


def stock_training(folder, num_steps):
    """The file that the stock script writes of so many steps."""
    out = folder / "stock.jsonl"
    command = [
        *(sys.executable, "-m", "systems.peers.plain_ddp", "tests.virtual.without.Noisy"),
        *("--options", json.dumps(OPTIONS), "--workers", str(NUM_WORKERS)),
        *("--steps", str(num_steps), "--batch", str(BATCH), "--seed", str(SEED), "--out", str(out)),
        *("--bitwise", "--streams", "--forked", "--evidence", "tensors"),
        *("--evidence-steps", "1", str(num_steps)),
    ]
    subprocess.run(command, check=True, timeout=300)
    return out


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Stock DistributedDataParallel on three processes, with evidence of its steps."""
    return stock_training(tmp_path_factory.mktemp("stock"), STEPS)


def job_without(world, slots, ingredient, evidence, *, steps=ENDLESS, **lacking):
    """Start a job that lacks an ingredient; the change's id."""
    options = {"ingredient": ingredient, **lacking, **OPTIONS}
    return world.start(
        slots,
        steps,
        batch=BATCH,
        seed=SEED,
        workload=WorkloadSpec("without", "tests.virtual.without.Without", options),
        logical_workers=NUM_WORKERS,
        evidence=evidence,
    )


def trained(launcher, folder, ingredient):
    """The directory of a job on one slot whose process lacks an ingredient."""
    world = virtual(launcher, folder)
    try:
        job_without(world, (0,), ingredient, Evidence(1, STEPS, tensors=True), steps=STEPS)
        world.until_end()
    finally:
        world.backend.close()
    return world.job_dir()


def test_with_all_of_them_the_jobs_are_equal(launcher, stock, tmp_path, capsys):
    assert main([str(stock), str(trained(launcher, tmp_path, "nothing"))]) == 0
    assert capsys.readouterr().out.startswith(f"equal: losses of {STEPS} steps")


QUICK = ("buffers", "random state", "reduction order")


@pytest.mark.parametrize(
    "ingredient",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
        for name in sorted(set(REMOVE) - {"nothing"})
    ],
)
def test_the_ingredient_that_lacks_is_named(launcher, stock, tmp_path, capsys, ingredient):
    assert main([str(stock), str(trained(launcher, tmp_path, ingredient))]) == 1
    text = capsys.readouterr().out
    assert f"points to: {ingredient}" in text, text
