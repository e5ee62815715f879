"""MLflow as a mirror of stored runs and of the report. The only importer of mlflow.

Unchanged runs that MLflow has already are left alone; changed runs are replaced.

Configuration (``configs/tracking/``), all keys optional:

- ``enabled``: false turns the mirror off.
- ``uri``: a database (``sqlite:///path``) or a server (``http://host:port``).
- ``artifacts``: folder of the files that MLflow shows; not used with a server.
- ``experiment``: name of the experiment.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from harness.command_names import spelt
from harness.errors import UserError
from harness.files.bounded_file import parse_json, read_text
from harness.results.store import RESULT_DIRS, StoredRun, StoreError, load_run, run_paths
from harness.results.tables import TableError
from harness.tracking.rows import (
    NOTE_LENGTH,
    MetricPoint,
    answers,
    began_ms,
    contents_digest,
    curves,
    display_names,
    last_values,
    note,
    parameters,
    tags,
)

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput
    from mlflow.tracking import MlflowClient

BATCH = 1000
"""Largest number of metrics in one call of MLflow; the limit of parameters and tags is a tenth."""
LOCK_WAIT_S = 300.0
"""Longest wait, in seconds, for an embedded store that another process has locked. A working holder
needs 10 s to make a new store and a few to mirror a run, or over 60 on an overloaded machine."""
_SILENT_S = 2.0
"""Seconds of waiting before a line reports it."""
_DIGEST_LENGTH = 36
_CONTENTS = "elastrace.contents"
_ANSWER = "elastrace.answer."
"""Beginning of the experiment's tags that hold the answers of its sweeps."""
COLUMNS = "elastrace"
"""Key of the experiment's stored view, in which the table of runs has useful columns."""
_NAME, _NOTE = "mlflow.runName", "mlflow.note.content"
_SHOWN = (
    *("params.`scheduler`", "params.`backend`", "params.`trace`", "params.`engine`"),
    *("metrics.`jct_mean_s`", "metrics.`queueing_mean_s`"),
    *("metrics.`deadline_satisfactory_ratio`", "metrics.`slot_utilization_mean`"),
    *("metrics.`rescales`", "metrics.`stopping_time_scale_out_mean_s`"),
    *("metrics.`samples_lost_per_rescale_mean`", "metrics.`executed_share`"),
    *("metrics.`last_loss_mean`", "metrics.`last_accuracy_mean`", "attributes.`Duration`"),
)
"""Columns of the stored view, as MLflow names them."""


class TrackingError(UserError):
    """Failure to reach or use MLflow; the text names the place and the way out."""

    def __init__(self, text: str) -> None:
        super().__init__([text])


class LockedError(TrackingError):
    """Time-out while another process has the store's lock; other runs would also wait."""


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of the mirror."""

    uri: str = "sqlite:///results/mlflow/mlflow.db"
    artifacts: str = "results/mlflow/artifacts"
    experiment: str = "elastrace"
    enabled: bool = True

    @property
    def database(self) -> Path | None:
        """File of the embedded store; None for a server."""
        found = re.fullmatch(r"sqlite:///(.+)", self.uri)
        return Path(found.group(1)) if found else None


def target(config: Mapping[str, Any]) -> Target:
    """Return the target that a tracking configuration describes.

    Raises:
        TrackingError: a key is unknown.
    """
    names = Target.__slots__
    unknown = sorted(set(config) - set(names))
    if unknown:
        raise TrackingError(
            f"tracking: unknown keys {', '.join(unknown)}; known: {', '.join(names)}"
        )
    return Target(**config)


def prepare(config: Mapping[str, Any]) -> str:
    """Create store and experiment once, and return the experiment's id; "" if tracking is off.

    Call this before several processes mirror.

    Raises:
        TrackingError: MLflow cannot be reached or used.
    """
    where = target(config)
    if not where.enabled:
        return ""
    with _errors(where):
        return _open(where)[1]


def mirror(run: StoredRun, config: Mapping[str, Any], name: str = "") -> bool:
    """Mirror a finished run; return False if an equal copy is there already or tracking is off.

    A run with the same id but other contents is replaced.

    Args:
        run: the run.
        config: tracking configuration.
        name: name in lists, from ``display_names`` of its sweep; else the run is named alone.

    Raises:
        LockedError: another process had the store's lock for ``LOCK_WAIT_S``. The run is safe in
            the results, as after other errors; the text says how to mirror it later.
        TrackingError: MLflow failed.
    """
    where = target(config)
    if not where.enabled:
        return False
    with _errors(where, [run.path.parent]):
        client, experiment = _open(where)
        return _mirror(where, client, experiment, run, name or display_names([run])[run.run_id])


def describe(runs: Sequence[StoredRun], config: Mapping[str, Any]) -> None:
    """Write the answers of the runs' sweeps into the description of the experiment.

    Raises:
        LockedError: as for ``mirror``.
        TrackingError: MLflow failed.
    """
    where = target(config)
    if not where.enabled:
        return
    with _errors(where):
        client, experiment = _open(where)
        with _locked(where):
            _describe(client, experiment, runs)


def attach_report(figures: Path, config: Mapping[str, Any]) -> int:
    """Attach a drawn report's figures to the runs that they show; return the number of files
    attached.

    Args:
        figures: ``figures.json`` of the report: a list of objects with ``file`` (relative) and
            ``run_ids``.
        config: tracking configuration.

    Raises:
        TrackingError: MLflow failed, or the report was not drawn.
    """
    where = target(config)
    if not where.enabled:
        return 0
    if not figures.is_file():
        raise TrackingError(f"{figures} does not exist; draw the report first: make report")
    entries = _figure_entries(figures)
    count = 0
    with _errors(where):
        client, experiment = _open(where)
        present = {
            found.data.tags["run_id"]: found.info.run_id
            for found in _search(client, experiment, "")
            if "run_id" in found.data.tags
        }
        for file, run_ids in entries:
            for run_id in run_ids:
                if run_id in present:
                    client.log_artifact(present[run_id], str(file), "report")
                    count += 1
    return count


def _figure_entries(figures: Path) -> list[tuple[Path, list[str]]]:
    """Return the files of a report's figures with the runs that each shows.

    Raises:
        TrackingError: the list is damaged, or names a file elsewhere.
    """
    try:
        found = [
            (figures.parent / entry["file"], [*map(str, entry["run_ids"])])
            for entry in parse_json(read_text(figures))
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrackingError(f"{figures}: damaged ({error}); draw the report again") from error
    folder = figures.parent.resolve()
    for file, _ in found:
        if not file.resolve().is_relative_to(folder):
            raise TrackingError(f"{figures}: names {file}, elsewhere; draw the report again")
    return found


def refill(directories: Iterable[Path], config: Mapping[str, Any]) -> tuple[int, int, list[str]]:
    """Mirror every run at or below the directories; of runs with equal ids, only the first.

    Returns:
        The number of runs mirrored, the number that were there already, and the errors of
        unreadable runs.

    Raises:
        TrackingError: MLflow cannot be reached or used.
    """
    where = target(config)
    mirrored, present, unreadable = 0, 0, []
    directories = list(directories)
    stored: list[StoredRun] = []
    paths: dict[str, Path] = {}
    for path in (path for directory in directories for path in run_paths(directory)):
        paths.setdefault(path.name, path)
    with _errors(where, directories):
        client, experiment = _open(where)
        for path in paths.values():
            try:
                stored.append(load_run(path))
            except StoreError as error:
                unreadable.append(str(error))
        names = display_names(stored)
        for run in stored:
            try:
                # A copy, whose tables are dropped with it.
                if _mirror(where, client, experiment, replace(run), names[run.run_id]):
                    mirrored += 1
                else:
                    present += 1
            except (StoreError, TableError) as error:
                unreadable.append(str(error))
        with _locked(where):
            _describe(client, experiment, stored)
    return mirrored, present, unreadable


def mirrored_metrics(config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of every mirrored run as MLflow shows them, by the run's id.

    Raises:
        TrackingError: MLflow cannot be reached or used.
    """
    where = target(config)
    with _errors(where):
        client, experiment = _open(where)
        return {
            found.data.tags["run_id"]: dict(found.data.metrics)
            for found in _search(client, experiment, "")
            if "run_id" in found.data.tags
        }


def _mirror(
    where: Target, client: MlflowClient, experiment: str, run: StoredRun, name: str
) -> bool:
    digest = contents_digest(run)
    # Without the lock, a second sweep with this run would treat an unfinished copy as an old one.
    with _locked(where):
        for found in _search(client, experiment, f"tags.run_id = '{run.run_id}'"):
            if found.data.tags.get(_CONTENTS) == digest:
                if found.data.tags.get(_NAME) != name:  # other runs of its sweep came since
                    client.set_tag(found.info.run_id, _NAME, name)
                return False
            client.delete_run(found.info.run_id)
        start_ms = began_ms(run)
        made = client.create_run(
            experiment, start_time=start_ms, tags=tags(run) | note(run), run_name=name
        )
        run_id = made.info.run_id
        _log(client, run_id, run)
        client.set_tag(run_id, _CONTENTS, digest)
        wall_ms = int(1000 * run.facts.get("replay_wall_s", 0.0))
        client.set_terminated(run_id, "FINISHED", start_ms + wall_ms)
    return True


def _log(client: MlflowClient, run_id: str, run: StoredRun) -> None:
    from mlflow.entities import Metric, Param

    for params in _batches(list(parameters(run).items()), BATCH // 10):
        client.log_batch(run_id, params=[Param(*pair) for pair in params])
    start_ms = began_ms(run)
    numbers = {**run.metrics, **last_values(run)}
    points = [MetricPoint(name, value, start_ms, 0) for name, value in numbers.items()]
    for batch in _batches([*points, *curves(run)], BATCH):
        client.log_batch(run_id, metrics=[Metric(*point) for point in batch])
    if run.manifest.get("trace"):
        client.log_inputs(run_id, [_trace_input(run.manifest["trace"])])
    for file in run.files():
        client.log_artifact(run_id, str(file), "run")


def _describe(client: MlflowClient, experiment: str, runs: Sequence[StoredRun]) -> None:
    """Keep the answer of each sweep as a tag, and all of them, newest first, as the description."""
    held = dict(client.get_experiment(experiment).tags)
    for label, (at_ms, text) in answers(runs).items():
        value = json.dumps([at_ms, text[: NOTE_LENGTH - 100]])
        key = f"{_ANSWER}{re.sub(r'[^-._a-zA-Z0-9 ]', '_', label)[:200]}"
        if held.get(key) != value:
            client.set_experiment_tag(experiment, key, value)
            held[key] = value
    found = sorted((json.loads(v) for k, v in held.items() if k.startswith(_ANSWER)), reverse=True)
    note = "\n\n".join(text for _, text in found)[:NOTE_LENGTH]
    if note and held.get(_NOTE) != note:
        client.set_experiment_tag(experiment, _NOTE, note)


def _trace_input(trace: Mapping[str, Any]) -> DatasetInput:
    """Return the trace as MLflow's data set; its digest is cut to the length that MLflow takes."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = {"source": str(trace.get("source", "")), "sha256": str(trace.get("digest"))}
    facts = {key: trace[key] for key in ("num_jobs", "licence", "history") if key in trace}
    dataset = Dataset(
        name=str(trace.get("name", "unknown")),
        digest=str(trace.get("digest", "unknown"))[:_DIGEST_LENGTH],
        source_type="local",
        source=json.dumps(source),
        profile=json.dumps(facts),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "trace")])


def _open(where: Target) -> tuple[MlflowClient, str]:
    """Return a client and the id of the experiment; create store and experiment if they are
    missing."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

    for name in ("alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.WARNING)
    database = where.database
    if database is None:
        client = MlflowClient(where.uri)
        return client, _experiment(client, where.experiment, None)
    database.parent.mkdir(parents=True, exist_ok=True)
    artifacts = Path(where.artifacts).resolve()
    artifacts.mkdir(parents=True, exist_ok=True)
    with _locked(where):
        client = MlflowClient(f"sqlite:///{database.resolve()}")
        experiment = _experiment(client, where.experiment, artifacts.as_uri())
    return client, experiment


def _experiment(client: MlflowClient, name: str, artifacts: str | None) -> str:
    # The table of runs, not the one of language models, and its columns.
    wanted = {
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{COLUMNS}": json.dumps({"selectedColumns": _SHOWN}),
    }
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(client.create_experiment(name, artifacts, wanted))
    if artifacts is not None and found.artifact_location.rstrip("/") != artifacts:
        raise TrackingError(
            f"experiment {name!r} keeps its files in {found.artifact_location}, not in"
            f" {artifacts}: the store was moved. Remove its folder, then fill it again:"
            f" {spelt('harness.tracking', 'fill')}"
        )
    for key, value in wanted.items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(found.experiment_id, key, value)
    return str(found.experiment_id)


def _search(client: MlflowClient, experiment: str, text: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment], text, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


@contextlib.contextmanager
def _locked(where: Target) -> Iterator[None]:
    """Hold the lock of an embedded store, so that one process at a time writes; servers have none.

    Raises:
        Timeout: another process has had it for ``LOCK_WAIT_S``.
    """
    if where.database is None:
        yield
        return
    lock = FileLock(f"{where.database}.lock")
    try:
        lock.acquire(timeout=_SILENT_S)
    except Timeout:
        text = f"Waiting up to {LOCK_WAIT_S:g} s for {lock.lock_file}: another process has it."
        print(text, file=sys.stderr, flush=True)
        lock.acquire(timeout=LOCK_WAIT_S)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _errors(where: Target, results: Sequence[Path] = ()) -> Iterator[None]:
    """Turn any error of MLflow into one message with the way out.

    Args:
        where: the store.
        results: folders of the runs to fill it from later; empty: the usual ones.
    """
    hint = (
        "Finished runs are safe in the results folder; fill MLflow from them later:"
        f" {_refill_command(where, results)}"
    )
    try:
        yield
    except (TrackingError, StoreError, TableError):
        raise
    except Timeout as timeout:
        raise LockedError(
            f"{timeout.lock_file}: another process has had this lock for {LOCK_WAIT_S:g} s, so"
            f" MLflow was not filled. {hint}"
        ) from timeout
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise TrackingError(f"MLflow at {where.uri} failed: {lines[0]}. {hint}") from error


def _refill_command(where: Target, results: Sequence[Path]) -> str:
    """Return the command that fills this store from these folders."""
    words = ["fill"]
    if set(results) - set(RESULT_DIRS):
        words += ["--results", *map(str, results)]
    for key in ("uri", "artifacts", "experiment"):
        if getattr(where, key) != getattr(Target(), key):
            words += [f"--{key}", getattr(where, key)]
    return spelt("harness.tracking", *words)


def _batches(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
