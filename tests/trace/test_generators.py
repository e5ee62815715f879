"""Generated traces are files, repeatable, and have the statistics that the papers publish."""

import csv
import gzip
from statistics import mean

import numpy as np
import pytest
import yaml

from harness.trace.__main__ import main
from harness.trace.build import TRACES, load_trace
from harness.trace.generators import ModelArts, Saxena, SixteenJobs
from harness.trace.generators.arrivals import DAY_S, poisson, spread
from harness.trace.transforms import TransformContext
from tests.trace.test_shipped_traces import Flat


def rng(seed=0):
    return np.random.default_rng(seed)


def drawn(folder, *arguments):
    assert main(["generate", *arguments]) == 0
    (path,) = folder.glob("*.yaml")
    config = yaml.safe_load(path.read_text())
    return load_trace(config, TransformContext(profile=Flat()), base_dir=folder)


def test_sixteen_jobs_half_a_minute_apart(tmp_path):
    trace = drawn(tmp_path, "edl16", str(tmp_path))
    assert [job.arrival_s for job in trace.jobs] == [30.0 * number for number in range(16)]
    assert {job.requested_slots for job in trace.jobs} == {4}
    assert len({job.workload for job in trace.jobs}) > 4
    assert trace.jobs[0].work_samples == 86400.0 * 40.0
    assert {"arrival_s", "workload", "duration_s"} <= trace.generated
    assert "kind=edl16, seed=0" in trace.source


def test_the_same_seed_gives_the_same_files(tmp_path):
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert main(["generate", "saxena", str(tmp_path / folder), "--seed", seed]) == 0
    text = {name: next((tmp_path / name).glob("*.csv")).read_text() for name in "abc"}
    assert text["a"] == text["b"] != text["c"]
    assert not list(tmp_path.rglob("*.part"))


def test_saxena_options_and_ranges(tmp_path):
    trace = drawn(tmp_path, "saxena", str(tmp_path), "rate=low", "categories=[1,4]", "k_max=8")
    first = {job.workload: job for job in trace.jobs}
    resnet, alexnet = first["resnet50"], first["alexnet_food101"]
    assert (resnet.global_batch, resnet.batch_range) == (32, (32, 256))
    assert (alexnet.global_batch, alexnet.batch_range) == (128, (128, 128))
    assert (resnet.duration_s, alexnet.duration_s) == (960.0, 1620.0)
    assert {job.max_slots for job in trace.jobs} == {8}


@pytest.mark.parametrize(("rate", "slots"), [("high", 10.0), ("low", 2.5), ("bursty", 6.25)])
def test_saxena_rates_are_loads_of_so_many_slots(rate, slots):
    horizon_min = 4800.0
    busy = [
        sum(row["duration"] for row in Saxena(rate=rate, horizon_min=horizon_min).draw(rng(s)).rows)
        for s in range(20)
    ]
    assert mean(busy) / (60 * horizon_min) == pytest.approx(slots, rel=0.05)


def test_saxena_one_category_has_one_length(tmp_path):
    trace = drawn(tmp_path, "saxena", str(tmp_path), "categories=[1,3]", "length_min=30")
    assert {job.duration_s for job in trace.jobs} == {1800.0}
    assert {job.global_batch for job in trace.jobs} == {32, 128}


MIXED = ["rate=bursty", "burst_min=120", "load=1.0"]
ALONE = ["length_min=30", "horizon_min=240", "load=1.0"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("c1_high", [*ALONE, "rate=high", "categories=[1]"]),
        ("c2_high", [*ALONE, "rate=high", "categories=[2]"]),
        ("c3_high", [*ALONE, "rate=high", "categories=[3]"]),
        ("c4_high", [*ALONE, "rate=high", "categories=[4]"]),
        ("c1_low", [*ALONE, "rate=low", "categories=[1]"]),
        ("c1_bursty", [*ALONE, "rate=bursty", "burst_min=60", "categories=[1]"]),
        ("mixed", [*MIXED, "horizon_min=720"]),
        ("mixed400", [*MIXED, "horizon_min=480", "cluster_slots=400"]),
    ],
)
def test_the_shipped_files_are_what_is_drawn(tmp_path, name, options):
    assert main(["generate", "saxena", str(tmp_path), "--seed", "0", *options]) == 0
    with gzip.open(TRACES / "data" / f"saxena_{name}.csv.gz", "rt", newline="") as file:
        assert file.read() == (tmp_path / "saxena_0.csv").read_text()
    given = yaml.safe_load((tmp_path / "saxena_0.yaml").read_text())
    shipped = yaml.safe_load((TRACES / "saxena.yaml").read_text())
    assert shipped["reader"]["columns"] == given["reader"]["columns"]
    assert shipped["reader"]["generated"] == given["reader"]["generated"]
    for key, values in given["transforms"][0].items():
        whole = shipped["transforms"][1][key]
        assert values == (whole if key == "_target_" else {name: whole[name] for name in values})


def test_saxena_load_of_a_cluster():
    rows = Saxena(load=1.2, cluster_slots=40, horizon_min=4800).draw(rng()).rows
    busy = sum(row["duration"] for row in rows) / (60 * 4800)
    assert busy / 40 == pytest.approx(1.2, rel=0.1)


def test_bursts_alternate_and_begin_high():
    rows = Saxena(rate="bursty", horizon_min=240, load=20.0).draw(rng()).rows
    counts = np.histogram([row["arrival"] for row in rows], bins=4, range=(0, 240 * 60))[0]
    assert counts[0] > 2 * counts[1]
    assert counts[2] > 2 * counts[3]


def test_model_arts_has_the_published_statistics():
    long_min, short_min = [], []
    for seed in range(20):
        rows = ModelArts(keep_short=True).draw(rng(seed)).rows
        assert len(rows) == 1252
        minutes = [row["duration"] / 60 for row in rows]
        long_min += [value for value in minutes if value >= 5]
        short_min += [value for value in minutes if value < 5]
        arrivals = [row["arrival"] for row in rows]
        assert arrivals == sorted(arrivals)
        assert (arrivals[0], arrivals[-1]) == (0.0, 178_898.0)
    assert len(long_min) == 20 * 447
    assert mean(long_min) == pytest.approx(232.6, rel=0.1)
    assert mean(short_min) == pytest.approx(1.95, rel=0.03)
    everything = (mean(long_min) * 447 + mean(short_min) * 805) / 1252
    assert everything == pytest.approx(84.3, rel=0.1)


def test_model_arts_baseline_is_the_long_jobs(tmp_path):
    trace = drawn(tmp_path, "modelarts", str(tmp_path))
    assert len(trace.jobs) == 447
    assert min(job.duration_s for job in trace.jobs) >= 300.0
    assert {job.workload for job in trace.jobs} == {"recorded"}
    assert trace.jobs[0].work_samples == trace.jobs[0].duration_s


def test_the_shipped_model_arts_trace_has_the_published_means():
    """Section 5.1: 1,252 jobs of 84.3 min in the mean, 447 of them of 5 min or more, of 232.6."""
    text = gzip.decompress((TRACES / "data" / "modelarts.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    minutes = [float(row["duration"]) / 60.0 for row in rows]
    long_min = [value for value in minutes if value >= 5.0]
    assert (len(minutes), len(long_min)) == (1252, 447)
    assert mean(minutes) == pytest.approx(84.3, rel=0.005)
    assert mean(long_min) == pytest.approx(232.6, rel=0.005)
    assert max(float(row["arrival"]) for row in rows) == pytest.approx(178_898.0, abs=1.0)
    assert {row["slots"] for row in rows} == {"2"}


def test_arrivals_swing_over_a_day():
    hours = np.array(spread(rng(), 20_000, 10 * DAY_S, day_share=0.8)) % DAY_S
    assert (hours < DAY_S / 2).mean() == pytest.approx(0.5 + 0.8 / np.pi, abs=0.02)
    even = np.array(spread(rng(), 20_000, 10 * DAY_S, day_share=0.0)) % DAY_S
    assert (even < DAY_S / 2).mean() == pytest.approx(0.5, abs=0.02)


def test_poisson_gaps_are_exponential():
    gaps = np.diff(poisson(rng(), [(1e6, 0.05)], 1e6))
    assert gaps.mean() == pytest.approx(20.0, rel=0.03)
    assert gaps.std() == pytest.approx(20.0, rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["saxena", "x", "rate=fast"], "saxena.rate: is 'fast'; give one of high, low, bursty"),
        (["saxena", "x", "speed=1"], "saxena.speed: unknown option"),
        (["saxena", "x", "categories=[7]"], "categories has [7]; known: 1, 2, 3, 4"),
        (["edl16", "x", "count=0"], "edl16: count is 0; draw at least 1 job"),
        (["edl16", "x", "count"], "count: is no option; give KEY=VALUE"),
        (["modelarts", "x", "short_mean_min=4"], "modelarts: short_mean_min is 4"),
        (["modelarts", "x", "nodes=17"], "modelarts: nodes is 17; give 1 to max_slots (16)"),
    ],
)
def test_wrong_options(capsys, arguments, fact):
    assert main(["generate", *arguments]) == 2
    assert fact in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["generate", "edl16", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_defaults_are_listed(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "--help"])
    out = capsys.readouterr().out
    assert "saxena: Poisson arrivals" in out
    assert f"count={SixteenJobs().count}" in out
