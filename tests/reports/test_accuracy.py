"""What a report says of trained models, on steps and evaluations worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import EvaluationRecord, JobRecord, RunRecords, StepRecord
from harness.results.store import RunStore, StoredRun
from reports.claims.ledger import Criterion
from reports.claims.measures import samples
from reports.drawing import style
from reports.figures import FIGURES
from reports.measures.accuracy import (
    epoch_losses,
    models_of_a_seed,
    named_workers,
    sizes,
    trained,
    variation,
)
from reports.measures.model_spread import largest_spread, same_before_decay, spread
from reports.runs.selection import ReportRun, name

NUM_SAMPLES = 100
"""Of an epoch."""


def step(number: int, workers: int, batch: int, loss: float) -> StepRecord:
    return StepRecord("0", number, workers, batch, float(number), 1.0, loss.hex())


def write_model(
    root: Path, scaling: str, workers: int, finals: tuple[float, float], **more: object
) -> StoredRun:
    """Three epochs in steps of 50, two classes of 30 and 10 held-out samples."""
    backend = "virtual_thread" if scaling == "strong" else "stop_resume"
    like = write_run(root / "like", live=True, backend=backend)
    digest, gamma = str(more.get("digest", f"{scaling}{workers}")), more.get("gamma")
    first_loss = float(more.get("first_loss", 2.0))  # type: ignore[arg-type]
    losses = [first_loss, 1.0, 1.0, 1.0, float(gamma or 0.5), float(gamma or 0.5)]  # type: ignore[arg-type]
    records = RunRecords(steps=[step(i + 1, workers, 50, loss) for i, loss in enumerate(losses)])
    accuracy = (30 * finals[0] + 10 * finals[1]) / 40
    for at, epochs, value in ((2, 1.0, 0.1), (4, 2.0, accuracy / 2), (6, 3.0, accuracy)):
        found = {"accuracy": value, "epochs": epochs}
        if at == 6:
            found |= {"accuracy_class_0": finals[0], "accuracy_class_1": finals[1]}
            records.evaluations.append(EvaluationRecord("0", at, "digest_parameters", digest))
        records.evaluations += [EvaluationRecord("0", at, n, str(v)) for n, v in found.items()]
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, workers, 50, 300.0, None, "none", "finished", 0.0, 7.0,
                  300.0, 7.0, 7.0, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": 6.0, "steps_credited": 0.0, "num_slots": 4.0}
    config = json.loads(json.dumps(like.config))
    config["scaling"] = scaling
    if gamma is not None:
        config["workload"] = {"pool": {"toy": {"gamma": gamma, "decay_epochs": 2}}}
    run_id = f"run-{scaling}-{workers}-{gamma}"
    with RunStore(root / "runs").create(run_id, dict(like.manifest), yaml.safe_dump(config)) as w:
        return w.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    return name(
        [
            write_model(tmp_path, "strong", 1, (1.0, 0.8), digest="same"),
            write_model(tmp_path, "strong", 4, (1.0, 0.8), digest="same"),
            write_model(tmp_path, "weak", 1, (0.9, 0.5)),
            write_model(tmp_path, "weak", 4, (1.0, 0.9)),
        ]
    )


def test_models_are_read_from_records(runs: list[ReportRun]) -> None:
    models = trained(runs)
    assert [(m.workers, m.digest) for m in models] == [
        ("1", "weak1"), ("4", "weak4"), ("1", "same"), ("4", "same")
    ]  # fmt: skip
    weak = models[0]
    assert weak.accuracy == pytest.approx(0.8)
    assert weak.by_class == {0: 0.9, 1: 0.5}
    assert weak.curve == [(1.0, 0.1), (2.0, pytest.approx(0.4)), (3.0, pytest.approx(0.8))]
    assert weak.losses == [(1.0, 1.5), (2.0, 1.0), (3.0, 0.5)]
    spreads = [run.metrics["accuracy_class_spread_mean"] for run in runs]
    assert sorted(spreads) == pytest.approx([0.1, 0.2, 0.2, 0.4])


def test_spreads(runs: list[ReportRun]) -> None:
    weak, strong = trained(runs)[:2], trained(runs)[2:]
    assert models_of_a_seed(weak) == 2
    assert models_of_a_seed(strong) == 1
    assert [spread(weak, label) for label in (None, 0, 1)] == pytest.approx([0.175, 0.1, 0.4])
    assert spread(strong, 1) == 0.0
    assert largest_spread(weak) == pytest.approx(0.175)  # at the end; half of that at epoch 2
    other_seed = [replace(model, seed=1) for model in weak[:1]]
    assert spread([*weak, *other_seed], 1) == pytest.approx(0.2)  # the mean of 0.4 and nothing


def test_sizes_and_epochs_of_steps() -> None:
    steps = [step(1, 4, 30, 1.0), step(2, 4, 30, 2.0), step(3, 1, 60, 3.0), step(4, 2, 60, 9.0)]
    assert sizes(steps) == "4→1→2"
    # A step belongs to the epoch that it begins in; the second epoch is not over.
    assert epoch_losses(steps, 100.0) == [(1.0, (30 * 1 + 30 * 2 + 60 * 3) / 120)]


@pytest.mark.parametrize("figure", ["accuracy_curves", "class_accuracy"])
def test_a_figure_has_a_row_for_each_way(runs: list[ReportRun], figure: str) -> None:
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES[figure].draw(runs)
    assert drawing.figure is not None, drawing.missing
    assert drawing.table is not None
    weak, strong = [dict(zip(drawing.table.header, r, strict=True)) for r in drawing.table.rows]
    assert (weak["different models"], strong["different models"]) == ("2", "1")
    column = "spread, points" if figure == "accuracy_curves" else "class spread, most"
    assert (weak[column], strong[column]) == (
        ("17.5", "0.0") if figure == "accuracy_curves" else ("40.0", "0.0")
    )


def test_decays_are_comparable_only_with_one_beginning(tmp_path: Path) -> None:
    found = name(
        [
            write_model(tmp_path, "strong", 1, (1.0, 1.0), gamma=0.1),
            write_model(tmp_path, "strong", 4, (1.0, 1.0), gamma=0.5),
            write_model(tmp_path, "adaptive", 1, (1.0, 1.0), gamma=0.1, first_loss=2.5),
            write_model(tmp_path, "adaptive", 4, (1.0, 1.0), gamma=0.5),
        ]
    )
    adaptive, strong = trained(found)[:2], trained(found)[2:]
    assert (same_before_decay(adaptive), same_before_decay(strong)) == (False, True)
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["decay_curves"].draw(found)
    assert drawing.table is not None
    assert [row[2] for row in drawing.table.rows] == ["no", "yes"]
    assert drawing.table.rows[1][3:] == ["0.1: 0.1000, 0.5: 0.5000", "yes"]


@pytest.mark.parametrize("figure", ["accuracy_curves", "class_accuracy", "decay_curves"])
def test_runs_that_were_not_trained_whole_are_left_out(tmp_path: Path, figure: str) -> None:
    (drawing,) = FIGURES[figure].draw(name([write_run(tmp_path, live=True)]))
    assert drawing.missing


def test_criteria_judge_all_runs_of_a_trial_at_once(runs: list[ReportRun], tmp_path: Path) -> None:
    def judged(own: list[ReportRun], metric: str, of: dict[str, str]) -> list[float]:
        criterion = Criterion("easyscale_fig2", "group", metric, of, {"above": 0.0}, is_fact=True)
        return [round(sample.value, 9) for sample in samples(criterion, own)]

    weak, strong = {"scaling": "weak"}, {"scaling": "strong"}
    assert judged(runs, "different_models", strong) == [1.0]
    assert judged(runs, "different_models", weak) == [2.0]
    assert judged(runs, "class_accuracy_spread_most_points", weak) == [40.0]
    assert judged(runs, "class_accuracy_spread_mean_points", weak) == [25.0]
    assert judged(runs, "accuracy_spread_points", weak) == [17.5]
    assert judged(runs, "class_spread_most_less_overall_points", weak) == [22.5]
    assert judged(runs, "class_accuracy_spread_most_points", strong) == [0.0]
    assert judged(runs, "accuracy_spread_points", {"scaling": "adaptive"}) == []
    assert judged(runs[:1], "accuracy_spread_points", {}) == [], "one model differs from none"
    decayed = name(
        [
            write_model(tmp_path / "decay", "weak", 4, (1.0, 1.0), gamma=gamma, first_loss=first)
            for gamma, first in ((0.1, 2.0), (0.5, 2.0), (0.3, 3.0))
        ]
    )
    assert judged(decayed, "losses_ordered_by_gamma", weak) == [1.0]
    assert judged(decayed, "losses_same_before_decay", weak) == [0.0]


def test_batches_are_named_where_they_are_what_differs() -> None:
    changed = [step(1, 1, 32, 1.0), step(2, 1, 8, 1.0), step(3, 1, 8, 1.0), step(4, 1, 64, 1.0)]
    assert variation(changed, "strong") == "batch 32→8→64"
    assert named_workers("batch 32→8→64") == "batch 32→8→64"
    assert variation(changed, "adaptive") == variation(changed[1:3], "strong") == "1"
    assert variation([*changed, step(5, 2, 64, 1.0)], "strong") == "1→2"
