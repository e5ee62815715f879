"""``python -m reports --perfetto``: which runs it takes, and what it says."""

import json
import shutil

import pytest

from reports.__main__ import main
from reports.perfetto import files
from tests.perfetto.conftest import shipped

REFERENCE = "results/reference/amd-epyc-2cpu"


def test_a_run_by_its_folder(faulty_path, tmp_path, capsys) -> None:
    assert main(["--perfetto", "--results", str(faulty_path), "--out", str(tmp_path)]) == 0
    path = tmp_path / "perfetto" / f"{faulty_path.name}.perfetto.json"
    said = capsys.readouterr().out.splitlines()
    assert said == [str(path), "1 timeline: open a file in https://ui.perfetto.dev"]
    slots = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "slot"]
    assert slots
    assert [*tmp_path.iterdir()] == [path.parent]  # no figure and no page


def test_a_run_by_its_path_through_an_archive(live, tmp_path, capsys) -> None:
    archive = f"{REFERENCE}/edl_step_time.tar.xz"
    words = ["--results", f"{archive}/{live.run_id}", "--out", str(tmp_path)]
    assert main(["--perfetto", *words]) == 0
    assert f"/{live.run_id}.perfetto.json" in capsys.readouterr().out


def test_all_runs_of_a_study(tmp_path, capsys) -> None:
    words = ["study=easyscale_replay", "--results", f"{REFERENCE}/easyscale_replay.tar.xz"]
    assert main(["--perfetto", *words, "--out", str(tmp_path)]) == 0
    ids = {run.run_id for run in shipped("easyscale_replay")}
    assert all(files.perfetto_path(tmp_path, run_id) for run_id in ids)
    assert f"{len(ids)} timelines: " in capsys.readouterr().out


def test_runs_without_records_of_slots_are_refused(tmp_path, capsys) -> None:
    words = ["study=sens_faults", "--results", f"{REFERENCE}/sens_faults.tar.xz"]
    assert main(["--perfetto", *words, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert told.err.startswith("--perfetto: no timeline can be drawn, because records of jobs and")
    assert not [*tmp_path.iterdir()]


def test_runs_without_records_are_counted_where_others_have_them(
    faulty_path, tmp_path, capsys
) -> None:
    slim = next(run for run in shipped("sens_faults") if not run.is_drawable)
    both = tmp_path / "both"
    shutil.copytree(faulty_path, both / faulty_path.name)
    shutil.copytree(slim.stored.path, both / slim.run_id)
    assert main(["--perfetto", "--results", str(both), "--out", str(tmp_path)]) == 0
    assert "1 run without records of jobs and slots: no timeline" in capsys.readouterr().out


def test_too_many_runs_are_refused(live, tmp_path) -> None:
    with pytest.raises(files.SelectionError, match="would write 101 files, more than 100"):
        files.write(tmp_path, [live] * 101)


def test_an_archive_that_cannot_be_read_is_told(tmp_path, capsys) -> None:
    (tmp_path / "main.tar.xz").write_bytes(b"no archive")
    assert main(["--perfetto", "--results", str(tmp_path / "main.tar.xz" / "run")]) == 2
    assert "main.tar.xz: cannot be unpacked" in capsys.readouterr().err
