"""Small worlds for tests of the replay: clusters, jobs, profiles and drivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import Cluster, uniform_cluster
from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision
from harness.contracts.job import JobSpec
from harness.contracts.process import Warmth
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from harness.engines.setup import EngineSetup
from harness.engines.simulated.engine import SimulatedEngine
from harness.engines.simulated.options import Simulated
from harness.profiles import Profile, load_profile
from harness.replay import replay
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEvent


def cluster(num_hosts: int = 1, devices_per_host: int = 4) -> Cluster:
    return uniform_cluster(
        name="test", num_hosts=num_hosts, devices_per_host=devices_per_host, device_type="test"
    )


def job(job_id: str, arrival_s: float = 0.0, slots: int = 1, work: float = 100.0, **more: Any):
    fields: dict[str, Any] = {
        "workload": "recorded",
        "requested_slots": slots,
        "work_samples": work,
        "global_batch": 8,
    }
    return JobSpec(job_id=job_id, arrival_s=arrival_s, **(fields | more))


def profile(preparation_s: float = 0.0, pause_s: float = 0.0, cells: Any = None) -> Profile:
    """T(w) = w samples per second, and the same cost for every change unless cells say else."""
    return load_profile(
        {
            "name": "test",
            "provenance": {
                "hardware": "none",
                "versions": "none",
                "source": "made for a test",
                "licence": "Apache-2.0",
                "trials": "none",
                "spread": "none",
                "measured_here": False,
                "rescale_costs": "made for a test",
            },
            "throughput": {},
            "costs": None,
            "rescale_costs": cells or [{"preparation_s": preparation_s, "pause_s": pause_s}],
        }
    )


@dataclass
class Mechanism:
    """The part of a backend that a simulation sees."""

    abilities: Abilities = field(default_factory=lambda: Abilities(True, True, True, True))
    name: str = "stop_resume"
    warmth: Warmth = Warmth.COLD
    executors: int = 1


@dataclass
class Driver:
    """A scheduler that a test writes as a function of the view."""

    rule: Callable[[ClusterView], Decision]
    needs: frozenset[Knowledge] = frozenset()
    requires: frozenset[Requirement] = frozenset()
    wants_progress: bool = False
    views: list[ClusterView] = field(default_factory=list)

    def decide(self, view: ClusterView) -> Decision:
        self.views.append(view)
        return self.rule(view)


class FirstFree:
    """The lowest free slots, host by host."""

    def place(self, num_slots, cluster, free, held=(), device_type=None):
        if num_slots <= len(held):
            return held[:num_slots]
        slots = [slot for host in range(len(cluster.hosts)) for slot in free.on_host(host)]
        wanted = num_slots - len(held)
        return None if len(slots) < wanted else held + tuple(slots[:wanted])


def engine(
    cluster: Cluster,
    profile: Profile,
    mechanism: Mechanism | None = None,
    events: tuple[TraceEvent, ...] = (),
    **options: Any,
) -> SimulatedEngine:
    setup = EngineSetup(
        cluster=cluster,
        jobs=(),
        profile=profile,
        backend=mechanism or Mechanism(),  # type: ignore[arg-type]
        launcher=None,  # type: ignore[arg-type]
        workloads={},
        seed=0,
        run_dir=Path(),
        memory_bytes_per_worker={},
        events=events,
    )
    return Simulated(**options).open(setup)


def simulate(
    jobs,
    scheduler,
    *,
    on: Cluster | None = None,
    costs: Mapping[str, float] | None = None,
    mechanism: Mechanism | None = None,
    cells: Any = None,
    events: tuple[TraceEvent, ...] = (),
    checkpoint_every_s: float = 600.0,
    placement: Any = None,
    **options: Any,
) -> RunRecords:
    where = on or cluster()
    known = profile(**(costs or {}), cells=cells)
    return replay(
        jobs=jobs,
        cluster=where,
        scheduler=scheduler,
        placement=placement or FirstFree(),
        engine=engine(where, known, mechanism, events, checkpoint_every_s=checkpoint_every_s),
        profile=known,
        **options,
    )
