"""An engine's setup for tests that start nothing."""

from __future__ import annotations

from pathlib import Path

from harness.contracts.job import JobSpec
from harness.engines.setup import EngineSetup
from harness.profiles import Profile
from tests.replay.worlds import Mechanism, cluster


def setup(profile: Profile, *jobs: JobSpec) -> EngineSetup:
    return EngineSetup(
        cluster=cluster(),
        jobs=jobs,
        profile=profile,
        backend=Mechanism(),  # type: ignore[arg-type]
        launcher=None,  # type: ignore[arg-type]
        workloads={},
        seed=0,
        run_dir=Path(),
        memory_bytes_per_worker={},
    )
