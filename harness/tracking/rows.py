"""Parts of a stored run that are mirrored to tracking: parameters, tags, curves. Pure functions."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from harness.comparison import assumptions
from harness.comparison.inputs import inputs_digest
from harness.configuration.benchmark_version import KEY, version_of
from harness.machine.plain_output import plain
from harness.results import verification_levels as levels
from harness.results.store import StoredRun
from harness.results.tables import TableError

PARAM_LENGTH = 500
"""Longest value of a parameter, characters."""
CURVE_POINTS = 1000
"""Largest number of points of a curve; longer curves are thinned evenly. The records keep every
step."""
_MARKS = re.compile(r"[\\`*\[\]!|~#]")
"""Characters that Markdown interprets in the middle of a line; ``_`` is literal within a word."""
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


def display_name(run: StoredRun) -> str:
    """Return the name of the run in lists: its label, or scheduler with its level, backend and
    engine. A short id follows."""
    choices = dict(run.manifest.get("choices") or run.config.get("choices") or {})
    if "scheduler" in choices:
        choices["scheduler"] = levels.with_level(choices["scheduler"], levels.of_run(run))
    telling = [choices[group] for group in ("scheduler", "backend", "engine") if group in choices]
    label = run.manifest.get("name") or " ".join(telling) or run.run_id
    return f"{label} {run.run_id.rpartition('-')[2][:4]}" if telling else str(label)


def tags(run: StoredRun) -> dict[str, str]:
    """Return tags to group and filter by, and the run's description.

    They are the chosen option of every group, the scheduler's verification level, contents of trace
    and profile, versions, and the machine.
    """
    manifest, config = run.manifest, run.config
    hardware = manifest.get("hardware", {})
    accelerators = ", ".join(hardware.get("accelerators", ())) or "no accelerator"
    choices = dict(manifest.get("choices") or config.get("choices") or {})
    pace = config.get("engine", {}).get("pace")
    level = levels.of_run(run)
    scheduler = levels.with_level(choices.get("scheduler", "the scheduler"), level)
    values = {
        **choices,
        "checked": level,
        "mlflow.note.content": f"{_unmarked(scheduler)}. {levels.MEANING}",
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
        "mlflow.source.name": " ".join(map(str, manifest.get("command", ()))),
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


def _unmarked(text: str) -> str:
    """Escape a text, because MLflow shows notes as Markdown, with links and HTML."""
    return _MARKS.sub(r"\\\g<0>", plain(text).replace("<", "&lt;"))


def _thinned(rows: Sequence[Any]) -> Sequence[Any]:
    """Return at most ``CURVE_POINTS`` rows, evenly spread, with the first and the last."""
    if len(rows) <= CURVE_POINTS:
        return rows
    last = len(rows) - 1
    return [rows[round(index * last / (CURVE_POINTS - 1))] for index in range(CURVE_POINTS)]
