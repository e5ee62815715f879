"""A job's gradient buckets are in its checkpoint, and nobody goes on with others."""

import json
import re

import pytest
import torch

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from systems.runtime.reduction.bucket_layouts import LayoutError, check_layout, described
from tests.virtual.worlds import BATCH, SEED, virtual

NUM_WORKERS = 3


def test_layouts_are_compared_bucket_by_bucket():
    saved = described([["c", "b"], ["a"]])
    check_layout(saved, [["c", "b"], ["a"]])
    check_layout(saved, [])  # nothing depends on it, or it is not known yet
    for here, words in (
        ([["b", "c"], ["a"]], "bucket 0 of 2 and 2: c, b in the job's, b, c here"),
        ([["c", "b", "a"]], "no more parameters in the job's, from parameter 2 on a here"),
        ([["c", "b"]], "bucket 1 of 2 and 1: a in the job's, no such bucket here"),
    ):
        with pytest.raises(LayoutError, match="start the job from scratch") as caught:
            check_layout(saved, here)
        assert words in str(caught.value)
        assert "torch" not in str(caught.value)


def test_a_layout_of_another_torch_or_none_at_all_says_so():
    with pytest.raises(LayoutError, match=re.escape(f"1.9, and this is {torch.__version__}")):
        check_layout({"torch": "1.9", "buckets": [["a", "b"]]}, [["b", "a"]])
    check_layout({"torch": "1.9", "buckets": [["a", "b"]]}, [["a", "b"]])
    with pytest.raises(LayoutError, match="the job's state has no layout"):
        check_layout(described([]), [["a"]])


def begun(launcher, folder, reconfigure):
    """A job that trains on two slots, and the file that gives new processes other buckets."""
    world = virtual(launcher, folder, reconfigure=reconfigure)
    marker = folder / "other"
    options = {"marker": str(marker), "width": 100, "step_s": 0.005}
    workload = WorkloadSpec("other", "tests.virtual.other_buckets.OtherBuckets", options)
    start = world.start(
        (0, 1), batch=BATCH, seed=SEED, workload=workload, logical_workers=NUM_WORKERS
    )
    world.until_step(world.until_change(start).step + 3)
    return world, marker


@pytest.mark.parametrize(
    "reconfigure", ["checkpoint", pytest.param("stop_free", marks=pytest.mark.long)]
)
def test_a_checkpoint_of_other_buckets_is_refused_by_name(launcher, tmp_path, reconfigure):
    world, marker = begun(launcher, tmp_path, reconfigure)
    try:
        world.do(ChangeKind.SUSPEND)
        (manifest,) = (world.job_dir() / "checkpoints").glob("*.json")
        layout = json.loads(manifest.read_text())["values"]["layout"]
        assert layout["torch"] == torch.__version__
        (bucket,) = layout["buckets"]
        assert sorted(bucket) == ["0.bias", "0.weight", "1.bias", "1.weight", "4.bias", "4.weight"]
        marker.touch()
        world.ask(ChangeKind.RESUME, (0, 1), batch=BATCH)
        refused = world.until(lambda report: report.kind is ReportKind.FAILED)
        assert "the job's gradient buckets are not those of this worker" in refused.reason
        assert "bucket 0 of 1 and " in refused.reason
        marker.unlink()
        resumed = world.do(ChangeKind.RESUME, (0, 1), batch=BATCH)
        world.until_step(resumed.step + 3)
    finally:
        world.backend.close()


@pytest.mark.long
def test_a_newcomer_with_other_buckets_does_not_join(launcher, tmp_path):
    world, marker = begun(launcher, tmp_path, "stop_free")
    try:
        marker.touch()
        change = world.ask(ChangeKind.RESCALE, (0, 1, 2), batch=BATCH)
        refused = world.until_answered(change)
        assert refused.kind is ReportKind.FAILED
        assert "gradient buckets" in refused.reason
        world.until_step(refused.step + 5)
    finally:
        world.backend.close()
