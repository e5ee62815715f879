"""Worked examples and tables of the papers that are neither a scheduler's nor a backend's."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from harness.cluster import uniform_cluster
from harness.profiles import load_profile
from harness.trace.build import TRACES, load_trace
from harness.trace.transforms import TransformContext
from reports.measures.transient import break_even_s
from workloads.inception import InceptionV3
from workloads.translation import Transformer
from workloads.vision import VGG16, ResNet50

CONFIGS = Path(__file__).parents[2] / "configs"
TABLE_1 = {
    "resnet50": {64, 128, 256},
    "vgg16": {64, 128, 256},
    "inception3": {64, 128},
    "bert": {64, 128},
    "gpt2": {128, 256},
    "deepspeech2": {32, 64},
}
"""ElasticFlow, section 5: global batches of every model."""
TABLE_2_MB = {"inception3": 92, "resnet50": 98, "vgg16": 528, "transformer": 24}
"""EDL, section 6: model sizes."""


def test_hu_speed_of_nodes() -> None:
    curve = load_profile({"path": "modelarts.yaml"}).throughput("modelarts", 1)
    speeds = [curve.samples_per_s(nodes) for nodes in (1, 2, 4, 8, 16)]
    assert speeds == pytest.approx([1.0, 1.6, 2.56, 4.096, 6.5536])
    for fewer, more in pairwise(speeds):
        assert more / fewer == pytest.approx(2 * (1 - 0.2))  # 20% lost a doubling


@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_easyscale_eight_models_are_presets(size: str) -> None:
    """Section 5, table 1: four that convolve, and four others."""
    path = CONFIGS / "workload" / f"{size}.yaml"
    pool = yaml.safe_load(path.read_text(encoding="utf-8"))["pool"]
    convolve = {"shufflenetv2", "resnet50", "vgg19", "yolov3"}
    assert convolve | {"ncf", "bert_qa", "electra", "swin_t"} <= set(pool)


def test_edl_four_models_have_the_sizes_of_table_2() -> None:
    """Parameters of 4 bytes, in units of 2**20, without InceptionV3's auxiliary classifier."""
    found = {}
    for kind, size in ((InceptionV3, "paper"), (ResNet50, "paper"), (VGG16, "paper")):
        with torch.device("meta"):
            found[kind.name] = _megabytes(kind(size=size, data="synthetic"))
    with torch.device("meta"):
        found["transformer"] = _megabytes(Transformer(size="edl", data="synthetic"))
    assert found == pytest.approx(TABLE_2_MB, rel=0.02)
    assert all(found["vgg16"] > 5 * other for name, other in found.items() if name != "vgg16")


def _megabytes(workload: Any) -> float:
    own = [p for name, p in workload.build_model(0).named_parameters() if "AuxLogits" not in name]
    return sum(4 * parameter.numel() for parameter in own) / 2**20


@pytest.mark.parametrize("cluster", ["01", "02", "03", "05", "07", "08", "09"])
def test_elasticflow_pool_is_what_the_traces_draw_from(cluster: str) -> None:
    config = yaml.safe_load((TRACES / f"itp{cluster}.yaml").read_text(encoding="utf-8"))
    where = uniform_cluster(name="c", num_hosts=16, devices_per_host=8, device_type="a100")
    jobs = load_trace(config, TransformContext(cluster=where)).jobs
    pairs = {(job.workload, job.global_batch) for job in jobs}
    assert pairs == {(model, batch) for model, own in TABLE_1.items() for batch in own}
    assert len(pairs) == 14


def test_edl_four_minutes_of_a_transient_slot_do_not_pay() -> None:
    """Four slots and one for 240 s, an adjustment of 30 s at either end: 900 against 960."""
    slots, window_s, stop_s = 4, 240.0, 30.0
    used = (slots + 1) * (window_s - 2 * stop_s)
    assert (used, slots * window_s) == (900.0, 960.0)
    # The same by the figure's rule: a window has to be longer than it is.
    assert break_even_s(stop_s, gain=1 / slots) > window_s
