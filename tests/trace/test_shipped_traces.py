"""The shipped data are what their publishers describe, and their copies are unchanged."""

import hashlib

import pytest
import yaml

from harness.trace.build import TRACES, load_trace
from harness.trace.transforms import TransformContext

SHA256 = {
    "195job.csv": "80eb7ae03ba5b19cbe9aa7ee68cf93ee438495b48aa18e414c83bdd8a400e5fb",
    "at_once.csv": "a815aeedcd9d7f6978998d0a3206e2bb67e14ac0560acd406c66298a3cb0b8d3",
    "philly.csv.gz": "f6dd0403b813f3eec01e425898a50d0c9fca56c98fcfad73901f05d1d8602bfe",
    "resnet_cifar_trace.csv": "c0ecea90eb139a0ae05fe77514c552bcfb60517dbd4cb8c5f46c00e527e9044e",
}
NAMES = sorted(path.stem for path in TRACES.glob("*.yaml"))


class Flat:
    """A profile in which every workload makes 10 samples per second and slot."""

    name = "flat"

    def throughput(self, workload, global_batch):
        return self

    def samples_per_s(self, num_slots):
        return 10.0 * num_slots


def load(name):
    config = yaml.safe_load((TRACES / f"{name}.yaml").read_text())
    return load_trace(config, TransformContext(profile=Flat()))


def slot_hours(trace):
    return sum(job.duration_s * job.requested_slots for job in trace.jobs) / 3600


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_loads_and_says_where_it_is_from(name):
    trace = load(name)
    assert trace.name == name
    assert trace.source.startswith(("https://", "written for "))
    assert trace.licence
    assert trace.jobs[0].arrival_s == 0.0
    assert trace.digest == load(name).digest


def test_every_data_file_is_an_unchanged_copy():
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (TRACES / "data").iterdir()
    }
    assert found == SHA256


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
