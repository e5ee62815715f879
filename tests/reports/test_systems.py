"""The overview's comparison of systems: medians of what the records of its studies hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sample_runs import write_run
from test_report import read_page

from reports.__main__ import main
from reports.runs.selection import ReportRun, select
from reports.site import system_tables as systems


def with_metrics(run: ReportRun, **metrics: float) -> ReportRun:
    return replace(run, stored=replace(run.stored, metrics=metrics))


def test_backends_are_medians_over_live_runs(tmp_path: Path) -> None:
    for repetition in range(3):
        write_run(tmp_path, live=True, repetition=repetition)
        write_run(tmp_path, live=True, repetition=repetition, backend="stop_free")
    write_run(tmp_path)
    lost = iter((1.0, 30.0, 2.0, 8.0, 6.0, 7.0))
    runs = [
        with_metrics(run, samples_lost_per_rescale_mean=next(lost) if run.is_live else 1e9)
        for run in sorted(select([tmp_path]), key=lambda run: (run.backend, run.run_id))
    ]
    (found,) = systems.compare({"main": runs})
    (part,) = found.parts
    assert [*part.rows] == [
        ["stop_free", "", "", "2.0", "", "3"],
        ["stop_resume", "", "", "7.0", "", "3"],
    ]
    assert part.scale.startswith("6 runs live, 12 jobs on 4 slots")
    assert found.table().rows[0][:2] == ["stop_free", "main"]


def test_equal_bits_are_counted_among_runs_that_were_held_to_them(tmp_path: Path) -> None:
    for repetition in range(3):
        write_run(tmp_path, live=True, repetition=repetition)
    first, second, third = select([tmp_path])
    runs = [
        with_metrics(first, bitwise_equal=1.0),
        with_metrics(second, bitwise_equal=0.0),
        with_metrics(third, stopping_time_scale_in_mean_s=0.25),
    ]
    (found,) = systems.compare({"easyscale_replay": runs})
    assert found.parts[0].rows == [["stop_resume", "", "0.25", "", "1 of 2", "3"]]


def test_schedulers_are_ordered_and_have_their_level(tmp_path: Path) -> None:
    for name in ("fifo", "edf", "uniform"):
        write_run(tmp_path, scheduler=name)
    met = {"fifo": 0.2, "edf": 0.9, "uniform": 0.9}
    jct = {"fifo": 10.0, "edf": 5000.0, "uniform": 20.0}
    runs = []
    for run in select([tmp_path]):
        name = run.system.partition(" ")[0]
        values = {"deadline_satisfactory_ratio": met[name], "jct_penalised_mean_s": jct[name]}
        runs.append(with_metrics(run, **values))
    (found,) = systems.compare({"test_deadlines": runs})
    assert found.parts[0].rows == [
        ["uniform", "exact", "90.0", "20", "1"],
        ["edf", "exact", "90.0", "5,000", "1"],
        ["fifo", "exact", "20.0", "10", "1"],
    ]
    # Its setting of elasticflow_fig6 is another trace.
    assert systems.compare({"elasticflow_fig6": runs}) == []


def test_the_overview_links_the_studies_that_it_compares(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", sweep="main", scheduler="uniform", live=True)
    write_run(tmp_path / "runs", sweep="test_jct", scheduler="edf")
    out = tmp_path / "site"
    assert main(["--results", str(tmp_path / "runs"), "--out", str(out), "--formats", "svg"]) == 0
    page = read_page(out / "index.html")
    assert {"systems-backends", "systems-schedulers"} <= set(page.ids)
    # Beside the links from the list of studies: two for every study.
    assert page.links.count("studies/main/index.html") == 3
    assert (out / "tables" / "systems-backends.csv").is_file()


def test_without_records_of_these_studies_there_is_no_comparison(full_site: Path) -> None:
    assert "systems-" not in (full_site / "index.html").read_text(encoding="utf-8")
