"""What every engine is opened with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from harness.cluster import Cluster
from harness.contracts.engine import Engine
from harness.contracts.launcher import Launcher
from harness.contracts.training import Backend, WorkloadSpec
from harness.profiles import Profile
from harness.records import RunRecords
from harness.trace.events import TraceEvent
from harness.trace.job import JobSpec


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Everything an engine may need; the simulated one uses a part."""

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
    """Estimated resident memory of one worker process, by workload, where it is known."""
    scaling: Literal["strong", "weak", "adaptive"] = "strong"
    repetition: int = 0
    """Which trial of its configuration and seed the run is."""
    events: tuple[TraceEvent, ...] = ()
    """What happens beside the submissions, in its order: the engine brings it about."""


class OpenEngine(Engine, Protocol):
    """An engine of one run, which adds what only it knows to the records."""

    def observe(self, records: RunRecords) -> None:
        """Add steps, evaluations, system samples and facts; called once, after the replay."""
        ...


class EngineConfig(Protocol):
    """What ``configs/engine/*.yaml`` builds: the options of an engine."""

    name: str
    exclusive: ClassVar[bool]
    """Whether a run occupies the machine, so that a sweep must run it alone."""

    def estimated_wall_s(self, setup: EngineSetup) -> float:
        """Rough seconds of wall clock that the run will take."""
        ...

    def problems(self, setup: EngineSetup) -> list[str]:
        """What makes this run impossible on this engine, each with its way out."""
        ...

    def cautions(self, setup: EngineSetup) -> list[str]:
        """What a user may count on and will not have in this run, each with its way out."""
        ...

    def open(self, setup: EngineSetup) -> OpenEngine:
        """The engine of one run, at time 0, with nothing started."""
        ...

    def check(
        self, setup: EngineSetup, records: RunRecords, keep_in: Path, say: Callable[[str], None]
    ) -> None:
        """What can be checked once the replay is over and the engine closed; added to the records.

        Args:
            setup: what the engine was opened with.
            records: of the run.
            keep_in: folder for what other runs can be held to as well.
            say: shows a line of progress.
        """
        ...
