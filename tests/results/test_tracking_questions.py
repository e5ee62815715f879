"""The questions of docs/how-to/mlflow.md, asked by MLflow's client of a store of committed runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from harness.results.store import StoredRun, iter_runs
from harness.tracking import mirror as tracking

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "how-to" / "mlflow.md").read_text(encoding="utf-8").splitlines()
    if re.search(r"\| `metrics\.\w+ (ASC|DESC)` \|$", line)
]
STUDIES = ("edl_replay", "elasticflow_fig6", "easyscale_fig10")
MOST = 2
"""Runs of each study and trace: those with the most rescales."""


@pytest.fixture(scope="module")
def runs() -> list[StoredRun]:
    found = []
    for study in STUDIES:
        (place,) = (ROOT / "results" / "reference").glob(f"*/{study}*")  # a folder, or one file
        alike: dict[str, list[StoredRun]] = {}
        for run in iter_runs(place):
            alike.setdefault(run.manifest["choices"]["trace"], []).append(run)
        for each in alike.values():
            each.sort(key=lambda run: -run.metrics["rescales"])
            found += each[:MOST]
    return found


@pytest.fixture(scope="module")
def client(runs: list[StoredRun], tmp_path_factory: pytest.TempPathFactory) -> MlflowClient:
    folder = tmp_path_factory.mktemp("mlflow")
    config = {"uri": f"sqlite:///{folder}/mlflow.db", "artifacts": f"{folder}/artifacts"}
    tracking.prepare(config)
    for run in runs:
        tracking.mirror(run, config)
    return MlflowClient(config["uri"])


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_question_is_answered(
    row: list[str], client: MlflowClient, runs: list[StoredRun]
) -> None:
    _, filter_cell, columns, sort = row
    (query,), (order,) = code(filter_cell), code(sort)
    metric, direction = re.fullmatch(r"metrics\.(\w+) (\w+)", order).groups()
    experiment = client.get_experiment_by_name("elastrace")
    found = client.search_runs([experiment.experiment_id], query, order_by=[order])
    values = [run.data.metrics[metric] for run in found if metric in run.data.metrics]
    assert len(values) > 1
    assert values == sorted(values, reverse=direction == "DESC")
    assert all(metric in run.data.metrics for run in found[: len(values)]), "others come last"
    assert {run.data.tags["run_id"] for run in found} == {
        run.run_id for run in runs if fits(run, query)
    }
    shown = {**found[0].data.metrics, **found[0].data.params, **found[0].data.tags}
    assert metric in code(columns)
    assert set(code(columns)) <= set(shown)


def fits(run: StoredRun, query: str) -> bool:
    """Whether a filter is to find a run, by what is stored."""
    manifest = run.manifest
    known = {"tags.sweep": manifest["sweep"], "tags.trace": manifest["choices"]["trace"]}
    known |= {f"metrics.{name}": value for name, value in run.metrics.items()}
    comparisons = {
        "=": lambda value, bound: value == bound.strip("'"),
        ">": lambda value, bound: value > float(bound),
        ">=": lambda value, bound: value >= float(bound),
    }
    return all(
        known.get(name) is not None and comparisons[sign](known[name], bound)
        for name, sign, bound in (part.split(" ") for part in query.split(" and "))
    )


def test_there_are_three_questions() -> None:
    assert len(ROWS) == 3
