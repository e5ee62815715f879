"""The shipped data are what their publishers describe, and their copies are unchanged."""

import hashlib
import re

import pytest
import yaml

from harness.cluster import uniform_cluster
from harness.trace.build import TRACES, load_trace
from harness.trace.parsing.assemble import from_trace
from harness.trace.parsing.unit_checks import wrong_units
from harness.trace.transforms import TransformContext

NAMES = sorted(path.stem for path in TRACES.glob("*.yaml"))
# Reading 82,247 jobs and changing them twice takes seconds: long, but for Philly itself.
LARGE = {
    *("philly_crowd", "philly_deadlines", "philly_models", "philly_models_sample"),
    *("philly_two_weeks", "philly_two_weeks_shuffled", "philly_week_resampled"),
}
LARGEST = {"philly_models", "philly_two_weeks", "philly_week_resampled"}
"""Made as others among the large are, of more jobs."""


class Flat:
    """A profile in which every workload makes 10 samples per second and slot."""

    name = "flat"

    def throughput(self, workload, global_batch):
        return self

    def samples_per_s(self, num_slots):
        return 10.0 * num_slots


def load(name):
    config = yaml.safe_load((TRACES / f"{name}.yaml").read_text())
    where = uniform_cluster(name="c", num_hosts=16, devices_per_host=8, device_type="none")
    return load_trace(config, TransformContext(profile=Flat(), cluster=where))


def slot_hours(trace):
    return sum(job.duration_s * job.requested_slots for job in trace.jobs) / 3600


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in NAMES if name not in LARGE),
        *(pytest.param(name, marks=pytest.mark.long) for name in sorted(LARGE - LARGEST)),
        *(pytest.param(name, marks=pytest.mark.soak) for name in sorted(LARGEST)),
    ],
)
def test_every_configuration_loads_and_says_where_it_is_from(name):
    trace = load(name)
    assert trace.name == name
    assert trace.source.startswith(("https://", "written for "))
    assert trace.licence
    assert trace.jobs[0].arrival_s == 0.0
    assert trace.digest == load(name).digest
    assert [found.kind for found in wrong_units(from_trace(trace)) if found.rows] == []


def test_every_data_file_is_an_unchanged_copy():
    text = (TRACES.parents[1] / "DATA_LICENSES.md").read_text()
    listed = dict(re.findall(r"^\| `configs/trace/data/(.+?)` .*`([0-9a-f]{64})` \|$", text, re.M))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (TRACES / "data").iterdir()
    }
    assert found == listed


# What the publishers say, or what was counted independently in the original files:
# jobs, span in days, GPU-hours (None: there are no durations), largest demand.
@pytest.mark.parametrize(
    ("name", "jobs", "span_d", "gpu_h", "largest"),
    [
        ("itp01", 1_595, 33.75, 22_740, 64),
        ("itp02", 5_778, 59.74, 123_748, 64),
        ("itp03", 3_011, 49.35, 165_443, 64),
        ("itp05", 3_629, 59.26, 14_303, 8),
        ("itp07", 12_699, 59.44, 366_800, 16),
        ("itp08", 13_047, 42.40, 67_100, 32),
        ("itp09", 11_134, 52.44, 39_001, 1),
        ("itp195", 195, 1.99, 5_490, 16),
        ("philly", 82_247, 108.90, 978_078, 128),
        ("philly_103959", 876, 91.56, 42_816, 4),
        ("itp195_t4", 195, 1.99, 9_294, 16),
        ("pollux_workload1", 160, 0.32, None, 32),
        ("pollux_workload2", 160, 0.31, None, 48),
        ("pollux_workload3", 160, 0.32, None, 16),
        ("pollux_workload6", 160, 0.33, None, 48),
        ("pollux_realistic1", 160, 0.32, None, 16),
        ("pollux_realistic6", 160, 0.33, None, 8),
        ("pollux_double1", 320, 0.33, None, 48),
        ("tiresias60", 60, 0.02, 7, 8),
        ("chronus", 30_735, 13.99, 368_511, 32),
        ("gavel_103959", 986, 91.56, 28_379, 4),
        ("shockwave120", 120, 0.06, 198, 4),
    ],
)
def test_jobs_span_and_work(name, jobs, span_d, gpu_h, largest):
    trace = load(name)
    assert len(trace.jobs) == jobs
    assert trace.span_s / 86400 == pytest.approx(span_d, abs=0.005)
    assert max(job.requested_slots for job in trace.jobs) == largest
    if gpu_h is None:
        assert {job.duration_s for job in trace.jobs} == {None}
    else:
        assert slot_hours(trace) == pytest.approx(gpu_h, abs=0.5)


def test_openb_says_what_it_leaves_out_and_what_rounding_adds():
    trace = load("openb")
    assert len(trace.jobs) == 6_203
    assert trace.span_s / 86400 == pytest.approx(149.33, abs=0.005)
    assert {
        "1088 pods without a GPU left out",
        "861 pods that were never scheduled left out",
    } <= set(trace.history)
    (rounding,) = [note for note in trace.history if "rounded up" in note]
    parts, asked_h, given_h = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", rounding))
    assert parts / 6_203 == pytest.approx(0.415, abs=0.0005)
    assert asked_h == 51_471
    assert given_h == pytest.approx(slot_hours(trace), abs=1)


def test_openb_with_tenths_of_a_device():
    config = yaml.safe_load((TRACES / "openb.yaml").read_text())
    config["reader"]["slots_per_device"] = 10
    trace = load_trace(config, TransformContext())
    assert slot_hours(trace) / 10 == pytest.approx(51_471, rel=0.02)
    assert slot_hours(trace) / 10 > 51_471


def test_chronus_counts_deadlines_from_submission():
    trace = load("chronus")
    assert "30735 of 30940 rows, by keep_where and drop_where" in trace.history
    ratios = [(j.deadline_s - j.arrival_s) / j.duration_s for j in trace.jobs]
    assert min(ratios) == pytest.approx(1.1, abs=0.1)
    assert max(ratios) == pytest.approx(5.0, abs=0.1)
    assert sorted(ratios)[len(ratios) // 2] == pytest.approx(2.0, abs=0.05)


def test_gavel_says_which_durations_were_extrapolated():
    assert "125 durations from the speed on 1 slot times the slots" in load("gavel_103959").history


def test_samples_of_traces_that_are_too_large_to_ship():
    (job,) = load("philly_json_sample").jobs
    assert (job.requested_slots, job.owner) == (8, "ee9e8c")
    assert job.duration_s == 74 + (2 * 86400 + 5 * 3600 + 39 * 60 + 42)
    helios = load("helios_sample").jobs
    assert [job.duration_s for job in helios] == [36_848.0, 249.0, 675_233.0]
    assert [job.requested_slots for job in helios] == [1, 4, 1]
    assert [job.duration_s for job in load("acme_kalos_sample").jobs] == [8.0, 70.0]
    seren = load("acme_seren_sample").jobs
    assert [(job.duration_s, job.requested_slots) for job in seren] == [(117.0, 8), (2693.0, 8)]


def test_itp195():
    trace = load("itp195")
    assert len(trace.jobs) == 195
    assert trace.span_s / 3600 == pytest.approx(47.8, abs=0.05)
    assert slot_hours(trace) == pytest.approx(5490, abs=0.5)
    late = sum(job.deadline_s < job.arrival_s + job.duration_s for job in trace.jobs)
    assert late == 92
    assert max(job.requested_slots for job in trace.jobs) == 16
    assert {job.workload for job in trace.jobs} == {
        "resnet50",
        "vgg16",
        "inception3",
        "bert",
        "gpt2",
        "deepspeech2",
    }
    ratios = [(job.deadline_s - job.arrival_s) / job.duration_s for job in trace.jobs]
    assert 0.5 <= min(ratios) < max(ratios) <= 1.5


def test_philly():
    trace = load("philly")
    assert len(trace.jobs) == 82_247
    assert slot_hours(trace) == pytest.approx(978_078, abs=1)
    assert trace.span_s / 86400 == pytest.approx(108.90, abs=0.005)
    assert trace.generated == {"global_batch"}
    assert max(job.requested_slots for job in trace.jobs) == 128
    assert len({job.owner for job in trace.jobs}) == 15
    assert sum(job.owner == "6214e9" for job in trace.jobs) == 41_226
    keys = [(j.arrival_s, j.requested_slots, j.duration_s) for j in trace.jobs]
    assert len(keys) - len(set(keys)) == 65
    ids = [job.job_id for job in trace.jobs]
    assert ids == sorted(ids)


def test_five_jobs():
    trace = load("five_jobs")
    assert [job.job_id for job in trace.jobs] == ["0", "1", "2", "4", "3"]
    assert {job.workload for job in trace.jobs} == {"resnet50_cifar10"}
    assert trace.jobs[0].work_samples == 77215 * 256


def test_the_slice_queues_on_four_slots():
    trace = load("itp195_slice")
    original = load("itp195")
    assert [j.job_id for j in trace.jobs] == [j.job_id for j in original.jobs[:8]]
    assert {j.workload for j in trace.jobs} == {"resnet50", "vgg16", "bert", "transformer"}
    assert all(1 <= j.requested_slots <= j.max_slots == 4 for j in trace.jobs)
    load_on_four = slot_hours(trace) * 3600 / trace.span_s / 4
    assert load_on_four == pytest.approx(1.1, abs=0.1)
    for job in trace.jobs:
        alone_s = job.work_samples / (10.0 * job.requested_slots)
        assert alone_s == pytest.approx(job.duration_s)
        assert 0.5 <= (job.deadline_s - job.arrival_s) / job.duration_s <= 1.5
    at_once = max(
        sum(o.arrival_s <= j.arrival_s < o.arrival_s + o.duration_s for o in trace.jobs)
        for j in trace.jobs
    )
    assert at_once >= 5
