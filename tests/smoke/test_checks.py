"""What the short check of the whole notices; on real runs, changed by hand."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path

import pytest
import yaml

from harness.files.bounded_file import read_text
from harness.files.gz_text import text_path
from harness.results.store import CONFIG, REFERENCE, iter_runs, load_run
from harness.smoke.__main__ import main
from harness.smoke.checks import mirrored, replays, same_replay, sound_training

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("trace=five_jobs", "cluster=dgx8", "scheduler=fifo")


@pytest.fixture
def made(command):
    """A simulated run, twice: one to be changed, one as it was made."""

    def run(folder):
        assert command(*QUICK, f"results_dir={command.results / folder}").code == 0
        (found,) = iter_runs(command.results / folder)
        return found

    return run("expected"), run("found")


def rewrite(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def rewrite_table(run, change):
    """Jobs as CSV with another column or value, and a digest that says so."""
    path = run.path / "jobs.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = change(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    with gzip.open(path, "wt", newline="") as file:
        file.write(text.getvalue())
    other = hashlib.sha256(text.getvalue().encode()).hexdigest()
    rewrite(run.path / "digests.json", lambda digests: digests.update(jobs=other))


def test_the_same_replay_passes(made):
    expected, found = made
    finding = same_replay(expected, found)
    assert not finding.problem
    assert str(finding).startswith("PASS")


def test_another_metric_fails_and_what_is_about_the_machine_does_not(made):
    expected, found = made
    rewrite(found.path / "metrics.json", lambda m: m.update(replay_wall_s=99.0, jct_mean_s=1.0))
    finding = same_replay(expected, load_run(found.path))
    assert finding.problem == "differ in jct_mean_s"
    assert str(finding).startswith("FAIL")


def test_another_value_in_a_table_fails(made):
    expected, found = made
    rewrite_table(found, lambda rows: [rows[0] | {"finish_s": "1.0"}, *rows[1:]])
    assert same_replay(expected, load_run(found.path)).problem == "differ in table jobs"


def test_a_lost_row_or_table_fails(made):
    expected, found = made
    rewrite_table(found, lambda rows: rows[:-1])
    assert same_replay(expected, load_run(found.path)).problem == "differ in table jobs"
    rewrite(found.path / "digests.json", lambda digests: digests.pop("jobs"))
    assert same_replay(expected, load_run(found.path)).problem == "differ in table jobs"


def test_a_column_that_the_committed_run_did_not_have_passes(made):
    expected, found = made
    rewrite_table(found, lambda rows: [row | {"new": "1"} for row in rows])
    assert not same_replay(expected, load_run(found.path)).problem
    rewrite_table(expected, lambda rows: [row | {"old": "1"} for row in rows])
    assert same_replay(load_run(expected.path), load_run(found.path)).problem


def test_of_every_simulated_study_the_quickest_replay_is_chosen():
    runs = [
        run
        for study in ("easyscale_fig14", "easyscale_fig15", "main")
        for folder in (ROOT / REFERENCE).glob(f"*/{study}*")
        for run in iter_runs(folder)
    ]
    chosen = replays(reversed(runs))
    assert [run.manifest["sweep"] for run in chosen] == [
        "easyscale_fig14", "easyscale_fig15", "main",
    ]  # fmt: skip
    for run in chosen:
        study = run.manifest["sweep"]
        simulated = [r for r in runs if r.manifest["sweep"] == study and not trained(r)]
        assert run.facts["replay_wall_s"] == min(r.facts["replay_wall_s"] for r in simulated)
    assert not replays(runs, longest_s=0.0)


def trained(run):
    return run.facts.get("steps_executed", 0.0) > 0


@pytest.fixture
def rescaled():
    """A committed live run, with fast-forward, whose jobs were rescaled."""
    folder = next((ROOT / REFERENCE).glob("*/edl_replay"))
    return next(run for run in iter_runs(folder) if run.metrics["rescales"] >= 1)


def copy(run, folder):
    """Of a committed live run what is judged, to be changed."""
    for path in run.files():
        (folder / path.name).write_bytes(path.read_bytes())
    return load_run(folder)


def test_training_that_credits_steps_is_not_sound(rescaled):
    problems = [finding.problem for finding in sound_training(rescaled) if finding.problem]
    assert any("steps_executed is" in text for text in problems)


def test_unsound_training_is_told(rescaled, tmp_path):
    run = copy(rescaled, tmp_path)
    steps = sum(-(-job.work_samples // job.global_batch) for job in run.records.jobs)
    sound = {"steps_executed": steps, "samples_missed": 0.0, "samples_repeated": 0.0}
    rewrite(tmp_path / "facts.json", lambda facts: facts.update(sound))
    assert not [each for each in sound_training(load_run(tmp_path)) if each.problem]
    worse = {"samples_missed": 1.0, "samples_repeated": 2.0}
    rewrite(tmp_path / "facts.json", lambda facts: facts.update(worse))
    rewrite(tmp_path / "metrics.json", lambda metrics: metrics.update(rescales=0.0))
    config = yaml.safe_load(read_text(text_path(tmp_path, CONFIG)))
    config["engine"]["check_reference"] = True
    text_path(tmp_path, CONFIG).unlink()
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    problems = [each.problem for each in sound_training(load_run(tmp_path)) if each.problem]
    assert problems == [
        "samples_missed is 1.0, not 0",
        "samples_repeated is 2.0, not 0",
        "none of the script's changes was made while the job trained",
        "bitwise_equal is None, not 1",
    ]


def test_what_mlflow_lacks_is_told(made):
    run, _ = made
    assert not mirrored(run, {run.run_id: dict(run.metrics)}).problem
    assert mirrored(run, {}).problem == "the run is not there"
    shown = {run.run_id: {**run.metrics, "jct_mean_s": -1.0}}
    assert mirrored(run, shown).problem == "differ in jct_mean_s"


def test_a_folder_without_records_is_refused(tmp_path, capsys):
    assert main(["--reference", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "--reference results/reference" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
