"""Without any one ingredient the bits differ, and the comparison names that ingredient."""

import json
import subprocess
import sys

import pytest

from harness.consistency.__main__ import main
from harness.contracts.evidence import Evidence
from harness.contracts.training import WorkloadSpec
from tests.virtual.without import REMOVE
from tests.virtual.worlds import SEED, virtual

NUM_WORKERS, STEPS, BATCH = 3, 4, 96
OPTIONS = {"width": 600}
"""Wide enough for two threads to share an operator, and for sums to have several chunks."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Stock DistributedDataParallel on three processes, with evidence of its steps."""
    out = tmp_path_factory.mktemp("stock") / "stock.jsonl"
    command = [
        *(sys.executable, "-m", "systems.reference.plain_ddp", "tests.virtual.without.Noisy"),
        *("--options", json.dumps(OPTIONS), "--workers", str(NUM_WORKERS)),
        *("--steps", str(STEPS), "--batch", str(BATCH), "--seed", str(SEED), "--out", str(out)),
        *("--bitwise", "--streams", "--evidence", "tensors"),
    ]
    subprocess.run(command, check=True, timeout=300)
    return out


def trained(launcher, folder, ingredient):
    """The directory of a job on one slot whose process lacks an ingredient."""
    world = virtual(launcher, folder)
    options = {"ingredient": ingredient, **OPTIONS}
    workload = WorkloadSpec("without", "tests.virtual.without.Without", options)
    try:
        evidence = Evidence(1, STEPS, tensors=True)
        world.start(
            (0,),
            STEPS,
            batch=BATCH,
            seed=SEED,
            workload=workload,
            logical_workers=NUM_WORKERS,
            evidence=evidence,
        )
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
