"""Copies of a study's runs for the reference: whole or slim, of one machine, never by surprise."""

import gzip
import json
import shutil

import pytest

from harness import reference, validate
from harness.cli import main as run_harness
from harness.files.gz_text import text_path
from harness.machine.manifest import hardware_slug
from harness.results.store import CONFIG, StoreError, iter_runs, load_run
from harness.results.tables import TableError
from reports.__main__ import main as draw

STUDY = """description: two schedulers
base: [trace=itp195, cluster=a100x128, tracking=none, progress=false]
grids:
  - scheduler: [fifo, edf]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study and its finished runs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "pair.yaml").write_text(STUDY)
    assert run_harness([f"study={folder / 'pair.yaml'}", f"results_dir={folder / 'runs'}"]) == 0
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy to spoil."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def export(folder, capsys):
    """Runs the command; its exit code and everything it said."""

    def call(*words, study=None):
        capsys.readouterr()
        named = folder / "pair.yaml" if study is None else study
        places = ["--results", str(folder / "runs"), "--to", str(folder / "reference")]
        code = reference.main([f"study={named}", *places, *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def runs_of(folder):
    return {run.run_id: run for run in iter_runs(folder / "runs")}


def copies_of(folder):
    return {run.run_id: run for run in iter_runs(folder / "reference")}


def change_manifest(run, **changes):
    path = run.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def files(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


def test_runs_are_copied_whole_but_for_logs_and_checkpoints(folder, export):
    runs = runs_of(folder)
    for run in runs.values():
        (run.path / "jobs" / "0").mkdir(parents=True)
        (run.path / "jobs" / "0" / "worker.log").write_text("words")
    code, text = export()
    assert (code, "2 runs copied" in text) == (0, True)
    slug = hardware_slug(next(iter(runs.values())).manifest["hardware"])
    for run_id, run in runs.items():
        copy = folder / "reference" / slug / "pair" / run_id
        assert files(copy) == files(run.path)
        assert [path for path in copy.iterdir() if path.is_dir()] == []
    assert validate.main([str(folder / "reference")]) == 0


def test_runs_of_the_study_alone_are_copied(folder, export):
    other = ["trace=five_jobs", "cluster=dgx8", "tracking=none", "progress=false"]
    assert run_harness([*other, f"results_dir={folder / 'runs'}"]) == 0
    assert len(runs_of(folder)) == 3
    assert export()[0] == 0
    assert len(copies_of(folder)) == 2


def test_points_are_known_by_what_they_are_whatever_their_label(folder, export):
    for run in runs_of(folder).values():
        change_manifest(run, sweep="another")
    assert export()[0] == 0
    assert len(copies_of(folder)) == 2
    code, text = export(study="another")
    assert (code, "2 runs copied" in text) == (0, True)
    assert export(study="nothing")[0] == 2


def test_an_unfinished_study_is_refused(folder, export):
    run = next(iter(runs_of(folder).values()))
    shutil.rmtree(run.path)
    code, text = export()
    assert code == 2
    assert "1 of 2 points have no finished run" in text
    assert "run them: python -m harness study=" in text
    code, text = export("seed=5")
    assert (code, "2 of 2 points" in text) == (2, True)
    assert not (folder / "reference").exists()


def test_a_study_of_which_the_quick_size_was_run_is_copied_so(folder, export):
    with (folder / "pair.yaml").open("a") as file:
        file.write("quick: [scheduler=edf]\n")
    other = next(run for run in runs_of(folder).values() if "fifo" in run.run_id)
    shutil.rmtree(other.path)
    assert export()[0] == 2
    code, text = export("size=quick")
    assert (code, "1 runs copied" in text) == (0, True)
    assert export("scheduler=edf")[0] == 0, "the same by its words"
    code, text = export("scheduler=tiresias")
    assert (code, "no point of the study has scheduler=tiresias" in text) == (2, True)


def test_slim_copies_leave_large_tables_out_and_say_so(folder, export, capsys, monkeypatch):
    monkeypatch.setattr(reference, "SLIM_BYTES", 2_000)
    code, text = export("--slim")
    assert code == 0
    for run_id, copy in copies_of(folder).items():
        run = runs_of(folder)[run_id]
        tables = [*run.path.glob("*.csv.gz")]
        large = {p.name for p in tables if p.stat().st_size > 2_000 or p.stem == "decisions.csv"}
        assert "jobs.csv.gz" in large
        assert files(run.path).keys() - files(copy.path).keys() == {
            *large, "config.yaml", "manifest.json"
        }  # fmt: skip
        assert copy.config == run.config
        assert {f"{name}.csv.gz" for name in copy.left_out} == large
        assert f"{run_id}: without" in text
        assert copy.metrics == run.metrics
        with pytest.raises(TableError, match="jobs was left out when this run was copied"):
            copy.rows("jobs")
        assert copy.records.jobs == []
    assert validate.main([str(folder / "reference")]) == 0
    said = capsys.readouterr().out
    assert "2 runs checked, 0 problems" in said
    assert said.count("copied without") == 2
    assert "jobs (" in said


def test_a_slim_copy_is_run_again_from_its_own_configuration(folder, export, capsys):
    export("--slim")
    (copy, *_) = copies_of(folder).values()
    path = text_path(copy.path, CONFIG)
    assert path.name == "config.yaml.gz"
    again = [f"results_dir={folder / 'again'}", "tracking=none", "progress=false"]
    assert run_harness(["--from", str(path), *again]) == 0
    (run,) = iter_runs(folder / "again")
    assert (run.run_id, run.metrics["jct_mean_s"]) == (copy.run_id, copy.metrics["jct_mean_s"])
    capsys.readouterr()
    path.write_bytes(path.read_bytes()[:-9])
    assert run_harness(["--from", str(path), *again]) == 2
    assert "holds no configuration: damaged" in capsys.readouterr().err
    with pytest.raises(StoreError, match=r"config\.yaml\.gz: cannot be read"):
        load_run(copy.path)


def test_reports_show_slim_copies_by_their_metrics(folder, export, capsys, monkeypatch):
    monkeypatch.setattr(reference, "SLIM_BYTES", 2_000)
    export("--slim")
    out = folder / "site"
    assert draw(["--results", str(folder / "reference"), "--out", str(out)]) == 0
    assert "2 runs were copied without tables" in capsys.readouterr().out
    (page,) = out.rglob("tables.md")
    tables = page.read_text()
    assert "fifo (exact) / stop_resume" in tables
    assert "195" in tables


@pytest.mark.parametrize("left_out", [{"jobs"}, {"grants"}, {"latencies"}, {"changes", "jobs"}])
def test_whatever_is_left_out_the_rest_is_still_checked(folder, left_out, capsys):
    run = next(iter(runs_of(folder).values()))
    for name in left_out:
        (run.path / f"{name}.csv.gz").unlink()
    assert validate.check_run(run.path)
    change_manifest(run, left_out=dict.fromkeys(left_out, 1))
    assert validate.check_run(run.path) == []
    table = "decisions.csv.gz"
    content = gzip.decompress((run.path / table).read_bytes())
    (run.path / table).write_bytes(gzip.compress(content + content.split(b"\r\n")[1] + b"\r\n"))
    assert any("decisions.csv.gz was changed" in text for text in validate.check_run(run.path))


def test_a_table_that_is_there_cannot_have_been_left_out(folder):
    run = next(iter(runs_of(folder).values()))
    change_manifest(run, left_out={"jobs": 1})
    assert any("left out, but it is there" in text for text in validate.check_run(run.path))


def test_runs_of_several_machines_are_not_mixed(folder, export):
    first, second = runs_of(folder).values()
    slug = hardware_slug(first.manifest["hardware"])
    change_manifest(second, hardware={"cpu": "Other CPU @ 3.0GHz", "cores": 64})
    code, text = export()
    assert code == 2
    assert "made on several machines" in text
    assert "other-64cpu (1 runs)" in text
    assert slug in text
    assert copies_of(folder) == {}
    assert export("--hardware", "third")[0] == 2
    assert export("--hardware", slug)[0] == 0
    assert list(copies_of(folder)) == [first.run_id]
    assert export("--hardware", "other-64cpu")[0] == 0
    assert {run.path.parent.parent.name for run in copies_of(folder).values()} == {
        slug,
        "other-64cpu",
    }


def test_another_machine_of_the_same_short_name_is_noticed(folder, export):
    assert export()[0] == 0
    copy = next(iter(copies_of(folder).values()))
    known = copy.manifest["hardware"]
    change_manifest(copy, hardware={**known, "cpu": known["cpu"] + " (R)"})
    code, text = export("--force")
    assert (code, "1 runs of another machine" in text) == (2, True)


def test_equal_copies_are_left_alone_and_others_only_with_force(folder, export):
    assert export()[0] == 0
    assert "0 runs copied, 2 were there" in export()[1]
    run = next(iter(runs_of(folder).values()))
    change_manifest(run, created="2026-01-02T03:04:05+00:00")
    code, text = export()
    assert code == 2
    assert "is there already, and differs from the run; --force writes over it" in text
    assert copies_of(folder)[run.run_id].manifest["created"] != "2026-01-02T03:04:05+00:00"
    assert export("--force")[0] == 0
    assert copies_of(folder)[run.run_id].manifest["created"] == "2026-01-02T03:04:05+00:00"
    assert not list((folder / "reference").rglob(".partial-*"))


def test_a_slim_copy_of_a_slim_copy_keeps_both_lists(folder, export, monkeypatch):
    monkeypatch.setattr(reference, "SLIM_BYTES", 2_000)
    run = next(iter(runs_of(folder).values()))
    (run.path / "latencies.csv.gz").unlink()
    change_manifest(run, left_out={"latencies": 77})
    assert export("--slim")[0] == 0
    left_out = load_run(copies_of(folder)[run.run_id].path).left_out
    assert left_out["latencies"] == 77
    assert "jobs" in left_out


def test_an_unsound_run_is_not_copied(folder, export):
    run = next(iter(runs_of(folder).values()))
    (run.path / "metrics.json").write_text(json.dumps({**run.metrics, "jct_mean_s": 1.0}))
    code, text = export()
    assert (code, "metrics.json says jct_mean_s = 1.0" in text) == (2, True)
    assert copies_of(folder) == {}


def test_remains_of_an_earlier_study_are_pointed_out(folder, export):
    export()
    text = STUDY.replace("[fifo, edf]", "[fifo]")
    (folder / "pair.yaml").write_text(text)
    assert "1 other runs are there too" in export()[1]


@pytest.mark.parametrize(
    ("hardware", "slug"),
    [
        ({"cpu": "AMD EPYC", "cores": 2}, "amd-epyc-2cpu"),
        ({"cpu": "AMD EPYC 7763 64-Core Processor", "cores": 8}, "amd-epyc-7763-8cpu"),
        ({"cpu": "Intel(R) Xeon(R) CPU @ 2.20GHz", "cores": 2}, "intel-xeon-2cpu"),
        (
            {"cpu": "Intel(R) Xeon(R)", "cores": 16, "accelerators": ["NVIDIA H200"] * 2},
            "intel-xeon-16cpu-2x-nvidia-h200",
        ),
        ({"cpu": "", "cores": 4, "accelerators": []}, "unknown-4cpu"),
    ],
)
def test_short_names_of_machines(hardware, slug):
    assert hardware_slug(hardware) == slug


def test_a_word_that_is_no_study(capsys):
    assert reference.main(["main"]) == 2
    assert "main: is no argument; write study=NAME" in capsys.readouterr().err


def test_a_packed_study_is_one_file_and_stays_so(folder, export):
    code, text = export("--slim", "--packed")
    assert (code, "pair.tar.xz" in text) == (0, True)
    first = {run_id: files(run.path) for run_id, run in copies_of(folder).items()}
    assert len(first) == 2
    (archive,) = (folder / "reference").glob("*/*.tar.xz")
    assert [path.name for path in archive.parent.iterdir() if path.name[0] != "."] == [archive.name]
    content = archive.read_bytes()
    code, text = export("--slim")
    assert (code, "2 were there" in text) == (0, True)
    assert archive.read_bytes() == content
    for run in runs_of(folder).values():
        change_manifest(run, sweep="another")
    code, text = export("--slim")
    assert (code, "--force writes over it" in text) == (2, True)
    assert archive.read_bytes() == content
    assert export("--slim", "--force")[0] == 0
    assert {run.manifest["sweep"] for run in copies_of(folder).values()} == {"another"}
    assert validate.main([str(folder / "reference")]) == 0


def test_no_table_is_too_small_to_be_left_out(folder, export):
    assert export("--slim", "--slim-kb", "0")[0] == 0
    for run in copies_of(folder).values():
        assert {"jobs", "changes", "grants", "latencies"} <= set(run.left_out)
        assert not list(run.path.glob("*.csv.gz"))
