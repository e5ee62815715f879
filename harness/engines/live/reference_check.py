"""Bitwise comparison of a live run's finished jobs with training on a fixed number of workers.

Source: EasyScale (Li et al., SC '23), section 5.1.1: an elastic job is consistent if it is bitwise
what PyTorch's DistributedDataParallel trains on a fixed number of workers. Here the backend's
``Reference`` does the fixed training, for as many steps as the job executed. It runs once the
replay is over and the replay's workers are gone.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.cluster import Cluster
from harness.contracts.job import JobSpec
from harness.contracts.job_state import JobState
from harness.engines.live.consumed_samples import read_lines
from harness.engines.live.job import job_seed
from harness.engines.live.reference_cache import DIGEST, FixedOutcomes, Outcome
from harness.engines.live.reference_run import FixedTraining, FixedTrainingError
from harness.engines.setup import EngineSetup
from harness.files.safe_names import file_name
from harness.machine.network import interface_of
from harness.results.records import FixedLossRecord, FixedSizeRecord, RunRecords, StepRecord


def hold_to_fixed_size(
    records: RunRecords, setup: EngineSetup, keep_in: Path, say: Callable[[str], None]
) -> None:
    """Train the reference of every finished job, compare the bits, and add the result to the
    records.

    Args:
        records: records of the whole run.
        setup: setup of the run's engine, which is closed.
        keep_in: folder of the outcomes; an outcome in it is not trained again.
        say: called with a line before every training.

    Raises:
        FixedTrainingError: a training failed; the outcomes of those before it are kept.
    """
    started = time.perf_counter()
    outcomes = FixedOutcomes(keep_in, setup.backend.reference(setup.cluster))
    address = setup.cluster.hosts[0].address
    interface = interface_of(address)
    environment = {"GLOO_SOCKET_IFNAME": interface} if interface else {}
    scratch = setup.run_dir / "fixed_size"
    finished = {job.job_id for job in records.jobs if job.state == JobState.FINISHED}
    jobs = [job for job in setup.jobs if job.job_id in finished]
    for number, job in enumerate(jobs, 1):
        digests, num_steps = last_digests(records, job.job_id)
        training = fixed_training(job, records.steps, num_steps, setup)
        outcome = outcomes.find(training)
        if outcome is None:
            what = f"{job.workload}, {num_steps} steps on {training.num_workers} fixed workers"
            say(f"reference {number} of {len(jobs)}: {what}")
            cores = cores_of(setup.cluster, training.num_workers)
            try:
                outcome = outcomes.train(training, cores, environment, scratch)
            except FixedTrainingError as error:
                raise FixedTrainingError(
                    f"job {job.job_id} ({what}) could not be checked: {error}\nReferences that"
                    " ended are kept: run the same command again, or do without"
                    " (engine.check_reference=false)"
                ) from error
        log = setup.run_dir / "jobs" / file_name(job.job_id) / "steps.jsonl"
        different = [n for n, d in sorted(outcome.digests.items()) if digests.get(n) != d]
        records.fixed_size.append(
            FixedSizeRecord(
                job_id=job.job_id,
                num_workers=training.num_workers,
                num_steps=num_steps,
                different=" ".join(different),
                equal_steps=equal_steps(log, outcome),
                reference=outcome.key,
            )
        )
        records.fixed_losses += losses_beside(job.job_id, log, outcome)
    records.facts["reference_wall_s"] = time.perf_counter() - started
    shutil.rmtree(scratch, ignore_errors=True)


def last_digests(records: RunRecords, job_id: str) -> tuple[dict[str, str], int]:
    """Return the digests with which a job ended, by name, and the steps it had executed then."""
    own = [
        result
        for result in records.evaluations
        if result.job_id == job_id and result.name.startswith(DIGEST)
    ]
    last = max((result.step for result in own), default=0)
    return {result.name: result.value for result in own if result.step == last}, last


def fixed_training(
    job: JobSpec, steps: Sequence[StepRecord], num_steps: int, setup: EngineSetup
) -> FixedTraining:
    """Return the fixed training that a job with these steps is compared with."""
    spec = setup.workloads[job.workload]
    last = next(step for step in reversed(steps) if step.job_id == job.job_id)
    is_logical = setup.backend.abilities.logical_workers
    return FixedTraining(
        target=spec.target,
        options=spec.options,
        seed=job_seed(setup.seed, job.job_id),
        num_workers=job.num_logical_workers if is_logical else last.num_workers,
        global_batch=last.global_batch,
        num_steps=num_steps,
    )


def cores_of(cluster: Cluster, num_workers: int) -> list[int]:
    """Return a core for each worker, from the cluster's slots in turn; empty if slots have no
    cores."""
    cores = list(dict.fromkeys(core for slot in cluster.slots for core in slot.cores))
    return list(itertools.islice(itertools.cycle(cores), num_workers)) if cores else []


def losses_beside(job_id: str, log: Path, outcome: Outcome) -> list[FixedLossRecord]:
    """Return the last worker's losses in a job's log next to those of the outcome.

    Only steps whose line has the losses of every worker are included. As for ``equal_steps``, the
    later line of a step counts.
    """
    lines = {line["step"]: line for line in read_lines(log)}
    return [
        FixedLossRecord(job_id, step, lines[step]["world"], lines[step]["losses"][-1], fixed[-1])
        for step, fixed in enumerate(outcome.losses, 1)
        if len(lines.get(step, {}).get("losses", ())) == len(fixed)
    ]


def equal_steps(log: Path, outcome: Outcome) -> int:
    """Return how many steps, from the first on, have the outcome's losses in a job's log.

    If a step was executed again after a death, the later line counts.
    """
    lines = {line["step"]: line for line in read_lines(log)}
    for index, (losses, mean) in enumerate(zip(outcome.losses, outcome.means, strict=True)):
        line = lines.get(index + 1)
        if line is None:
            return index
        same = line["losses"] == losses if "losses" in line else line["loss"] == mean
        if not same:
            return index
    return len(outcome.losses)
