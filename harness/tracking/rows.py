"""Parts of a stored run that are mirrored to tracking: parameters, tags, curves. Pure functions."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple

from harness.answer.answer import answer
from harness.answer.block import unmarked
from harness.answer.factors import Subject, subjects
from harness.comparison import assumptions
from harness.comparison.inputs import inputs_digest
from harness.configuration.benchmark_version import KEY, version_of
from harness.files.gz_text import text_path
from harness.results import verification_levels as levels
from harness.results.archive import shown
from harness.results.store import CONFIG, StoredRun
from harness.results.tables import TableError

NOTE_LENGTH = 5000
"""Longest description of a run or of an experiment, characters."""
PARAM_LENGTH = 500
"""Longest value of a parameter, characters."""
CURVE_POINTS = 1000
"""Largest number of points of a curve; longer curves are thinned evenly. The records keep every
step."""
_BAD_NAME = re.compile(r"[^\w\-./ ]")


class MetricPoint(NamedTuple):
    """One value of a curve."""

    key: str
    value: float
    at_ms: int
    step: int


def parameters(run: StoredRun) -> dict[str, str]:
    """Return the chosen option of every group under its own name, then all settings.

    MLflow's compare page shows the first parameters that differ, by name. So choices come first
    there (backend, engine, scheduler), and settings begin with ``setting.``.
    """
    choices = dict(run.manifest.get("choices") or run.config.get("choices") or {})
    values = {key: run.config[key] for key in run.config if key not in ("choices", "tracking")}
    named = {group: str(option) for group, option in choices.items() if group != "tracking"}
    settings = {f"setting.{key}": text for key, text in _flat(values)}
    return {_name(key): text[:PARAM_LENGTH] for key, text in (named | settings).items()}


def display_names(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return the names of runs in lists, by run id: what tells the runs of one sweep apart.

    A run's own name comes first, if it has one. A run without others is named by its scheduler,
    backend, trace, engine and seed.
    """
    by_sweep: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_sweep.setdefault(str(run.manifest.get("sweep") or run.run_id), []).append(run)
    return {run_id: name for own in by_sweep.values() for run_id, name in _names(own).items()}


def _names(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return the names of the runs of one sweep; two with the same words also have short ids."""
    found = subjects(runs)
    trials = {subject.trial for subject in found}
    has_seeds = len({seed for seed, _ in trials}) > 1
    has_repetitions = len({repetition for _, repetition in trials}) > 1
    words = {s.run.run_id: _words(s, len(found) == 1, has_seeds, has_repetitions) for s in found}
    return {
        run_id: text
        if [*words.values()].count(text) == 1
        else f"{text} {run_id.rpartition('-')[2][:4]}"
        for run_id, text in words.items()
    }


def _words(subject: Subject, is_alone: bool, has_seeds: bool, has_repetitions: bool) -> str:
    run = subject.run
    choices = dict(run.manifest.get("choices") or run.config.get("choices") or {})
    seed, repetition = subject.trial
    parts = [subject.system or choices.get("scheduler", ""), subject.input_name]
    if is_alone:
        parts = [choices.get(group, "") for group in ("scheduler", "backend", "trace", "engine")]
    parts += [f"seed {seed}"] if has_seeds or is_alone else []
    parts += [f"trial {repetition}"] if has_repetitions else []
    return run.manifest.get("name") or ", ".join(filter(None, parts)) or run.run_id


def last_values(run: StoredRun) -> dict[str, float]:
    """Return means over the jobs of a live run: ``last_loss_mean`` of their last executed steps,
    ``last_accuracy_mean`` of their last evaluations; those that it has."""
    losses = {step.job_id: float.fromhex(step.loss_hex) for step in run.records.steps}
    accuracies = {
        each.job_id: float(each.value)
        for each in run.records.evaluations
        if each.name == "accuracy"
    }
    found = {"last_loss_mean": losses, "last_accuracy_mean": accuracies}
    means = {name: fmean(values.values()) for name, values in found.items() if values}
    return {name: value for name, value in means.items() if math.isfinite(value)}


def note(run: StoredRun) -> dict[str, str]:
    """Return the tag that MLflow shows as the run's description."""
    return {"mlflow.note.content": description(run)[:NOTE_LENGTH]}


def description(run: StoredRun) -> str:
    """Return the description of a run in Markdown: its answer, and what its level means."""
    block = answer([run])
    assert block is not None
    choices = dict(run.manifest.get("choices") or run.config.get("choices") or {})
    scheduler = levels.with_level(choices.get("scheduler", "the scheduler"), levels.of_run(run))
    again = f"python -m harness --from {shlex.quote(_config_path(run))}"
    return (
        f"{block.markdown()}\n\n{unmarked(scheduler)}. {levels.MEANING}\n\n"
        f"Run it again: {unmarked(again)}"
    )


def answers(runs: Sequence[StoredRun]) -> dict[str, tuple[int, str]]:
    """Return the answer of each sweep in Markdown, by its label, with the time of its last run."""
    by_sweep: dict[str, list[StoredRun]] = {}
    for run in runs:
        if run.manifest.get("sweep"):
            by_sweep.setdefault(str(run.manifest["sweep"]), []).append(run)
    found = {}
    for label, own in by_sweep.items():
        block = answer(own) if len(own) > 1 else None  # a run's own description has its answer
        if block is not None:
            text = f"**{unmarked(label)}:** {block.markdown()}"
            found[label] = max(map(began_ms, own)), text
    return found


def _config_path(run: StoredRun) -> str:
    return str(shown(text_path(run.path, CONFIG)))


def tags(run: StoredRun) -> dict[str, str]:
    """Return tags to group and filter by, from the run's manifest and configuration alone.

    They are the chosen option of every group, the scheduler's verification level, contents of trace
    and profile, versions, and the machine.
    """
    manifest, config = run.manifest, run.config
    hardware = manifest.get("hardware", {})
    accelerators = ", ".join(hardware.get("accelerators", ())) or "no accelerator"
    choices = dict(manifest.get("choices") or config.get("choices") or {})
    pace = config.get("engine", {}).get("pace")
    level = levels.of_run(run)
    values = {
        **choices,
        "checked": level,
        "system": choices.get("backend"),
        "pace": pace,
        "elastrace.emulated": str(pace == "profile").lower(),
        "run_id": run.run_id,
        "sweep": manifest.get("sweep"),
        "seed": manifest.get("seed"),
        "repetition": manifest.get("repetition"),
        KEY: version_of(manifest),
        "commit": manifest.get("git_commit"),
        "dirty": manifest.get("git_dirty"),
        "config_hash": manifest.get("config_hash"),
        "hardware": f"{hardware.get('cpu')}, {hardware.get('cores')} cores, {accelerators}",
        "trace_digest": manifest.get("trace", {}).get("digest"),
        "profile_digest": manifest.get("profile", {}).get("digest"),
        "inputs": inputs_digest(run),
        "profile_measured_here": manifest.get("profile", {}).get("measured_here"),
        "command": shlex.join(map(str, manifest.get("command", ()))),
        "mlflow.source.name": f"python -m harness --from {shlex.quote(_config_path(run))}",
        "mlflow.source.git.commit": manifest.get("git_commit"),
        **{f"assumption.{each.name}": each.text for each in assumptions.of_run(run)},
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def curves(run: StoredRun) -> Iterator[MetricPoint]:
    """Yield losses, step times and workers by job and step; evaluations; the machine over time.

    Raises:
        TableError: a table is damaged, or a cell is not a finite number.
    """
    try:
        yield from _curves(run)
    except (ValueError, OverflowError) as error:
        raise TableError(
            f"{run.path}: a cell is no number ({error}); run the point again"
        ) from None


def _curves(run: StoredRun) -> Iterator[MetricPoint]:
    records, start_ms = run.records, began_ms(run)
    by_job = attrgetter("job_id")
    for job_id, group in groupby(sorted(records.steps, key=attrgetter("job_id", "step")), by_job):
        name = _name(job_id)
        for step in _thinned(list(group)):
            at_ms = start_ms + int(1000 * (step.started_s + step.duration_s))
            loss = float.fromhex(step.loss_hex)
            if math.isfinite(loss):
                yield MetricPoint(f"loss/{name}", loss, at_ms, step.step)
            yield MetricPoint(f"step_duration_s/{name}", step.duration_s, at_ms, step.step)
            yield MetricPoint(f"workers/{name}", float(step.num_workers), at_ms, step.step)
    for result in records.evaluations:
        try:
            value = float(result.value)
        except ValueError:
            continue  # a digest
        if not result.name.startswith("digest_") and math.isfinite(value):
            key = f"evaluation/{_name(result.job_id)}/{_name(result.name)}"
            yield MetricPoint(key, value, start_ms, result.step)
    for index, sample in enumerate(_thinned(records.system)):
        at_ms = start_ms + int(1000 * sample.at_s)
        used_mb = sample.memory_bytes / 1e6
        yield MetricPoint("system/cpu_utilization_percentage", sample.cpu_percent, at_ms, index)
        yield MetricPoint("system/system_memory_usage_megabytes", used_mb, at_ms, index)
        yield MetricPoint("system/processes", float(sample.num_processes), at_ms, index)


def contents_digest(run: StoredRun) -> str:
    """Return a digest of everything of a run that is mirrored."""
    digest = hashlib.sha256()
    for file in run.files():
        digest.update(file.name.encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def began_ms(run: StoredRun) -> int:
    """Return the start of the run from its manifest, in ms since 1970, so that a refill gives the
    same."""
    created = run.manifest.get("created")
    began = datetime.fromisoformat(created).timestamp() if created else 0.0
    return int(1000 * began)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, "null" if value is None else str(value)


def _name(text: str) -> str:
    parts = _BAD_NAME.sub("_", text)[:200].split("/")
    # MLflow uses a name as a path and refuses names that lead out of its folder.
    return "/".join(part if part.strip(".") else "_" * (len(part) or 1) for part in parts)


def _thinned(rows: Sequence[Any]) -> Sequence[Any]:
    """Return at most ``CURVE_POINTS`` rows, evenly spread, with the first and the last."""
    if len(rows) <= CURVE_POINTS:
        return rows
    last = len(rows) - 1
    return [rows[round(index * last / (CURVE_POINTS - 1))] for index in range(CURVE_POINTS)]
