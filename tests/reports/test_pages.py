"""Pages over all studies: what they say comes from records and changes with them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_runs import write_run
from test_report import read_page

from harness.metrics.statistics import Estimate
from reports.__main__ import main
from reports.claims import ledger
from reports.claims.verdicts import Status, judge
from reports.measures.fidelity import job_errors, job_spread
from reports.runs.selection import select
from reports.site.build import by_study
from reports.site.pages.base import overhead_records
from reports.site.pages.fidelity import word

PAGES = ("noise", "fidelity", "decisions", "hardware", "untested")


def rows(full_site: Path, name: str) -> list[dict[str, Any]]:
    with (full_site / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_pages_are_linked_from_the_overview_and_from_each_other(full_site: Path) -> None:
    for page in ("index", *PAGES):
        links = read_page(full_site / f"{page}.html").links
        assert {f"{other}.html" for other in PAGES} <= set(links)


def test_noise_is_of_the_records(full_site: Path, full_store: Path) -> None:
    (step,) = rows(full_site, "noise-steps")
    assert (step["workload, workers"], step["trials"]) == ("tiny/vgg16, 2", "7")
    assert step["second over first, %"] == "+2.0"
    assert step["95% interval, %"] == "-1.0 to +5.0"
    live = [row for row in rows(full_site, "noise-live") if row["metric"] == "mean JCT"]
    assert {(row["system"], row["trials"]) for row in live} == {
        ("fifo (exact) / stop_resume", "5"),
        ("uniform (exact) / stop_resume", "5"),
    }
    values = [
        r.metrics["jct_mean_s"] for r in select([full_store]) if r.is_live and "fifo" in r.system
    ]
    spread = 100 * (max(values) - min(values)) / (sum(values) / len(values))
    (fifo,) = (row for row in live if row["system"].startswith("fifo"))
    assert float(fifo["largest − smallest, %"]) == pytest.approx(spread, abs=0.06)
    assert fifo["95% interval of the mean, %"].startswith("±")


def test_overhead_records_of_two_machines_are_both_told(tmp_path: Path) -> None:
    """Their files have the same name."""
    for machine, trials in (("epyc", 7), ("xeon", 9)):
        (tmp_path / machine / "bench_overhead").mkdir(parents=True)
        record = {"machine": machine, "trials": trials}
        (tmp_path / machine / "bench_overhead" / "record.json").write_text(json.dumps(record))
    found = overhead_records([tmp_path])
    assert {name: record["trials"] for name, record in found.items()} == {
        "epyc/record": 7,
        "xeon/record": 9,
    }


def test_simulations_that_differ_are_noticed(full_site: Path, tmp_path: Path) -> None:
    (row,) = rows(full_site, "noise-simulated")
    assert (row["runs"], row["configurations"], row["with equal records"]) == ("10", "2", "2")
    for repetition in range(2):
        stored = write_run(tmp_path / "runs", repetition=repetition)
    digests = stored.path / "digests.json"
    digests.write_text(json.dumps({**stored.digests, "jobs": "0" * 64}))
    words = ["--results", str(tmp_path / "runs"), "--out", str(tmp_path / "site")]
    assert main([*words, "--formats", "svg"]) == 0
    (row,) = rows(tmp_path / "site", "noise-simulated")
    assert (row["configurations"], row["with equal records"]) == ("1", "0")


def test_hardware_is_of_the_manifests(full_site: Path) -> None:
    machines = {row["processor"]: row for row in rows(full_site, "machines")}
    assert machines["Example CPU"]["manifests"] == "20"
    assert machines["Example CPU"]["memory, GiB"] == "8.0"
    assert machines["Quiet CPU"]["cores"] == "4"
    load = {row["study"]: row for row in rows(full_site, "load")}
    assert (load["demo"]["runs"], load["demo"]["least load a core"]) == ("10", "0.10")
    assert (load["demo"]["median"], load["demo"]["most"]) == ("0.30", "0.50")
    (torch,) = (row for row in rows(full_site, "versions") if row["package"] == "torch")
    assert (torch["version"], torch["studies without it"]) == ("9.9.9", "demo")


def test_fidelity_holds_errors_to_the_target(full_site: Path) -> None:
    errors = rows(full_site, "fidelity-errors")
    assert {row["metric"] for row in errors} == {"mean JCT", "makespan", "single jobs' JCT, p95"}
    for row in errors:
        error, half = float(row["error, %"]), float(row["error, %, ±"])
        target = float(row["target, %"])
        met = -target <= error - half and error + half <= target
        assert (row["verdict"] == "met") == met
    (condition,) = rows(full_site, "fidelity-conditions")
    assert condition["fewest live trials"] == "5"
    assert "10 trials" in condition["meets the target's conditions"]


@pytest.mark.parametrize(
    ("mean", "half_width", "expected"),
    [
        (0.0, 0.01, "met"),
        (0.02, 0.02, "not distinguishable"),
        (-0.2, 0.1, "not met"),
        (0.0, None, "too few trials"),
    ],
)
def test_a_target_is_met_by_the_whole_interval(
    mean: float, half_width: float | None, expected: str
) -> None:
    assert word(Estimate(mean, 5, half_width), 0.03) == expected


def test_errors_of_single_jobs_are_none_beside_themselves(full_store: Path) -> None:
    live = [run for run in select([full_store]) if run.is_live and "fifo" in run.system]
    assert job_errors(live) == []  # nothing is simulated
    both = [run for run in select([full_store]) if "fifo" in run.system]
    found = job_errors(both)
    assert len(found) == len(live)
    assert all(error > 0 for error in found)


def test_the_spread_of_single_jobs_is_that_of_live_trials(full_store: Path) -> None:
    runs = [run for run in select([full_store]) if "fifo" in run.system]
    live = [run for run in runs if run.is_live]
    assert len(live) > 2
    assert job_spread(live) == job_spread(runs) > 0
    assert job_spread([run for run in runs if not run.is_live]) is None
    assert job_spread(live[:1]) is None
    times = [{job.job_id: job.finish_s - job.arrival_s for job in run.jobs} for run in live[:3]]
    expected = []
    for number, theirs in enumerate(times):
        one, other = (own for at, own in enumerate(times) if at != number)
        errors = [abs((one[job] + other[job]) / 2 / theirs[job] - 1) for job in theirs]
        expected.append(np.percentile(errors, 95))
    assert job_spread(live[:3]) == pytest.approx(np.mean(expected))


def test_everything_without_a_verdict_is_listed_with_its_need(
    full_site: Path, full_store: Path
) -> None:
    verdicts = judge(ledger.load(), by_study(select([full_store])))
    missing = {Status.NOT_HERE, Status.AWAITED, Status.OPEN}
    wanted = {each.claim.id for each in verdicts if each.status in missing}
    listed = {
        row["entry"]: row for paper in ledger.PAPERS for row in rows(full_site, f"untested-{paper}")
    }
    assert set(listed) == wanted
    assert all(row["requirements"] for row in listed.values())


def test_a_site_of_simulations_alone_says_what_it_lacks(tmp_path: Path) -> None:
    write_run(tmp_path / "runs")
    words = ["--results", str(tmp_path / "runs"), "--out", str(tmp_path / "site")]
    assert main([*words, "--formats", "svg"]) == 0
    for page in PAGES:
        read_page(tmp_path / "site" / f"{page}.html")
    text = (tmp_path / "site" / "noise.html").read_text(encoding="utf-8")
    assert "no live run was repeated" in text
    assert "there is no record of python -m harness.bench.overhead" in text


def test_plans_are_held_to_each_other(full_site: Path) -> None:
    (page,) = (full_site / "tables").glob("plans-*.csv")
    fast, tight = rows(full_site, page.stem)
    assert (fast["method"], fast["plans"], fast["wall p50, ms"]) == ("fast", "3", "20.0")
    assert (fast["longest"], fast["CPU p50, ms"]) == ("30.0", "10.0")
    assert (tight["method"], tight["wall p50, ms"]) == ("tight", "2000.0")
    assert (tight["below the bound p50, %"], tight["below most"]) == ("0.010", "0.020")
    assert "3 drawn instances of 100 jobs" in (full_site / "decisions.html").read_text()
