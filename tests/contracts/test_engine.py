"""One suite for every engine in configs/engine: the live one with real workers at toy size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

from harness.cluster import uniform_cluster
from harness.configuration.instantiate import build
from harness.contracts.change import Change, ChangeKind
from harness.contracts.engine import Engine
from harness.contracts.event import Event, EventKind
from harness.contracts.job import JobSpec
from harness.contracts.workload import WorkloadSpec
from harness.engines.setup import EngineSetup
from harness.profiles import load_profile
from harness.replay import replay
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEvent, TraceEventKind
from systems.backends.stop_resume import StopResume
from systems.launchers.local import Local
from systems.placements.consolidated import Consolidated
from systems.schedulers.fifo import Fifo

CONFIGS = Path(__file__).parents[2] / "configs" / "engine"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
BATCH = 16
# Those beside `live` are the same engine with other options.
ENGINES = [pytest.param(n, marks=pytest.mark.long if n.startswith("live_") else ()) for n in NAMES]
SOON = [pytest.param(n, marks=pytest.mark.long if n.startswith("live") else ()) for n in NAMES]
"""Live engines wait for real processes: most of their suite is long."""
every_engine = pytest.mark.parametrize("name", ENGINES)
every_engine_soon = pytest.mark.parametrize("name", SOON)
CLUSTER = uniform_cluster(
    name="two", num_hosts=1, devices_per_host=2, device_type="cpu", cores_per_slot=1, num_cores=2
)


def profile():
    return load_profile(
        {
            "name": "toy",
            "provenance": {
                "hardware": "none",
                "versions": "none",
                "source": "made for a test",
                "licence": "Apache-2.0",
                "trials": 3,
                "spread": "made for a test",
                "measured_here": False,
                "rescale_costs": "made for a test",
            },
            "throughput": {
                "toy": {
                    "device": "none",
                    "samples_per_s": {BATCH: {1: 4000.0, 2: 6000.0}},
                    "spread": {BATCH: {1: 0.01, 2: 0.01}},
                }
            },
            "costs": None,
            "rescale_costs": [{"preparation_s": 0.0, "pause_s": 0.5}],
        }
    )


def job(job_id: str, steps: int, slots: int = 1, arrival_s: float = 0.0) -> JobSpec:
    return JobSpec(
        job_id=job_id,
        arrival_s=arrival_s,
        workload="toy",
        requested_slots=slots,
        work_samples=float(steps * BATCH),
        global_batch=BATCH,
        min_slots=1,
        max_slots=2,
    )


def setup(
    tmp_path: Path, *jobs: JobSpec, events: tuple[TraceEvent, ...] = (), sample_s: float = 0.0
) -> EngineSetup:
    return EngineSetup(
        cluster=CLUSTER,
        jobs=jobs,
        profile=profile(),
        backend=StopResume(start="preimported"),
        launcher=Local(preimport=["torch", "torch.distributed", "workloads.toy"]),
        workloads={
            "toy": WorkloadSpec("toy", "workloads.toy.Toy", {"hidden": 8, "sample_s": sample_s})
        },
        seed=1,
        run_dir=tmp_path,
        memory_bytes_per_worker={},
        events=events,
    )


@pytest.fixture(params=ENGINES)
def opened(request, tmp_path):
    """An engine, and what closes it; nothing of it is left when the test ends."""
    with open_engine(request.param, tmp_path) as engine:
        yield engine


@contextmanager
def open_engine(
    name: str, tmp_path: Path, events: tuple[TraceEvent, ...] = (), sample_s: float = 0.0
) -> Iterator[Engine]:
    """Where an engine can, it credits the steps until an event from the second one on."""
    options = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    if events and "fast_forward" in options:
        options |= {"fast_forward": True, "steady_steps": 1}
    if "faults" in options:
        options["faults"]["count"] = 0  # what they do has tests of its own
    before = set(psutil.Process().children(recursive=True))
    engine = build(options, name, "engine").open(setup(tmp_path, events=events, sample_s=sample_s))
    try:
        yield engine
    finally:
        engine.close()
        engine.close()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def change(number: int, kind: ChangeKind, of: JobSpec, before=(), after=()) -> Change:
    return Change(number, kind, of, before, after, BATCH)


def until(engine, kind: EventKind, limit: int = 10_000) -> list[Event]:
    """All events up to and with the first of this kind; time never goes back."""
    seen: list[Event] = []
    for _ in range(limit):
        events = engine.wait(math.inf)
        assert [event.kind for event in events] == sorted(event.kind for event in events)
        for event in events:
            assert event.time_s <= engine.now()
            assert not seen or event.time_s >= seen[-1].time_s
            seen.append(event)
        if any(event.kind is kind for event in events):
            return seen
        assert not any(
            event.kind in (EventKind.JOB_FAILED, EventKind.CHANGE_FAILED) for event in events
        ), events
    raise AssertionError(f"no {kind!r} in {limit} waits")


def apply(engine, *changes: Change, then: EventKind) -> list[Event]:
    events = engine.apply(list(changes))
    if any(event.kind is then for event in events):
        return events
    return events + until(engine, then)


def test_time_starts_at_zero_and_passes_without_work(opened):
    assert opened.now() == 0.0
    assert opened.wait(100.0) == []
    assert 100.0 <= opened.now() < 101.0
    with pytest.raises(RuntimeError):
        opened.wait(math.inf)


def test_a_job_starts_grows_shrinks_is_suspended_and_finishes(opened):
    work = job("a", 3000)
    done = []
    for number, kind, before, after in (
        (1, ChangeKind.START, (), (0,)),
        (2, ChangeKind.RESCALE, (0,), (0, 1)),
        (3, ChangeKind.RESCALE, (0, 1), (1,)),
        (4, ChangeKind.SUSPEND, (1,), ()),
        (5, ChangeKind.RESUME, (), (1, 0)),
    ):
        events = apply(
            opened, change(number, kind, work, before, after), then=EventKind.CHANGE_DONE
        )
        event = next(event for event in events if event.kind is EventKind.CHANGE_DONE)
        assert (event.job_id, event.change_id) == ("a", number)
        assert (event.samples_per_s > 0) == (kind is not ChangeKind.SUSPEND)
        if kind is ChangeKind.RESCALE:
            assert event.stopping_time_s is not None
            assert event.stopping_time_s > 0
        done.append(event.samples_done)
    assert done == sorted(done)
    finish = until(opened, EventKind.JOB_FINISHED)[-1]
    assert finish.kind is EventKind.JOB_FINISHED
    assert finish.samples_done == work.work_samples


def test_two_jobs_run_at_once_and_one_is_stopped(opened):
    first, second = job("a", 400), job("b", 10**9)
    opened.apply(
        [
            change(1, ChangeKind.START, first, (), (0,)),
            change(2, ChangeKind.START, second, (), (1,)),
        ]
    )
    # The other's start may be told by the same wait, after it.
    seen = until(opened, EventKind.JOB_FINISHED)
    assert [e.job_id for e in seen if e.kind is EventKind.JOB_FINISHED] == ["a"]
    while not any(e.kind is EventKind.CHANGE_DONE and e.job_id == "b" for e in seen):
        seen += until(opened, EventKind.CHANGE_DONE)
    events = apply(opened, change(3, ChangeKind.STOP, second, (1,), ()), then=EventKind.CHANGE_DONE)
    assert events[-1].change_id == 3
    with pytest.raises(RuntimeError):
        opened.wait(math.inf)


@every_engine_soon
def test_slots_go_down_with_their_workers_and_jobs_are_cancelled(name, tmp_path):
    events = (
        TraceEvent(20.0, TraceEventKind.SLOTS_DOWN, (1,)),
        TraceEvent(40.0, TraceEventKind.SLOTS_UP, (1,)),
        TraceEvent(50.0, TraceEventKind.CANCEL, job_id="never"),
        TraceEvent(60.0, TraceEventKind.CANCEL, job_id="a"),
    )
    with open_engine(name, tmp_path, events) as opened:
        work = job("a", 10**9)
        apply(opened, change(1, ChangeKind.START, work, (), (0, 1)), then=EventKind.CHANGE_DONE)
        seen = until(opened, EventKind.GRANT_LOST)
        assert [e.slot for e in seen if e.kind is EventKind.SLOT_DOWN] == [1]
        assert 20.0 <= seen[-1].time_s < 25.0
        assert told_together(seen)
        resumed = apply(
            opened, change(2, ChangeKind.RESUME, work, (), (0,)), then=EventKind.CHANGE_DONE
        )
        assert resumed[-1].samples_per_s > 0
        assert [e.slot for e in until(opened, EventKind.SLOT_UP)][-1] == 1
        first = until(opened, EventKind.JOB_CANCELLED)[-1]
        second = until(opened, EventKind.JOB_CANCELLED)[-1]
        assert (first.job_id, second.job_id) == ("never", "a")
        assert first.samples_done == 0 < second.samples_done
        assert 50.0 <= first.time_s < 60.0 <= second.time_s < 70.0
        with pytest.raises(RuntimeError):
            opened.wait(math.inf)


@every_engine_soon
def test_programs_crash_and_fail_for_good(name, tmp_path):
    """A crash takes all workers, and no slot; the job goes on from its checkpoint. One that never
    ran does not notice."""
    events = (
        TraceEvent(20.0, TraceEventKind.CRASH, job_id="a"),
        TraceEvent(30.0, TraceEventKind.CRASH, job_id="never"),
        TraceEvent(40.0, TraceEventKind.FAIL, job_id="a"),
    )
    with open_engine(name, tmp_path, events) as opened:
        work = job("a", 10**9)
        apply(opened, change(1, ChangeKind.START, work, (), (0, 1)), then=EventKind.CHANGE_DONE)
        seen = until(opened, EventKind.GRANT_LOST)
        assert not {EventKind.SLOT_DOWN, EventKind.GRANT_SHRUNK} & {e.kind for e in seen}
        assert 20.0 <= seen[-1].time_s < 25.0
        resumed = apply(
            opened, change(2, ChangeKind.RESUME, work, (), (0, 1)), then=EventKind.CHANGE_DONE
        )
        assert resumed[-1].samples_per_s > 0
        failed = until(opened, EventKind.JOB_FAILED)[-1]
        assert (failed.job_id, failed.reason) == ("a", "its program failed")
        assert 40.0 <= failed.time_s < 45.0
        with pytest.raises(RuntimeError):
            opened.wait(math.inf)


@every_engine_soon
def test_nobody_is_started_on_a_slot_that_went_down_after_the_request(name, tmp_path):
    events = (
        # Late enough for a slow machine to have started the job; until then steps are credited.
        TraceEvent(600.0, TraceEventKind.SLOTS_DOWN, (1,)),
        TraceEvent(900.0, TraceEventKind.SLOTS_UP, (1,)),
    )
    # A step takes a second, at whose end the worker stops for the change.
    with open_engine(name, tmp_path, events, sample_s=1.0 / BATCH) as opened:
        work = job("a", 10**9)
        apply(opened, change(1, ChangeKind.START, work, (), (0,)), then=EventKind.CHANGE_DONE)
        while opened.now() < 599.95:
            opened.wait(599.95)
        opened.apply([change(2, ChangeKind.RESCALE, work, (0,), (0, 1))])
        seen = until(opened, EventKind.GRANT_LOST)
        assert EventKind.CHANGE_DONE not in {event.kind for event in seen}
        assert told_together(seen)
        assert 600.0 <= seen[-1].time_s < 900.0
        until(opened, EventKind.SLOT_UP)
        apply(opened, change(3, ChangeKind.RESUME, work, (), (0, 1)), then=EventKind.CHANGE_DONE)


def told_together(events: list[Event]) -> bool:
    """Whether the slot's end and the job's loss, the last of these events, are of one instant."""
    (down,) = (event for event in events if event.kind is EventKind.SLOT_DOWN)
    return down.time_s == events[-1].time_s


@every_engine
def test_the_same_replay_runs_on_every_engine(name, tmp_path):
    """Same trace, same kind of scheduler: the same jobs end, with the same work done."""
    options = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    jobs = (job("a", 60), job("b", 60, slots=2), job("c", 60, arrival_s=0.5))
    world = setup(tmp_path, *jobs)
    config = build(options, name, "engine")
    assert config.problems(world) == []
    engine = config.open(world)
    try:
        records = replay(
            jobs=jobs,
            cluster=CLUSTER,
            scheduler=Fifo(),
            placement=Consolidated(),
            engine=engine,
            profile=world.profile,
        )
    finally:
        engine.close()
    assert isinstance(records, RunRecords)
    assert [record.job_id for record in sorted(records.jobs, key=lambda r: r.job_id)] == [
        "a",
        "b",
        "c",
    ]
    for record in records.jobs:
        assert record.state == "finished", record.reason
        assert record.samples_done == record.work_samples
    starts = {record.job_id: record.first_start_s for record in records.jobs}
    ends = {record.job_id: record.finish_s for record in records.jobs}
    assert starts["b"] >= ends["a"], "two slots for b are free only when a has ended"
    assert starts["c"] >= ends["b"], "gang FIFO never lets c pass b"
    executed: dict[str, set[int]] = {record.job_id: set() for record in records.jobs}
    for step in records.steps:
        executed[step.job_id].add(step.step)
    if records.steps:
        distinct = sum(map(len, executed.values()))
        assert distinct == records.facts["steps_executed"]
        # Where workers are killed, what followed the last checkpoint is made again.
        repeated = len(records.steps) - distinct
        assert repeated == records.facts.get("steps_repeated", 0)
        assert repeated == 0 or records.facts["jobs_lost"] > 0
        assert all(len(steps) >= 8 for steps in executed.values())
        digests = [e for e in records.evaluations if e.name == "digest_parameters"]
        assert {e.job_id for e in digests} == {"a", "b", "c"}
