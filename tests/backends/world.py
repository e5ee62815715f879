"""A small world for backends: a cluster, a launcher, one backend, and its reports so far."""

import importlib
import os
import time
from collections import defaultdict, deque
from itertools import count
from pathlib import Path

import psutil
import pytest
import yaml

from harness.cluster import uniform_cluster
from harness.configuration.instantiate import build
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.evidence import Evidence
from harness.contracts.job import JobSpec
from harness.contracts.training_order import TrainingOrder
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.consumed_samples import read_consumed, read_lines
from harness.files.safe_names import file_name
from systems.launchers.local import PREIMPORT, Local
from systems.runtime.data.make_order import data_order
from systems.runtime.wire import step_log
from systems.runtime.wire.data_order import Range

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
TINY = "tests.backends.tiny_workload.Tiny"
ENDLESS = 10**9
BLOCK_SAMPLES = 64
"""As in the configuration of every backend that hands out blocks."""
CLUSTER = uniform_cluster(name="four", num_hosts=1, devices_per_host=4, device_type="cpu")
WAYS = ("transfer", "recovery", "reconfigure")
OTHER_WAYS = {
    "stop_free": (
        {"transfer": "peer", "recovery": "approximate"},
        {"transfer": "broadcast", "recovery": "consistent", "checkpoint_every": 10},
    ),
    "virtual_thread": ({"reconfigure": "checkpoint"},),
}
"""Ways in which a backend can do the same, beside those of its configuration."""
WARM_SOON = ("stop_free", "stop_resume")
"""Backends that are tried with spares before the soak."""
NO_WORKERS = ("systems.runtime.driver.store_server:main", "systems.torchrun.agent:main")
"""Entries of processes that a job has beside its workers."""
NO_LOGS = ("store", "lighthouse")
"""How the logs of such processes begin, which shows those that are forks."""
REDOES_STEPS = ("torchrun",)
"""Backends that start workers again by themselves and go back to the last checkpoint each time;
what that means has tests of its own."""
ENDS = (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.LOST)


def options(group):
    """Names of all YAML files of a config group."""
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def configured(group, name, **changes):
    """The object that a config file describes, with some options changed."""
    config = yaml.safe_load((CONFIGS / group / f"{name}.yaml").read_text())
    return build({**config, **changes}, group)


def backends():
    """Names of all backends, as parameters; those that can only start cold are long."""
    return [
        pytest.param(name, marks=() if "preimported" in warmths(name) else pytest.mark.long)
        for name in options("backend")
    ]


def warm_backends():
    """Backends with their options, as parameters: forked if they can. With other ways of moving
    state and of recovering all is long; with spares all is long, or for the soak."""
    found = []
    for name in options("backend"):
        start = "preimported" if "preimported" in warmths(name) else "cold"
        marks = pytest.mark.long if start == "cold" else ()
        found.append(pytest.param((name, {"start": start}), id=name, marks=marks))
        others = [{"start": start, **ways} for ways in OTHER_WAYS.get(name, ())]
        if "spare" in warmths(name):  # a standby is one, too
            warmest = "standby" if "standby" in warmths(name) else "spare"
            others.insert(0, {"start": warmest})
        for choices in others:
            words = [str(choices[key]) for key in ("start", *WAYS) if key in choices]
            label = "-".join([name, *(word for word in words if word != start)])
            is_long = choices["start"] == start or name in WARM_SOON
            marks = pytest.mark.long if is_long else pytest.mark.soak
            found.append(pytest.param((name, choices), id=label, marks=marks))
    return found


def warmths(name):
    """The ways in which a backend can start its workers."""
    config = yaml.safe_load((CONFIGS / "backend" / f"{name}.yaml").read_text())
    module, _, kind = config["_target_"].rpartition(".")
    backend = getattr(importlib.import_module(module), kind)
    return backend.warmths


def warm_launcher():
    """A launcher whose forks have imported what the tiny workload needs."""
    return Local(preimport=[*PREIMPORT, "tests.backends.tiny_workload"])


def workers():
    """Processes below this one that train."""
    found = []
    for process in descendants():
        try:
            log = Path(f"/proc/{process.pid}/fd/1").readlink()  # a fork has no command of its own
            if not (set(NO_WORKERS) & set(process.cmdline()) or log.name.startswith(NO_LOGS)):
                found.append(process)
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
    return found


def children():
    """Live processes below this one, but those that other tests fork their members from
    (multiprocessing's server and tracker, ``nursery.py``; they end with this process) and what
    these have."""
    here, found = psutil.Process(), []
    for child in here.children():
        try:
            command = " ".join(child.cmdline())
            if not ("multiprocessing." in command or "tests.elastic.nursery" in command):
                found += [child, *child.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return [process for process in found if _lives(process)]


def _lives(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants():
    """Processes of jobs below this one: neither the pre-importing process nor its spares."""
    found = []
    for process in children():
        try:
            if not (_is_zygote(process) or _is_spare(process)):
                found.append(process)
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
    return found


def pids(processes):
    """Their process ids."""
    return {process.pid for process in processes}


def waiting_spares():
    """Spares below this process, which no job has yet."""
    found = []
    for process in children():
        try:
            if not _is_zygote(process) and _is_spare(process):
                found.append(process)
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
    return found


def _is_zygote(process):
    """A fork of it has the same command, but another parent: this process or a host's agent."""
    if "systems.runtime.prefork.zygote" not in process.cmdline():
        return False
    parent = process.parent()
    return process.ppid() == os.getpid() or (
        parent is not None and "systems.launchers.hosts.agent" in parent.cmdline()
    )


def _is_spare(process):
    """A fork that has no log of its own yet."""
    parent = process.parent()
    if parent is None or not _is_zygote(parent):
        return False
    logs = [Path(f"/proc/{pid}/fd/1").readlink() for pid in (process.pid, parent.pid)]
    return logs[0] == logs[1]


def skip_if_missing(backend, cluster=CLUSTER):
    """Skip a test, aloud, of a backend that needs something which this machine does not have."""
    if problems := backend.problems(cluster):
        pytest.skip("; ".join(problems))


class World:
    """Drives one backend; ``reports`` holds everything it has said."""

    def __init__(self, backend, launcher, folder, cluster=CLUSTER):
        self.backend = backend
        self.folder = folder
        self.reports = []
        self.unread = deque()
        self._ids = count(1)
        self._jobs = {}
        self._slots = {}
        skip_if_missing(backend, cluster)
        backend.open(cluster, launcher)

    def job_dir(self, job_id="job"):
        return self.folder / file_name(job_id)

    def start(
        self,
        slots,
        steps=ENDLESS,
        *,
        job_id="job",
        batch=12,
        seed=7,
        floors=None,
        digest_every=0,
        workload=None,
        logical_workers=4,
        evidence=None,
        adaptive=None,
        evaluate_epochs=0.0,
        virtual_workers=None,
        **options,
    ):
        """Start a job of a workload (None: the tiny one with ``options``); the change's id."""
        spec = JobSpec(
            job_id,
            0.0,
            "tiny",
            len(slots) or 1,
            1e9,
            max(batch, 1),
            logical_workers=logical_workers,
        )
        self._jobs[job_id] = spec
        order = TrainingOrder(
            job_id=job_id,
            workload=workload or WorkloadSpec("tiny", TINY, options),
            seed=seed,
            target_step=steps,
            job_dir=self.job_dir(job_id),
            step_floor_s=floors or {},
            digest_every=digest_every,
            evidence=evidence or Evidence(),
            adaptive=adaptive,
            evaluate_epochs=evaluate_epochs,
        )
        change = self._change(ChangeKind.START, slots, job_id, batch, virtual_workers)
        self.backend.start(change, order)
        return change.change_id

    def ask(self, kind, slots=(), *, job_id="job", batch=12, virtual_workers=None):
        """Ask for any other change; returns its id."""
        change = self._change(kind, slots, job_id, batch, virtual_workers)
        request = {
            ChangeKind.RESCALE: self.backend.rescale,
            ChangeKind.MIGRATE: self.backend.rescale,
            ChangeKind.SUSPEND: self.backend.suspend,
            ChangeKind.RESUME: self.backend.resume,
            ChangeKind.STOP: self.backend.stop,
        }[kind]
        request(change)
        return change.change_id

    def _change(self, kind, slots, job_id, batch, plan=None):
        before = self._slots.get(job_id, ())
        self._slots[job_id] = tuple(slots)
        job = self._jobs[job_id]
        return Change(next(self._ids), kind, job, before, tuple(slots), batch, plan)

    def until(self, wanted, timeout_s=180.0):
        """Poll until a report is ``wanted``; returns it.

        What came in the same poll after it is looked at by the next call.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            while self.unread:
                self.reports.append(self.unread.popleft())
                if wanted(self.reports[-1]):
                    return self.reports[-1]
            if time.monotonic() >= deadline:
                break
            self.unread.extend(self.backend.poll(0.5))
        raise AssertionError(f"not reported within {timeout_s} s; reports: {self.reports[-8:]}")

    def until_answered(self, change_id, until=None):
        """The answer to a change; it may have been read already, by ``poll``."""
        answers = (ReportKind.DONE, ReportKind.FAILED, ReportKind.RETRY)

        def is_answer(report):
            return report.change_id == change_id and report.kind in answers

        read = next(filter(is_answer, self.reports), None)
        return read or (until or self.until)(is_answer)

    def poll(self, timeout_s):
        """What is unread, or the next reports; all of it is read then."""
        found = list(self.unread) or self.backend.poll(timeout_s)
        self.unread.clear()
        self.reports += found
        return found

    def until_change(self, change_id, kind=ReportKind.DONE):
        """Poll until a change is done (or whatever ``kind`` says); other ends are errors."""

        def about(report):
            if report.kind is kind and report.change_id == change_id:
                return True
            assert report.kind not in ENDS, str(report)
            return False

        return self.until(about)

    def until_end(self, kind=ReportKind.FINISHED, job_id="job"):
        """Poll until the job has ended, which must be as ``kind`` says."""
        end = self.until(lambda r: r.kind in ENDS and r.job_id == job_id)
        assert end.kind is kind, str(end)
        return end

    def until_step(self, step, job_id="job"):
        """Poll until the job has reported so many executed steps."""
        return self.until(lambda report: report.job_id == job_id and report.step >= step)

    def do(self, kind, slots=(), **details):
        """Ask for a change and wait until it is done."""
        return self.until_change(self.ask(kind, slots, **details))


def consumed_ids(world, num_samples, seed=7, job_id="job", kind="positions", block_samples=1):
    """Sample ids in the order of steps and ranks, from the workers' own logs."""
    order = data_order(kind, seed, num_samples, block_samples)
    return step_log.consumed_ids(world.job_dir(job_id), order)


def consumed_by_epoch(world, num_samples, seed=7, job_id="job"):
    """Sample ids of each epoch, whatever the order of the backend, and how many are over."""
    folder = world.job_dir(job_id)
    logs = map(read_lines, folder.glob("samples-*.jsonl"))  # of cancelled generations: empty
    kind = next(line for lines in logs for line in lines)["order"]
    order = data_order(kind, seed, num_samples, BLOCK_SAMPLES)
    parts = read_consumed(folder)
    found = defaultdict(list)
    for part in parts:
        for epoch, start, stop in part.ranges:
            found[epoch] += order.ids([Range(epoch, start, stop)])
    return found, max(part.num_epochs for part in parts)


def expected_ids(count, num_samples, seed=7):
    """The first ids of a job, on any number of workers, as the order of positions has them."""
    order = data_order("positions", seed, num_samples, 1)
    return order.ids(order.plan(order.initial(), 1, count).parts[0])
