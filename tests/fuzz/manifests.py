"""A stored run with strange documents or tables, as validate, compare, report and fill read it."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness import compare
from harness.results.store import (
    CONFIG,
    DIGESTS,
    FACTS,
    MANIFEST,
    METRICS,
    StoreError,
    iter_runs,
    run_paths,
)
from harness.results.tables import TABLES, TableError
from harness.tracking.rows import contents_digest, curves, display_names, note, parameters, tags
from harness.validate import check_run
from reports.runs.selection import SelectionError, select
from reports.site import page as site
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target
from tests.results.sample_runs import write_run

_JSON = (MANIFEST, FACTS, METRICS, DIGESTS)


@cache
def _sample() -> dict[str, bytes]:
    """The files of a sound run, by name."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder), live=True)
        return {path.name: path.read_bytes() for path in run.files()}


@cache
def _documents() -> dict[str, Any]:
    read = {name: json.loads(_sample()[name]) for name in _JSON}
    return {**read, CONFIG: yaml.safe_load(_sample()[CONFIG])}


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    documents = _documents()
    name = documents[MANIFEST]["run_id"]
    run = folder / "results" / name
    run.mkdir(parents=True)
    for file, content in _sample().items():
        (run / file).write_bytes(content)
    kind = choices.below(4)
    if kind == 0:
        (run / (*_JSON, CONFIG)[choices.below(5)]).write_bytes(choices.rest)
    elif kind == 1:
        _edit_a_table(run, choices)
    else:
        for _ in range(1 + choices.below(2)):
            file = (MANIFEST, CONFIG, MANIFEST, CONFIG, FACTS, METRICS, DIGESTS)[choices.below(7)]
            text = _dumped(file, edited(documents[file], choices))
            (run / file).write_text(text, encoding="utf-8", errors="surrogatepass")
    _use(folder / "results")


def _dumped(file: str, document: Any) -> str:
    if file == CONFIG:
        return str(yaml.safe_dump(document))
    return json.dumps(document, default=str)


def _edit_a_table(run: Path, choices: Choices) -> None:
    """Replace cells of a table."""
    path = run / f"{TABLES[choices.below(len(TABLES))]}.csv.gz"
    if not path.exists():
        return
    rows = [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    for _ in range(1 + choices.below(3)):
        row = rows[choices.below(len(rows))]
        odd = (
            "",
            "nan",
            "inf",
            "-1",
            "1e308",
            "9" * 30,
            "0 99999999",
            "x",
            "{}",
            '"<b>"',
            "-0.0",
            "0",
        )
        row[choices.below(len(row))] = odd[choices.below(len(odd))]
    path.write_bytes(gzip.compress("\n".join(map(",".join, rows)).encode(), 1))


def _use(results: Path) -> None:
    for path in run_paths(results):
        check_run(path)
    runs = list(iter_runs(results))
    compare.compare(runs, runs, ["jct_mean_s", "makespan_s"], 0.05)
    compare.unequal_replays(runs, runs)
    compare.not_compared(runs, runs)
    for run in runs:
        contents_digest(run)
        parameters(run)
        display_names([run])
        tags(run)
        note(run)
        for _ in curves(run):
            pass
    out = results.parent / "site"
    site.write(out, "title", "command", select([results]), [])
    shutil.rmtree(out)


_sample()  # made before anything is watched

TARGET = Target(
    "manifests", _read, (StoreError, TableError, SelectionError),
    [b"\0\0{}", b"\1\1\2\3\4\5", b"\2\1\2\3\4\5", b"\3\0\0\0\1\2\3\4"],
)  # fmt: skip
