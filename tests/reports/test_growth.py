"""The figure of growing costs, on costs that grow by known powers."""

from pathlib import Path

import pytest

from harness.results.store import StoredRun
from reports.figures import FIGURES, growth
from reports.runs.selection import ReportRun


def replay(system, jobs, slots, wall_s, latency_ms=0.5, trial=0, trace="t"):
    """A run without tables: what the figure asks for is in metrics and facts."""
    about = {"repetition": trial, "choices": {"trace": trace}, "trace": {}, "profile": {}}
    stored = StoredRun(
        path=Path("nowhere"),
        config={},
        manifest={**about, "run_id": f"{system}-{jobs}-{slots}-{trial}-{trace}"},
        metrics={
            "jobs_submitted": float(jobs),
            "replay_wall_s": wall_s,
            "replay_events_per_s": 2.0 * jobs / wall_s,
            "decision_latency_p50_ms": latency_ms,
            "decision_latency_p99_ms": 2.0 * latency_ms,
        },
    )
    vars(stored)["facts"] = {"num_slots": float(slots)}  # as if they had been read
    return ReportRun(stored, f"{trace}, {jobs} jobs, {slots} slots", system, "simulated")


# Over jobs in proportion, the second trial a bit steeper; decisions by the square of the slots.
RUNS = [
    *(replay("afs", jobs, 64, jobs / 100, trial=0) for jobs in (10, 100, 1000)),
    *(replay("afs", jobs, 64, (jobs / 100) ** 1.1, trial=1) for jobs in (10, 100, 1000)),
    *(replay("afs", 100, slots, slots / 64, 0.5 * (slots / 64) ** 2) for slots in (128, 256)),
]


def test_exponents_are_those_by_which_the_costs_grow():
    (drawing,) = FIGURES["growth"].draw(RUNS)
    assert drawing.table is not None
    assert drawing.figure is not None
    over_jobs, over_slots = (
        dict(zip(drawing.table.header, row, strict=True)) for row in drawing.table.rows
    )
    assert over_jobs["system, what grows"] == "afs (unchecked), jobs (64 slots)"
    assert (over_jobs["sizes"], over_jobs["trials"]) == ("10 to 1,000", "2")
    assert over_jobs["exponent of replay"] == "1.05 (1.00 to 1.10)"
    assert over_jobs["of p50"] == "0.00 (0.00 to 0.00)"
    assert over_slots["system, what grows"] == "afs (unchecked), slots (100 jobs)"
    assert over_slots["exponent of replay"] == "1.00"
    assert over_slots["of p50"] == over_slots["of p99"] == "2.00"
    assert (over_slots["replay s"], over_slots["events/s"]) == ("1.00 to 4.00", "200 to 50.0")
    panels = drawing.figure.axes
    assert len(panels) == 6
    assert panels[0].get_legend_handles_labels()[1] == ["afs (unchecked)"]
    assert all(axis.get_xscale() == axis.get_yscale() == "log" for axis in panels)
    assert panels[-1].get_xlabel() == "slots (count, logarithmic)"


def test_it_needs_no_tables():
    assert not FIGURES["growth"].tables


def test_the_last_step_tells_a_cost_that_bends():
    bent = [replay("afs", jobs, 64, 1.0 + (jobs / 100) ** 2) for jobs in (10, 1000, 10000)]
    (row,) = FIGURES["growth"].draw(bent)[0].table.rows
    assert float(row[5]) < 1.5 < float(row[6]) == pytest.approx(2.0, abs=0.01)


def test_a_run_beside_the_sweep_is_no_part_of_it():
    others = [replay("afs", 30, 8, 9.0), replay("afs", 3000, 64, 1.0, trace="another")]
    (over_jobs, _) = growth.sweeps([*RUNS, *others])
    assert over_jobs.sizes == [10, 100, 1000]
    assert {run.run_id for run in over_jobs.runs} & {run.run_id for run in others} == set()


def test_nothing_that_grows_is_told():
    (missing,) = FIGURES["growth"].draw(RUNS[:1])
    assert missing.missing == (
        "No simulated runs of the selection differ in the number of jobs alone or of slots alone."
    )
