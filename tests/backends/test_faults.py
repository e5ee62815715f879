"""Deaths, damage and delays at awkward moments."""

import json
import resource
import threading
import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from systems.backends.stop_resume import StopResume
from systems.runtime.driver.warm_pool import RuntimeSetupError
from systems.runtime.wire.step_log import read_lines
from systems.runtime.worker.checkpoint import VERSION
from tests.backends.world import (
    CLUSTER,
    World,
    consumed_ids,
    descendants,
    expected_ids,
)


@pytest.fixture
def worlds(launcher, tmp_path):
    opened = []

    def open_world(**options):
        world = World(StopResume(start="preimported", **options), launcher, tmp_path)
        opened.append(world)
        return world

    yield open_world
    for world in opened:
        world.backend.close()
    assert descendants() == []


@pytest.fixture
def suspended(worlds):
    """A world with a suspended job."""
    world = worlds()
    world.until_change(world.start((0, 1), optimizer="adamw"))
    world.do(ChangeKind.SUSPEND)
    return world


def files_of(world):
    folder = world.job_dir() / "checkpoints"
    (data,) = folder.glob("*.safetensors")
    (manifest,) = folder.glob("*.json")
    assert len(list(folder.iterdir())) == 2
    return data, manifest


def flip_a_byte(data, manifest):
    content = bytearray(data.read_bytes())
    content[-3] ^= 1
    data.write_bytes(content)


def cut_short(data, manifest):
    data.write_bytes(data.read_bytes()[:-10])


def remove(data, manifest):
    data.unlink()


def empty_manifest(data, manifest):
    manifest.write_text("")


def other_version(data, manifest):
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (flip_a_byte, "is damaged: its SHA-256"),
        (cut_short, "checkpoint"),
        (remove, "cannot be read"),
        (empty_manifest, "cannot be read"),
        (other_version, f"is not of version {VERSION}"),
    ],
)
def test_a_damaged_checkpoint_fails_the_resume_in_words(suspended, damage, fact):
    damage(*files_of(suspended))
    change = suspended.ask(ChangeKind.RESUME, (0, 1))
    failed = suspended.until(lambda report: report.kind in (ReportKind.FAILED, ReportKind.LOST))
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change)
    assert fact in failed.reason
    assert "step-" in failed.reason


def test_a_checkpoint_of_another_model_is_refused(suspended):
    other = suspended.job_dir("other")
    change = suspended.start((0,), job_id="other", optimizer="adamw", width=8)
    suspended.until_change(change)
    suspended.do(ChangeKind.SUSPEND, job_id="other")
    for old in (other / "checkpoints").iterdir():
        content = next((suspended.job_dir() / "checkpoints").glob(f"*{old.suffix}")).read_bytes()
        if old.suffix == ".json":
            name = next((suspended.job_dir() / "checkpoints").glob("*.safetensors")).name
            content = content.replace(name.encode(), old.with_suffix(".safetensors").name.encode())
        old.write_bytes(content)
    suspended.ask(ChangeKind.RESUME, (0,), job_id="other")
    failed = suspended.until(lambda report: report.kind is ReportKind.FAILED)
    assert "belongs to another model or optimizer" in failed.reason
    assert "0.weight" in failed.reason


def test_a_lost_job_goes_on_from_its_last_checkpoint_and_repeats_no_sample(worlds, tmp_path):
    marker = tmp_path / "died"
    world = worlds(checkpoint_every=8)
    change = world.start((0, 1), 40, die_at_step=21, die_once_marker=str(marker))
    world.until_change(change)
    lost = world.until_end(ReportKind.LOST)
    assert (lost.step, lost.samples) == (16, 16 * 12)
    done = world.do(ChangeKind.RESUME, (2,))
    assert done.step == 17
    end = world.until_end()
    assert end.step == 40
    ids = consumed_ids(world, 97)
    assert ids == expected_ids(end.samples, 97)
    assert sorted(ids[:97]) == list(range(97))
    assert count_samples(world.job_dir(), end.step) == (0, 0)
    steps = [line["step"] for line in read_lines(world.job_dir() / "steps.jsonl")]
    assert steps[-24:] == list(range(17, 41))


def test_a_job_whose_forking_process_was_killed_is_not_at_fault_and_resumes(worlds):
    world = worlds(checkpoint_every=8)
    world.until_change(world.start((0, 1), 40, step_s=0.01))
    world.until_step(8)
    descendants()[0].parent().kill()
    lost = world.until_end(ReportKind.LOST)
    assert lost.of_machine
    assert lost.step >= 8
    assert world.do(ChangeKind.RESUME, (0,)).step == lost.step + 1
    assert world.until_end().step == 40


def test_a_job_whose_workers_the_system_refuses_to_start_is_not_at_fault(launcher, tmp_path):
    world = World(StopResume(), launcher, tmp_path)
    _, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))  # no file can be opened any more
    try:
        world.start((0, 1))
        lost = world.until_end(ReportKind.LOST)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert lost.of_machine
    assert "no workers: [Errno 24] Too many open files" in lost.reason
    world.backend.close()


def test_a_worker_killed_during_a_rescale_loses_the_job_in_the_end(worlds):
    world = worlds()
    # It dies within a step: after its last one it would not be missed (test_generation.py).
    world.until_change(world.start((0, 1, 2), step_s=2.0))
    victim = descendants()[-1]
    change = world.ask(ChangeKind.RESCALE, (0, 1))
    victim.kill()
    lost = world.until_end(ReportKind.LOST)
    assert lost.change_id == change
    assert descendants() == []
    assert world.do(ChangeKind.RESUME, (0,)).step == lost.step + 1


def test_a_start_that_takes_too_long_is_given_up(worlds):
    world = worlds(start_timeout_s=1.0)
    world.start((0, 1), step_s=30.0)
    lost = world.until_end(ReportKind.LOST)
    assert "no start in time: all 2 workers have connected but do not train" in lost.reason
    assert descendants() == []


def test_a_stop_that_takes_too_long_is_given_up(worlds):
    world = worlds(stop_timeout_s=0.5)
    world.until_change(world.start((0, 1), step_s=1.5))
    change = world.ask(ChangeKind.SUSPEND)
    lost = world.until_end(ReportKind.LOST)
    assert lost.change_id == change
    assert "no save and stop in time" in lost.reason


def test_a_launcher_that_cannot_start_fails_the_job_in_words(launcher, tmp_path):
    hosts = tuple(
        type(host)(host.name, host.rack, host.slots, "192.0.2.7") for host in CLUSTER.hosts
    )
    elsewhere = type(CLUSTER)("far", hosts, CLUSTER.slots, {})
    world = World(StopResume(), launcher, tmp_path, elsewhere)
    world.start((0, 1))
    failed = world.until_end(ReportKind.FAILED)
    assert "host '192.0.2.7' is not this machine" in failed.reason
    world.backend.close()


def test_a_bind_address_that_is_not_ours_is_refused(launcher):
    with pytest.raises(RuntimeSetupError, match=r"cannot listen on bind='192\.0\.2\.7'"):
        StopResume(bind="192.0.2.7").open(CLUSTER, launcher)


def test_wrong_options_are_refused_all_at_once():
    with pytest.raises(ValueError, match="known: cold, preimported, spare") as caught:
        StopResume(start="lukewarm", device="abacus", checkpoint_every=-1, stop_timeout_s=0)
    assert len(str(caught.value).splitlines()) == 4


def test_a_driver_that_does_not_poll_loses_nothing(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), 200))
    deadline = time.monotonic() + 20
    last_step = 0
    while last_step < 200 and time.monotonic() < deadline:
        threading.Event().wait(0.02)
        last_step = max(
            (line["step"] for line in read_lines(world.job_dir() / "steps.jsonl")), default=0
        )
    assert last_step == 200
    assert world.until_end().step == 200
