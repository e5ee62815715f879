"""Deadlines met and jobs admitted, drawn from records worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib as mpl
import pytest
from matplotlib.container import ErrorbarContainer
from sample_runs import write_run

from reports.drawing import style
from reports.figures import FIGURES
from reports.runs.selection import ReportRun, select


def a_run(system, met, trial=0, **metrics):
    stored = SimpleNamespace(
        run_id=f"{system}-{trial}",
        config={},
        facts={},
        manifest={"seed": trial, "trace": {}, "profile": {}},
        metrics={"deadline_satisfactory_ratio": met, "jobs_submitted": 10.0, **metrics},
    )
    return ReportRun(stored, "a trace", f"{system} / static", "simulated")


def drawn(name, runs):
    with mpl.rc_context(style.RC):
        return FIGURES[name].draw(runs)


def test_bars_are_means_from_the_lowest_to_the_highest():
    runs = [a_run("afs", 0.75, trial) for trial in range(2)]
    runs += [a_run("edf", met, trial) for trial, met in enumerate((0.1, 0.2))]
    runs += [a_run("fifo", 0.5)]
    (drawing,) = drawn("deadlines_met", runs)
    (axis,) = drawing.figure.axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([15.0, 50.0, 75.0])
    below = [text.get_text() for text in axis.get_xticklabels()]
    assert below == ["edf (unchecked)", "fifo (unchecked)", "afs (unchecked)"]
    assert [text.get_text() for text in axis.texts] == ["15.0", "50.0", "75.0"]
    assert len(axis.lines) == 2, "single trials where there are several"
    assert not axis.get_legend_handles_labels()[1]
    assert set(drawing.run_ids) == {run.run_id for run in runs}
    assert "bound" not in drawing.caption
    assert not FIGURES["deadlines_met"].tables


def test_five_trials_have_an_interval_and_a_number_above_it():
    runs = [a_run("afs", met / 10, trial) for trial, met in enumerate((3, 4, 5, 6, 7))]
    (drawing,) = drawn("deadlines_met", runs)
    (axis,) = drawing.figure.axes
    (intervals,) = (found for found in axis.containers if isinstance(found, ErrorbarContainer))
    ((_, low), (_, high)) = intervals.lines[2][0].get_segments()[0]
    assert (low + high) / 2 == pytest.approx(50.0)
    assert (high - low) / 2 == pytest.approx(19.63, abs=0.01)  # t of 4 is 2.776, s is 15.81
    assert axis.texts[0].xy[1] == pytest.approx(70.0), "above the highest trial"


def test_the_bound_is_of_runs_that_finished_all():
    bound = {"deadline_bound_ratio": 0.9}
    runs = [
        a_run("afs", 0.5, jobs_finished=10.0, **bound),
        a_run("edf", 0.4, jobs_finished=7.0, deadline_bound_ratio=0.7),
    ]
    (drawing,) = drawn("deadlines_met", runs)
    (axis,) = drawing.figure.axes
    assert axis.get_legend_handles_labels()[1] == ["bound (no system)"]
    assert axis.lines[-1].get_ydata()[0] == pytest.approx(90.0)
    assert "no schedule can meet more" in drawing.caption


def test_without_deadlines_there_are_no_bars(tmp_path):
    write_run(tmp_path)
    runs = select([tmp_path])
    for run in runs:
        run.metrics.pop("deadline_satisfactory_ratio", None)
    (drawing,) = FIGURES["deadlines_met"].draw(runs)
    assert drawing.missing


def test_admitted_jobs_are_those_submitted_that_were_not_refused(tmp_path):
    for scheduler in ("edf", "fifo"):
        write_run(tmp_path, scheduler=scheduler)
    runs = select([tmp_path])
    (missing,) = FIGURES["jobs_admitted"].draw(runs)
    assert missing.missing == "No system refused a job."
    (edf,) = (run for run in runs if run.system.startswith("edf"))
    edf.metrics["jobs_refused"] = 3.0
    edf.jobs[:] = [
        replace(job, state="refused", finish_s=None) if number in (2, 5, 11) else job
        for number, job in enumerate(sorted(edf.jobs, key=lambda job: job.arrival_s))
    ]
    (drawing,) = drawn("jobs_admitted", runs)
    (axis,) = drawing.figure.axes
    submitted, admitted = axis.lines
    assert (submitted.get_label(), max(submitted.get_ydata())) == ("submitted", 12.0)
    assert admitted.get_label().startswith("admitted by edf")
    assert max(admitted.get_ydata()) == 9.0
    assert max(admitted.get_xdata()) == max(submitted.get_xdata())
    assert drawing.run_ids == [edf.run_id]
