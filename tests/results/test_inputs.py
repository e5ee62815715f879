"""Which stored runs are of the same trace and profile, and which are on an earlier content."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from sample_runs import write_run

from harness.compare import compare
from harness.compare import main as compare_main
from harness.comparison.as_recorded import recorded_rows
from harness.comparison.inputs import contents_labels, inputs_digest, made_of, outdated
from harness.comparison.settings import settings
from harness.profiles import load_profile
from harness.profiles.read import PROVENANCE
from harness.results.store import StoredRun, iter_runs
from harness.trace.build import load_trace
from harness.trace.transforms import TransformContext
from harness.tracking.rows import tags
from harness.validate import main as validate_main
from reports.__main__ import main as report_main
from reports.runs.selection import select

EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"


def run(
    jobs="j1", *, files="f1", profile="p1", stated="", seed=0, created=EARLY, path="/lab/jobs.csv",
    speeds="/lab/speeds.yaml", scheduler="fifo", sweep="demo",
):  # fmt: skip
    """A stored run as far as its inputs go; by default of the user's own trace and profile."""
    config = {
        "trace": {"name": "lab", "reader": {"path": path}},
        "profile": {"path": speeds},
        "scheduler": {"_target_": scheduler},
        "choices": {"trace": "lab", "profile": "speeds", "scheduler": scheduler},
        "seed": seed,
        "repetition": 0,
    }
    manifest = {
        "run_id": f"{jobs}{files}{profile}{seed}{created}{path}{scheduler}",
        "created": created,
        "sweep": sweep,
        "trace": {"digest": jobs, "files_digest": files},
        "profile": {"digest": profile, "stated_digest": stated},
    }
    return StoredRun(path_of(manifest), manifest, config, {})


def path_of(manifest):
    from pathlib import Path

    return Path("runs") / manifest["run_id"].replace("/", "_")


def groups(*runs):
    """How many runs each setting has."""
    return sorted(len(own) for own in settings(runs).values())


def old(*runs):
    """Which of the runs are outdated."""
    return [runs.index(each.run) for each in outdated(runs)]


def test_seeds_that_draw_from_the_same_files_are_one_setting():
    drawn = [run("j0", seed=0), run("j1", seed=1), run("j2", seed=2)]
    assert groups(*drawn) == [3]
    assert old(*drawn) == []


def test_seeds_that_draw_from_an_edited_file_are_another_setting():
    """No seed has two sets of jobs here: only the digest of the files tells."""
    before = [run("j0", seed=0), run("j1", seed=1)]
    after = [run(f"k{n}", files="f2", seed=n, created=LATE) for n in (2, 3)]
    assert groups(*before, *after) == [2, 2]
    assert old(*before, *after) == [0, 1]
    assert [made.trace for made in made_of([*before, *after])] == ["j0", "j0", "k2", "k2"]


def test_a_comment_in_a_file_that_changes_no_job_makes_no_other_setting():
    assert groups(run(files="f1"), run(files="f2", seed=1)) == [2]


def test_another_profile_is_another_setting_and_so_is_what_it_states():
    digests = "a" * 64, "b" * 64
    runs = [run(profile=digest, stated="s" * 64) for digest in digests]
    runs.append(run(profile=digests[1], stated="t" * 64, created=LATE))
    assert groups(*runs) == [1, 1, 1]
    assert old(*runs) == [0, 1]


def test_a_shipped_profile_says_in_its_options_what_it_states():
    shipped = {"name": "cpu", "throughput": {}}
    runs = [run(), run(stated="s", seed=1)]
    runs = [replace(each, config={**each.config, "profile": shipped}) for each in runs]
    assert groups(*runs) == [2]


def test_files_in_another_folder_with_the_same_content_are_the_same():
    runs = [run(), run(path="/copy/jobs.csv", speeds="/copy/speeds.yaml", seed=1)]
    assert groups(*runs) == [2]
    assert contents_labels(runs) == [{}, {}]


def test_other_files_are_no_edit_and_are_told_by_their_names():
    runs = [run(), run("j2", files="f2", path="/lab/week2.csv", created=LATE)]
    assert groups(*runs) == [1, 1]
    assert old(*runs) == []
    labels = [each["trace"] for each in contents_labels(runs)]
    assert labels == ["file jobs.csv", "file week2.csv"]
    moved = [run(), run("j2", files="f2", path="/copy/jobs.csv")]
    labels = [each["trace"] for each in contents_labels(moved)]
    assert labels == ["file lab/jobs.csv", "file copy/jobs.csv"]


def test_an_edited_file_is_told_by_a_digest():
    runs = [run("a" * 64), run("b" * 64, files="f2", created=LATE)]
    labels = [each["trace"] for each in contents_labels(runs)]
    assert labels == [f"contents {digit * 8}" for digit in "ab"]


def test_an_edit_makes_every_scheduler_of_the_study_outdated():
    """Fifo was run again, edf was not: the two are of different inputs."""
    runs = [run(), run(scheduler="edf"), run("j2", files="f2", created=LATE)]
    assert old(*runs) == [0, 1]


def test_another_study_keeps_its_runs():
    runs = [run(), run("j2", files="f2", created=LATE, sweep="other")]
    assert old(*runs) == []
    assert groups(*runs) == [1, 1]


def on_files(folder, trace_text, profile_text, created):
    """A run on files of the user's own, which then hold these texts, with their real digests."""
    jobs, speeds = folder / "jobs.csv", folder / "speeds.yaml"
    jobs.write_text(trace_text)
    speeds.write_text(profile_text)
    columns = {"arrival": "at", "slots": "gpus", "duration": "seconds"}
    reader = {"_target_": "harness.trace.columns.ColumnsReader", "path": str(jobs)}
    trace = {
        "name": "lab", "source": "here", "licence": "none", "reader": {**reader, "columns": columns}
    }  # fmt: skip
    loaded, profile = load_trace(trace, TransformContext()), load_profile(speeds)
    made = run(
        loaded.digest, files=loaded.files_digest, profile=profile.digest,
        stated=profile.stated_digest, created=created,
    )  # fmt: skip
    config = {**made.config, "trace": trace, "profile": {"path": str(speeds)}}
    return replace(made, config=config)


JOBS = "at,gpus,seconds\n0,1,60\n5,1,{}\n"
SPEEDS = yaml.safe_dump(
    {
        "name": "speeds",
        "provenance": dict.fromkeys(PROVENANCE, "none") | {"measured_here": False},
        "throughput": {"bert": {"samples_per_s": {1: {1: 10.0}}, "source": "s", "device": "d"}},
        "rescale_costs": [{"preparation_s": 0, "pause_s": 5.4}],
    }
)


@pytest.mark.parametrize("what", ["trace", "profile"])
def test_undoing_an_edit_makes_the_first_runs_current_again(tmp_path, what):
    first = JOBS.format(60), SPEEDS
    edited = JOBS.format(70), SPEEDS
    if what == "profile":
        edited = JOBS.format(60), SPEEDS.replace("10.0", "20.0")
    runs = [on_files(tmp_path, *first, EARLY), on_files(tmp_path, *edited, LATE)]
    assert old(*runs) == [0]
    on_files(tmp_path, *first, LATE)
    assert old(*runs) == [1]
    assert [each.what for each in outdated(runs)] == [
        "trace lab (jobs.csv)" if what == "trace" else "profile speeds (speeds.yaml)"
    ]
    for path in tmp_path.iterdir():  # gone: the last run made decides
        path.unlink()
    assert old(*runs) == [0]


@pytest.mark.parametrize("files", [None, "f1"], ids=["not on record", "the same"])
def test_one_seed_with_two_sets_of_jobs_is_never_one_setting(files):
    """Files that are not on record, or code that draws otherwise."""
    runs = [run("j0", files=files), run("k0", files=files, created=LATE)]
    assert groups(*runs) == [1, 1]
    assert old(*runs) == [0]


def test_runs_without_files_on_record_are_one_setting_unless_a_seed_says_otherwise():
    before = [run("j0", files=None), run("j1", files=None, seed=1)]
    assert groups(*before) == [2]
    assert groups(*before, run("j2", seed=2)) == [3]
    assert groups(*before, run("j1", seed=1, created=LATE)) == [3]
    assert groups(*before, run("k1", seed=1, created=LATE)) == [1, 2]
    assert old(*before, run("k1", seed=1, created=LATE)) == [0, 1]


def test_tags_of_tracking_group_runs_by_their_files():
    same, other = run("j0"), run("j1", seed=1)
    edited = run("k0", files="f2")
    assert inputs_digest(same) == inputs_digest(other) == tags(same)["inputs"]
    assert len({inputs_digest(each) for each in (same, edited, run(profile="p2"))}) == 3
    assert "inputs" not in tags(run(files=None))
    assert tags(same)["trace_digest"] == "j0"
    assert tags(same)["profile_digest"] == "p1"


@pytest.fixture
def edited(tmp_path):
    """Two trials, on two contents of a trace: in folder a the first, in b both."""
    trace = {"name": "five_jobs", "digest": "a" * 64, "files_digest": "f1"}
    later = {**trace, "digest": "b" * 64, "files_digest": "f2"}
    for folder in ("a", "b"):
        write_run(tmp_path / folder, trace=trace, created=EARLY)
    write_run(tmp_path / "c", repetition=1, trace=later, created=LATE)
    write_run(tmp_path / "b", repetition=1, trace=later, created=LATE)
    return tmp_path


def test_compare_says_what_it_does_not_compare(edited, capsys):
    assert compare_main([str(edited / "a"), str(edited / "c")]) == 2
    told = capsys.readouterr().err
    assert "trace five_jobs has other contents in A (aaaaaaaa) than in B (bbbbbbbb)" in told
    assert "no setting in common" in told


def test_compare_leaves_out_what_reports_leave_out(edited, capsys):
    """A folder that was copied as a baseline, and then run again on an edited trace."""
    for first, second, name in (("a", "b", "B"), ("b", "a", "A")):
        assert compare_main([str(edited / first), str(edited / second)]) == 2
        told = capsys.readouterr()
        assert f"{name}: 1 run on trace five_jobs, edited since, not compared\n" in told.err
        assert ": 1 setting not compared\n" in told.err
        assert "1 setting is in A only\n1 setting is in B only\n" in told.err
        assert "are in both" not in told.out


def test_compare_tells_of_contents_that_one_set_has_in_addition(edited, capsys):
    """Runs of another study stay, so set B has a setting that set A lacks."""
    later = {"name": "five_jobs", "digest": "c" * 64, "files_digest": "f3"}
    write_run(edited / "d", trace={**later, "digest": "a" * 64, "files_digest": "f1"})
    write_run(edited / "d", repetition=1, trace=later, sweep="other")
    assert compare_main([str(edited / "a"), str(edited / "d")]) == 0
    told = capsys.readouterr()
    assert "has other contents in A (aaaaaaaa) than in B (cccccccc): 1 setting not" in told.err
    assert "1 setting is in B only" in told.err
    assert "in A only" not in told.err
    assert "1 simulated runs are in both: 1 the same byte for byte" in told.out


def test_compare_names_settings_by_their_contents(edited):
    """Tracking determines nothing, so it is in no name, even where it happens to differ."""
    for folder in ("d", "e"):
        for number, (digest, tracking) in enumerate((("a", "none"), ("c", "mlflow"))):
            trace = {"name": "five_jobs", "digest": digest * 64, "files_digest": digest}
            made = write_run(edited / folder, trace=trace, repetition=number, sweep=digest)
            path = made.path / "config.yaml"
            path.write_text(path.read_text().replace("tracking: mlflow", f"tracking: {tracking}"))
    found = compare(
        *(list(iter_runs(edited / folder)) for folder in ("d", "e")), ["jct_mean_s"], 0.05
    )
    assert [each.setting for each in found] == [f"trace contents {digest * 8}" for digest in "ac"]


def recorded(jobs, jct_mean_s, **trace):
    """A run on a trace that recorded outcomes; seeds may draw other jobs with the same ones."""
    made = run(jobs)
    outcomes = {"jobs": 3.0, "jct_mean_s": jct_mean_s, "queueing_mean_s": 1.0, "makespan_s": 9.0}
    facts = {**made.manifest["trace"], "name": "lab", "num_jobs": 3, "as_recorded": outcomes}
    return replace(made, manifest={**made.manifest, "trace": facts | trace})


def test_seeds_with_the_same_recorded_outcomes_share_a_row():
    runs = [recorded("j0" * 32, 5.0), recorded("j1" * 32, 5.0)]
    rows = {"as recorded": {"jct_mean_s": 5.0, "queueing_mean_s": 1.0, "makespan_s": 9.0}}
    assert recorded_rows(runs) == rows


def test_recorded_rows_of_one_name_are_all_marked_whatever_their_order():
    runs = [recorded("b" * 64, 5.0), recorded("a" * 64, 5.0), recorded("c" * 64, 6.0)]
    runs.append(recorded("d" * 64, 7.0, name="other", num_jobs=4))
    found = {label: row["jct_mean_s"] for label, row in recorded_rows(runs).items()}
    assert found == {
        "as recorded: lab, contents aaaaaaaa": 5.0,
        "as recorded: lab, contents cccccccc": 6.0,
        "as recorded: other (3 of 4 jobs)": 7.0,
    }
    assert recorded_rows(runs[::-1]) == recorded_rows(runs)


def test_compare_shows_recorded_outcomes_of_compared_runs_only(edited, capsys):
    trace = dict(recorded("a" * 64, 5.0).manifest["trace"])
    later = dict(recorded("c" * 64, 6.0, files_digest="f3").manifest["trace"])
    for folder in ("d", "e"):
        write_run(edited / folder, trace=trace)
    write_run(edited / "e", trace=later, repetition=1, sweep="other")
    assert compare_main([str(edited / "d"), str(edited / "e")]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if "As recorded" in line] == [
        "As recorded: JCT mean 5.0 s, queueing mean 1.0 s, makespan 9.0 s"
    ]


@pytest.mark.long
def test_a_report_leaves_the_earlier_out_and_says_so(edited, capsys):
    (shown,) = select([edited / "b"])
    assert shown.stored.manifest["trace"]["digest"] == "b" * 64
    out = edited / "out"
    assert report_main(["study=demo", "--results", str(edited / "b"), "--out", str(out)]) == 0
    line = "Not shown: 1 run on trace five_jobs, edited since"
    said = capsys.readouterr().out
    assert line in said
    assert re.search(r"^\d+ figures? of 1 run in ", said, re.MULTILINE)
    assert line in (out / "index.html").read_text()
    assert "2 trials" not in (out / "index.html").read_text()


def test_all_systems_on_the_same_file_share_a_setting(tmp_path):
    """Only fifo has runs on both files; uniform's setting must be that of fifo on the same one."""
    for scheduler, weeks in (("fifo", (1, 2)), ("uniform", (2,))):
        for week in weeks:
            trace = {"digest": f"j{week}", "files_digest": f"f{week}"}
            root = tmp_path / f"{scheduler}{week}"
            written = write_run(root, scheduler=scheduler, trace=trace, repetition=week)
            path = written.path / "config.yaml"
            reader = {"path": f"/somewhere/week{week}.csv"}
            own = {"trace": {"name": "lab", "reader": reader}}
            path.write_text(path.read_text() + json.dumps(own)[1:-1] + "\n")
    systems = {}
    for run in select([tmp_path]):
        systems.setdefault(run.setting.rpartition(", ")[2], []).append(run.system)
    assert {setting: len(own) for setting, own in systems.items()} == {
        "trace file week1.csv": 1,
        "trace file week2.csv": 2,
    }


def test_validate_tells_of_earlier_contents(edited, capsys):
    assert validate_main([str(edited / "b")]) == 0
    line = "note: 1 run on another content of trace five_jobs, edited since"
    assert line in capsys.readouterr().out
    assert validate_main([str(edited / "a")]) == 0
    assert "note" not in capsys.readouterr().out


def test_labels_have_no_folder_of_the_user(tmp_path):
    """Settings are named by what differs: not by where a user keeps files."""
    for folder in ("x", "y"):
        written = write_run(tmp_path / folder / "runs", scheduler=folder)
        path = written.path / "config.yaml"
        own = {"trace": {"name": "lab", "reader": {"path": f"/somewhere/{folder}/jobs.csv"}}}
        path.write_text(path.read_text() + json.dumps(own)[1:-1] + "\n")
    names = {run.setting for run in select([tmp_path])}
    assert len(names) == 1
    assert "/somewhere" not in names.pop()
