"""Models that stored runs trained: held-out accuracy and training loss by epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.metrics.accuracy import classes, final_accuracies
from harness.results.records import EvaluationRecord, StepRecord
from reports.runs.selection import ReportRun

POLICIES: Mapping[str, str] = {
    "strong": "batch and rate fixed",
    "weak": "batch and rate grow with workers (TorchElastic's way)",
    "adaptive": "batch and rate adapted (Pollux's way)",
}
"""Treatment of the global batch and the learning rate, by the run's ``scaling``."""


@dataclass(frozen=True)
class Trained:
    """Model of a run that trained one job to its end."""

    run_id: str
    way: str
    """Backend and scaling policy."""
    workload: str
    workers: str
    """``4``; ``4→1→2`` if the number changed; ``batch 32→8`` if only the batch changed."""
    seed: int
    accuracy: float
    """Accuracy on held-out samples at the end."""
    by_class: Mapping[int, float]
    """Accuracy at the end of each class, by label."""
    digest: str
    """Digest of the parameters at the end."""
    largest_batch: int
    curve: Sequence[tuple[float, float]]
    """Epochs so far and held-out accuracy at every evaluation."""
    losses: Sequence[tuple[float, float]]
    """Number of each whole epoch and the mean training loss over it."""
    gamma: float | None
    """Factor of the learning rate's decay; None if the rate does not decay."""
    decay_epochs: float | None


def trained(runs: Iterable[ReportRun]) -> list[Trained]:
    """Return the models of live runs that trained one job to its end and evaluated it.

    No step of such a run was credited by fast-forward. The models are sorted by way, workers and
    seed.
    """
    found = []
    for run in runs:
        facts = run.stored.facts
        if not run.is_live or len(run.jobs) != 1 or facts.get("steps_credited", 0.0):
            continue
        finals = final_accuracies(run.stored.records)
        if finals:
            found.append(_trained(run, finals[run.jobs[0].job_id]))
    return sorted(found, key=lambda one: (one.way, len(one.workers), one.workers, one.seed))


def by_way(models: Sequence[Trained]) -> dict[str, list[Trained]]:
    """Return models by the way in which they were trained."""
    found: dict[str, list[Trained]] = defaultdict(list)
    for model in models:
        found[model.way].append(model)
    return dict(found)


def worker_names(models: Iterable[Trained]) -> list[str]:
    """Return the different texts of ``workers``, with changing numbers of workers last."""
    return sorted({model.workers for model in models}, key=lambda text: (len(text), text))


def named_workers(workers: str) -> str:
    """Return a text for a legend: ``1 worker``, ``4→1→2 workers`` or ``batch 32→8``."""
    if workers.startswith("batch"):
        return workers
    return "1 worker" if workers == "1" else f"{workers} workers"


def models_of_a_seed(models: Sequence[Trained]) -> int:
    """Return the number of models of one seed that differ in any bit, the largest over seeds."""
    found: dict[int, set[str]] = defaultdict(set)
    for model in models:
        found[model.seed].add(model.digest)
    return max(map(len, found.values()))


def same_bits(models: Sequence[Trained], ways: Mapping[str, Sequence[Trained]]) -> str:
    """Return the other ways whose models have the same bits, over the seeds that both have."""
    own = {(model.seed, model.digest) for model in models}
    seeds = {model.seed for model in models}
    names = []
    for way, others in ways.items():
        theirs = {(other.seed, other.digest) for other in others if other.seed in seeds}
        shared = {seed for seed, _ in theirs}
        if theirs and theirs == {one for one in own if one[0] in shared} and others is not models:
            names.append(way.split(":")[0])
    return ", ".join(names)


def over_seeds(models: Sequence[Trained]) -> dict[str, list[Trained]]:
    """Return models that differ only in their seed, by way and workers, to show the seed's
    effect."""
    found: dict[str, list[Trained]] = defaultdict(list)
    for model in models:
        found[f"{model.way}, {model.workers} workers"].append(model)
    return {name: own for name, own in found.items() if len({m.seed for m in own}) > 1}


def _trained(run: ReportRun, final: Mapping[str, float]) -> Trained:
    steps = counted(run.stored.rows("steps"))
    evaluations = run.stored.rows("evaluations")
    by_step = values_by_step(evaluations)
    last = by_step[max(by_step)]
    num_samples = sum(step.global_batch for step in steps) / float(last["epochs"])
    workload = run.jobs[0].workload
    options = run.stored.config.get("workload", {}).get("pool", {}).get(workload, {})
    scaling = str(run.stored.config.get("scaling", "strong"))
    return Trained(
        run_id=run.run_id,
        way=f"{run.backend}: {POLICIES.get(scaling, scaling)}",
        workload=workload,
        workers=variation(steps, scaling),
        seed=run.trial[0],
        accuracy=final["accuracy"],
        by_class=classes(final),
        digest=last["digest_parameters"],
        largest_batch=max(step.global_batch for step in steps),
        curve=[
            (float(found["epochs"]), float(found["accuracy"]))
            for _, found in sorted(by_step.items())
            if "epochs" in found
        ],
        losses=epoch_losses(steps, num_samples),
        gamma=options.get("gamma"),
        decay_epochs=options.get("decay_epochs"),
    )


def counted(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """Return the steps in order, with only the last execution of a repeated step."""
    return [step for _, step in sorted({step.step: step for step in steps}.items())]


def values_by_step(evaluations: Iterable[EvaluationRecord]) -> dict[int, dict[str, str]]:
    """Return the values of one job's evaluations by step and name."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for result in evaluations:
        found[result.step][result.name] = result.value
    return dict(found)


def sizes(steps: Sequence[StepRecord]) -> str:
    """Return the successive numbers of workers, such as ``4→1→2``."""
    return "→".join(map(str, _runs([step.num_workers for step in steps])))


def variation(steps: Sequence[StepRecord], scaling: str) -> str:
    """Return what distinguishes models of one way and seed: their workers or their batches.

    The batches are returned if they changed on a fixed number of workers under ``strong``, a policy
    that does not set the batch.
    """
    batches = _runs([step.global_batch for step in steps])
    if scaling == "strong" and len(batches) > 1 and len({s.num_workers for s in steps}) == 1:
        return f"batch {'→'.join(map(str, batches))}"
    return sizes(steps)


def _runs(values: Sequence[int]) -> list[int]:
    """Return the values without repetitions of the value before."""
    return [*values[:1], *(after for before, after in pairwise(values) if after != before)]


def epoch_losses(steps: Sequence[StepRecord], num_samples: float) -> list[tuple[float, float]]:
    """Return the number of each whole epoch and the mean training loss over its samples.

    A step belongs to the epoch in which it begins.
    """
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    consumed = 0
    for step in steps:
        # Half a sample is added because num_samples is a quotient and may not come out whole.
        own = sums[int((consumed + 0.5) // num_samples)]
        own[0] += step.global_batch * float.fromhex(step.loss_hex)
        own[1] += step.global_batch
        consumed += step.global_batch
    whole = int((consumed + 0.5) // num_samples)
    return [(epoch + 1.0, total / count) for epoch, (total, count) in sums.items() if epoch < whole]


def by_workload(models: Iterable[Trained]) -> dict[str, list[Trained]]:
    """Return models by workload, sorted; each workload has its own figure."""
    found: dict[str, list[Trained]] = {}
    for model in sorted(models, key=lambda one: one.workload):
        found.setdefault(model.workload, []).append(model)
    return found
