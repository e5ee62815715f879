"""Additions of a live run to the records: steps, evaluations, the machine, samples lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from harness.engines.live.consumed_samples import count_samples, read_lines
from harness.engines.live.coordination import coordination_facts, read_notes, training_period
from harness.engines.live.job import LiveJob
from harness.engines.live.measured_speed import speed_over_profile
from harness.engines.setup import EngineSetup
from harness.files.safe_names import file_name
from harness.metrics.samples_lost import samples_lost
from harness.results.records import (
    AccusationRecord,
    EvaluationRecord,
    RunRecords,
    StepRecord,
    SystemRecord,
)

SAMPLE_EVERY_S = 5.0
_DIGITS = 6
"""Digits of a step's times in seconds: microseconds, so that tables of steps stay small."""


class SystemSampler:
    """Sampler of the machine and of this process' tree, every few seconds.

    A sample reads every process of the machine. That takes milliseconds of a core that the workers
    may be using, so samples are rare.
    """

    def __init__(self) -> None:
        self.samples: list[SystemRecord] = []
        self._next_at = 0.0
        self._me = psutil.Process()
        # The first call only begins the period that the next call measures.
        psutil.cpu_percent(None)

    def sample(self, started: float) -> None:
        """Take a sample if one is due."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + SAMPLE_EVERY_S
        memory_bytes, num_processes = 0, 0
        for process in [self._me, *self._me.children(recursive=True)]:
            try:
                memory_bytes += process.memory_info().rss
                num_processes += 1
            except psutil.Error:
                continue  # the process ended between the two calls
        self.samples.append(
            SystemRecord(now - started, psutil.cpu_percent(None), memory_bytes, num_processes)
        )


def collect(
    records: RunRecords, jobs: Sequence[LiveJob], setup: EngineSetup, started: float
) -> None:
    """Read the files that the workers of every ended job wrote, and add them to the records."""
    requested: dict[int, float] = {}
    steps_of: dict[str, list[StepRecord]] = {}
    coordinated = []
    # By arrival: the records must not depend on the order in which jobs ended.
    for job in sorted(jobs, key=lambda job: job.spec.order):
        job_id = job.spec.job_id
        job_dir = setup.run_dir / "jobs" / file_name(job_id)
        steps = read_steps(job_dir / "steps.jsonl", job_id, started)
        shutil.rmtree(job_dir / "checkpoints", ignore_errors=True)
        steps_of[job_id] = steps
        records.steps.extend(steps)
        coordinated.append((read_notes(job_dir), *training_period(steps, started)))
        requested |= job.requested_at
        counted = count_samples(job_dir, job.steps_executed)
        if counted is not None:
            for name, count in zip(("samples_missed", "samples_repeated"), counted, strict=True):
                records.facts[name] = records.facts.get(name, 0.0) + count
        records.evaluations.extend(read_digests(job_dir / "digests.jsonl", job_id))
        path = job_dir / "evaluations.jsonl"
        records.evaluations.extend(read_evaluations(path, job_id, job.steps_executed))
        records.accusations.extend(read_accusations(job_dir / "accusations.jsonl", job_id, started))
        for name, value in sorted(job.results.items()):
            records.evaluations.append(
                EvaluationRecord(job_id, job.steps_executed, name, str(value))
            )
    records.facts |= coordination_facts(coordinated)
    executed = sum(job.steps_executed for job in jobs)
    credited = sum(job.steps_credited for job in jobs)
    for workload in {job.spec.workload for job in jobs}:
        trained = {job.spec.job_id: job for job in jobs if job.spec.workload == workload}
        records.facts[f"steps_executed_{workload}"] = float(
            sum(job.steps_executed for job in trained.values())
        )
        records.facts[f"rescales_{workload}"] = float(
            sum(
                change.job_id in trained and change.kind == "rescale" and change.outcome == "done"
                for change in records.changes
            )
        )
    overruns = [job.results["pace_overruns"] for job in jobs if "pace_overruns" in job.results]
    if overruns and executed:
        records.facts["pace_overrun_share"] = sum(map(float, overruns)) / executed
    if not overruns:
        speed = speed_over_profile(setup.profile, (job.spec for job in jobs), steps_of)
        if speed is not None:
            records.facts["speed_over_profile"] = speed
    records.facts["steps_executed"] = float(executed)
    records.facts["steps_credited"] = float(credited)
    if repeated := sum(len(steps) - len({s.step for s in steps}) for steps in steps_of.values()):
        records.facts["steps_repeated"] = float(repeated)
    records.changes = [
        replace(
            change,
            samples_lost=samples_lost(
                steps_of.get(change.job_id, []), requested[change.change_id] - started
            ),
        )
        if change.outcome == "done" and change.kind in ("rescale", "migrate")
        else change
        for change in records.changes
    ]


def read_steps(path: Path, job_id: str, started: float) -> list[StepRecord]:
    """Return the steps of one job in the order they were executed.

    A step that was executed again after a worker's death appears twice, because both really ran. A
    worker that leaves may log its last step after another worker has logged the next one.
    """
    return [
        StepRecord(
            job_id=job_id,
            step=entry["step"],
            num_workers=entry["world"],
            global_batch=entry["global_batch"],
            started_s=round(entry["started"] - started, _DIGITS),
            duration_s=round(entry["duration_s"], _DIGITS),
            loss_hex=entry["loss"],
        )
        for entry in sorted(read_lines(path), key=lambda entry: float(entry["started"]))
    ]


def read_accusations(path: Path, job_id: str, started: float) -> list[AccusationRecord]:
    """Return the workers of one job that their backend killed as silent."""
    return [
        AccusationRecord(
            job_id=job_id,
            at_s=entry["at"] - started,
            worker=f"{job_id}.{entry['worker']}",
            accuser=f"{job_id}.{entry['accuser']}",
            silent_s=entry["silent_s"],
        )
        for entry in read_lines(path)
    ]


def read_digests(path: Path, job_id: str) -> list[EvaluationRecord]:
    """Return the digests that a job recorded during training (``engine.digest_every``), by step.

    If a step was executed again after a death, the later digest counts.
    """
    by_step = {entry["step"]: entry for entry in read_lines(path)}
    return [
        EvaluationRecord(job_id, step, name, entry[name])
        for step, entry in sorted(by_step.items())
        for name in sorted(entry)
        if name.startswith("digest_")
    ]


def read_evaluations(path: Path, job_id: str, last_step: int) -> list[EvaluationRecord]:
    """Return the results of a job's evaluations during training (``engine.evaluate_epochs``), by
    step.

    If a step was executed again after a death, the later result counts. The last step is left out,
    because its evaluation is among the job's results.
    """
    by_step = {entry["step"]: entry for entry in read_lines(path)}
    return [
        EvaluationRecord(job_id, step, name, str(value))
        for step, entry in sorted(by_step.items())
        if step < last_step
        for name, value in sorted(entry.items())
        if name != "step"
    ]
