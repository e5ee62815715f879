"""Input of every engine, and the interfaces of its options and of an open engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from harness.cluster import Cluster
from harness.contracts.backend import Backend
from harness.contracts.engine import Engine
from harness.contracts.job import JobSpec
from harness.contracts.launcher import Launcher
from harness.contracts.workload import WorkloadSpec
from harness.profiles import Profile
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEvent


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Everything an engine may need; the simulated engine uses a part of it."""

    cluster: Cluster
    jobs: tuple[JobSpec, ...]
    profile: Profile
    backend: Backend
    launcher: Launcher
    workloads: Mapping[str, WorkloadSpec]
    seed: int
    run_dir: Path
    """Scratch directory of the run: logs, step files, checkpoints."""
    memory_bytes_per_worker: Mapping[str, int]
    """Estimated resident memory of one worker process, by workload, where known."""
    scaling: Literal["strong", "weak", "adaptive"] = "strong"
    repetition: int = 0
    """Number of the trial among the runs of this configuration and seed."""
    run_id: str = ""
    events: tuple[TraceEvent, ...] = ()
    """Events of the trace other than submissions, in their order; the engine carries them out."""


class OpenEngine(Engine, Protocol):
    """Engine of one run, which adds the facts that only it knows to the records."""

    def observe(self, records: RunRecords) -> None:
        """Add steps, evaluations, system samples and facts; called once, after the replay."""
        ...


class EngineConfig(Protocol):
    """Options of an engine, as ``configs/engine/*.yaml`` builds them."""

    name: str
    exclusive: ClassVar[bool]
    """True if a run occupies the machine, so that a sweep must run it alone."""

    def estimated_wall_s(self, setup: EngineSetup) -> float:
        """Return a rough estimate of the run's wall-clock seconds."""
        ...

    def problems(self, setup: EngineSetup) -> list[str]:
        """Return what makes this run impossible on this engine, each with its way out."""
        ...

    def warnings(self, setup: EngineSetup) -> list[str]:
        """Return what a user may expect and this run will not have, each with its way out."""
        ...

    def open(self, setup: EngineSetup) -> OpenEngine:
        """Return the engine of one run, at time 0, with nothing started."""
        ...

    def check(
        self, setup: EngineSetup, records: RunRecords, keep_in: Path, say: Callable[[str], None]
    ) -> None:
        """Check what can be checked once the replay is over and the engine closed, and record the
        result.

        Args:
            setup: the setup with which the engine was opened.
            records: records of the run, to which the result is added.
            keep_in: folder for results that later runs can be compared with too.
            say: function that shows a line of progress.
        """
        ...
