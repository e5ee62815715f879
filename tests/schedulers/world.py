"""Runs of real replays for the tests of schedulers, and what they record."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.cluster import Cluster
from harness.configuration.instantiate import build
from harness.contracts.decision import Decision
from harness.contracts.job import DeadlineKind, JobSpec
from harness.contracts.view import ClusterView
from harness.profiles import Profile
from harness.replay import replay
from harness.results.records import RunRecords
from systems import schedulers
from systems.placements.consolidated import Consolidated
from tests.replay.worlds import cluster, engine, job, profile
from tests.schedulers.chaos import ChaosEngine

CONFIGS = Path(__file__).parents[2] / "configs"


def scheduler_classes() -> list[type]:
    """Every public class below ``systems/schedulers`` that decides on a view alone."""
    found = []
    for info in pkgutil.walk_packages(schedulers.__path__, f"{schedulers.__name__}."):
        module = importlib.import_module(info.name)
        for name, value in inspect.getmembers(module, inspect.isclass):
            decide = getattr(value, "decide", None)
            is_own = value.__module__ == info.name and not name.startswith("_")
            if is_own and decide and [*inspect.signature(decide).parameters] == ["self", "view"]:
                found.append(value)
    return found


def shipped(group: str) -> list[str]:
    """Names of all files of a configuration group."""
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def built(group: str, name: str) -> Any:
    """The object that a shipped file describes, in a run with seed 0."""
    return build(_resolved(group, name), group)


@cache
def _resolved(group: str, name: str) -> Any:
    run = OmegaConf.create({"seed": 0, group: OmegaConf.load(CONFIGS / group / f"{name}.yaml")})
    return OmegaConf.to_container(run[group], resolve=True)


@dataclass
class Recorder:
    """A scheduler, with all its views and decisions kept."""

    inner: Any
    views: list[ClusterView] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needs = self.inner.needs
        self.requires = self.inner.requires
        self.wants_progress = self.inner.wants_progress
        self.refuses_late = getattr(self.inner, "refuses_late", False)

    def decide(self, view: ClusterView) -> Decision:
        decision = self.inner.decide(view)
        self.views.append(view)
        self.decisions.append(decision)
        return decision


def run(
    jobs: list[JobSpec],
    scheduler: Any,
    on: Cluster | None = None,
    *,
    known: Profile | None = None,
    chaos: ChaosEngine | None = None,
) -> tuple[RunRecords, Recorder]:
    """Replay jobs under a scheduler: simulated at no cost, or under chaos."""
    where = on or cluster()
    known = known or profile()
    recorder = scheduler if isinstance(scheduler, Recorder) else Recorder(scheduler)
    records = replay(
        jobs=jobs,
        cluster=where,
        scheduler=recorder,
        placement=Consolidated(),
        engine=chaos or engine(where, known),
        profile=known,
    )
    return records, recorder


def periods(records: RunRecords, job_id: str) -> list[tuple[float, float, int]]:
    """When a job held how many slots: (from, to, count)."""
    return [
        (grant.start_s, grant.end_s, len(grant.slots))
        for grant in records.grants
        if grant.job_id == job_id
    ]


def deadline_job(job_id: str, arrival_s: float, slots: int, work: float, deadline_s: float):
    """A job with a hard deadline."""
    return job(
        job_id, arrival_s, slots, work, deadline_s=deadline_s, deadline_kind=DeadlineKind.HARD
    )
