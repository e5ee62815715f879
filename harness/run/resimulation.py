"""Simulation of a live run with the speeds that the run's own workers had.

A simulation's error has two parts: wrong speeds, since speeds differ from day to day, and effects
that the simulator leaves out. With the speeds of the live run itself, only the second part remains.
The scheduler is the same and still sees the profile's speeds.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.contracts.placement import Placement
from harness.contracts.scheduler import Scheduler
from harness.engines.live.measured_speed import own_speeds
from harness.engines.setup import EngineSetup
from harness.engines.simulated.options import Simulated
from harness.metrics.columns import finished
from harness.metrics.compute import compute
from harness.profiles import Profile, ProfileError
from harness.replay import DecisionError, ReplayError, replay
from harness.results.records import JobRecord, RunRecords, StepRecord

PREFIX = "resimulated_"
METRICS = ("jct_mean_s", "makespan_s")
"""Metrics that are compared."""
JOBS = f"{PREFIX}jct_error_p95"
"""95th percentile over jobs of the relative error of their JCT, without sign."""


def resimulated(
    setup: EngineSetup,
    records: RunRecords,
    scheduler: Scheduler,
    placement: Placement,
    shown: Profile,
) -> dict[str, float]:
    """Return metrics of the simulation by name, with ``PREFIX``; empty if it would not be
    comparable.

    It is not comparable if steps were paced or credited, nothing was executed, or workers were
    struck or slowed on purpose. The same is true if jobs may share devices (which slows the
    measured steps already), or if the profile lacks something.

    Args:
        setup: setup of the live run.
        records: records of the live run.
        scheduler: same as in the live run, not used yet.
        placement: same as in the live run, not used yet.
        shown: the speeds that the live run's scheduler saw.
    """
    facts = records.facts
    if "speed_over_profile" not in facts or facts.get("steps_credited"):
        return {}
    if records.faults or records.slowings or setup.cluster.shared_speed:
        return {}
    steps_of: defaultdict[str, list[StepRecord]] = defaultdict(list)
    for step in records.steps:
        steps_of[step.job_id].append(step)
    profile = own_speeds(setup.profile, setup.jobs, steps_of)
    engine = Simulated()
    if profile is None or engine.problems(setup):
        return {}
    own = replace(setup, profile=profile)
    try:
        simulated = replay(
            jobs=own.jobs,
            cluster=own.cluster,
            scheduler=scheduler,
            placement=placement,
            engine=engine.open(own),
            profile=profile,
            scaling=own.scaling,
            shown=shown,
        )
    except (
        DecisionError,
        ProfileError,
        ReplayError,
    ) as error:  # a failed simulation must not fail the live run
        print(f"not simulated again with the speeds of this run: {error}", file=sys.stderr)
        return {}
    metrics = compute(simulated)
    found = {f"{PREFIX}{name}": metrics[name] for name in METRICS if name in metrics}
    errors = _job_errors(simulated.jobs, records.jobs)
    return found | ({JOBS: float(np.percentile(errors, 95))} if errors else {})


def _job_errors(simulated: Sequence[JobRecord], live: Sequence[JobRecord]) -> list[float]:
    """Return simulated over live JCT, minus 1, without sign, for each job that finished in both."""
    ours = {job.job_id: job.finish_s for job in simulated if finished(job)}
    return [
        abs((our_s - job.arrival_s) / (job.finish_s - job.arrival_s) - 1)
        for job in live
        if finished(job) and job.finish_s is not None and job.finish_s > job.arrival_s
        if (our_s := ours.get(job.job_id)) is not None
    ]
