"""Construction of a trace from its configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.configuration.instantiate import build
from harness.errors import Problem, UserError, suggest
from harness.files.bounded_file import opened
from harness.profiles import RECORDED
from harness.trace.model.recorded_waits import still_recorded
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.submissions import Reader
from harness.trace.transforms import Transform, TransformContext

TRACES = Path(__file__).resolve().parents[2] / "configs" / "trace"
"""Folder of the shipped trace configurations and their data."""

_REQUIRED = ("name", "source", "licence", "reader")
_BESIDE = ("tasks", "throughputs")
"""Options of readers that name a second file in the folder of the first."""
KEYS = (*_REQUIRED, "transforms", "recorded_on_slots")


def load_trace(
    config: Mapping[str, Any], context: TransformContext, *, base_dir: Path = TRACES
) -> Trace:
    """Build the reader, read the file, and apply the transforms in their order.

    Args:
        config: a trace's YAML as a plain mapping: ``name``, ``source``, ``licence``,
            ``reader`` and ``transforms`` (each part with ``_target_`` and options), and
            ``recorded_on_slots``, the size of the original cluster, if it is known.
        context: seed, profile, cluster and workload pool of the run.
        base_dir: folder of the YAML, from which a relative ``path`` of a reader or transform
            starts.

    Raises:
        TraceError: all mistakes of the configuration; if there are none, those of the file; if
            there are none, those of the first transform that does not fit.
    """
    reader, transforms = build_parts(config, base_dir)
    trace = finish(reader.read(), config, transforms, context)
    return replace(trace, files_digest=_files_digest((reader, *transforms)))


def present_files_digest(config: Mapping[str, Any], *, base_dir: Path = TRACES) -> str | None:
    """Return the ``files_digest`` that a trace of this configuration would have now.

    The options of a configuration name its files, which are hashed but not parsed. No part is
    imported or built, because the configuration may come from another person's run.

    Returns:
        The digest; None if no option names a file. If a reader also reads files that no option
        names, the digest differs from that of its runs.

    Raises:
        OSError: a file cannot be read, or is not a regular file.
    """
    steps = config.get("transforms")
    parts = [config.get("reader"), *(steps if isinstance(steps, list) else ())]
    paths = [path for part in parts for path in _named_files(_located(part, base_dir))]
    return _digest(paths) if paths else None


def _named_files(part: Any) -> Iterator[Path]:
    """Yield the files that a part's options name, in the order of the part's own ``files``."""
    if not isinstance(part, Mapping) or not isinstance(part.get("path"), str):
        return
    path = Path(part["path"])
    yield path
    yield from (path.parent / part[key] for key in _BESIDE if isinstance(part.get(key), str))


def build_parts(config: Mapping[str, Any], base_dir: Path) -> tuple[Reader, Sequence[Transform]]:
    """Return the reader and the transforms of a configuration, without reading any data yet.

    Raises:
        TraceError: all mistakes of the configuration.
    """
    problems: list[Problem | str] = [
        Problem("trace", f"unknown key {key!r}", suggest(str(key), KEYS))
        for key in config
        if key not in KEYS
    ]
    problems += [
        Problem("trace", f"{key!r} is missing", "docs/how-to/add-a-trace.md has an example")
        for key in _REQUIRED
        if not config.get(key)
    ]
    slots = config.get("recorded_on_slots", 1)
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        hint = "give the number of slots of the cluster it was recorded on"
        problems.append(Problem("trace.recorded_on_slots", f"is {slots!r}", hint))
    reader = None
    if config.get("reader"):
        reader = _part(_located(config["reader"], base_dir), "trace.reader", "reader", problems)
    steps = config.get("transforms") or []
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        problems.append(Problem("trace.transforms", "is no list", "give a list of transforms"))
        steps = []
    transforms = [
        _part(_located(step, base_dir), f"trace.transforms.{number}", "transform", problems)
        for number, step in enumerate(steps)
    ]
    if problems or reader is None:
        raise TraceError(problems)
    return reader, transforms


def finish(
    trace: Trace,
    config: Mapping[str, Any],
    transforms: Sequence[Transform],
    context: TransformContext,
) -> Trace:
    """Return the trace with its name and provenance, after the transforms.

    Raises:
        TraceError: a transform does not fit the trace or lacks something in the context; or
            jobs name a workload although their work is in slot-seconds.
    """
    trace = replace(
        trace,
        name=str(config["name"]),
        source=" ".join(str(config["source"]).split()),
        licence=" ".join(str(config["licence"]).split()),
    )
    read = trace
    for number, transform in enumerate(transforms):
        try:
            trace = transform.apply(trace, context)
        except TraceError as error:
            raise TraceError(
                f"trace.transforms.{number}: {problem}" for problem in error.problems
            ) from error
    _check_unit_of_work(trace)
    return replace(trace, recorded_wait_s=still_recorded(read, trace))


def _files_digest(parts: Sequence[object]) -> str | None:
    """Return the SHA-256 of the files that the parts of a trace read; None if unknown.

    A user's own reader may not say which files it reads.
    """
    reader, *_ = parts
    if getattr(reader, "files", None) is None:
        return None
    return _digest(Path(path) for part in parts for path in getattr(part, "files", ()))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with opened(path, follow=True) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _check_unit_of_work(trace: Trace) -> None:
    if not trace.work_in_slot_s:
        return
    named = next((job for job in trace.jobs if job.workload != RECORDED), None)
    if named is not None:
        raise TraceError(
            [
                f"trace {trace.name}: job {named.job_id} is to train {named.workload!r}, but its"
                " work is in slot-seconds, since the file has no column for it; add the transform"
                " RecomputeWork, or name the column (columns: {work: ...})"
            ]
        )


def _located(part: Any, base_dir: Path) -> Any:
    """Return the configuration of a reader or transform with its path, if any, made absolute."""
    if not isinstance(part, Mapping) or not isinstance(part.get("path"), str):
        return part
    return {**part, "path": str(base_dir / part["path"])}


def _part(config: Any, place: str, seam: str, problems: list[Problem | str]) -> Any:
    """Return the object of one part; on a mistake add it to ``problems`` and return None."""
    if not isinstance(config, Mapping):
        problems.append(
            Problem(place, f"is {config!r}", "give a mapping with _target_ and its options")
        )
        return None
    try:
        return build(config, place, seam)
    except UserError as error:
        problems += error.problems
        return None
