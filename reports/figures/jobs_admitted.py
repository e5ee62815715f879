"""Jobs admitted over time, compared with jobs submitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.contracts.job_state import JobState
from harness.metrics.columns import Floats
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.figures.jobs_completed import mean_count
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Jobs admitted over time"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and engine in which jobs were refused.

    Each system that refused any job has a curve (ElasticFlow, figure 7b).
    """
    drawings = []
    refusing = [run for run in runs if run.metrics.get("jobs_refused")]
    looks = style.Looks(run.system for run in refusing)
    parts = groups(refusing, "setting", "engine")
    for number, ((setting, engine), inside) in enumerate(parts.items(), 1):
        names, systems = labels(inside), groups(inside, "system")
        arrivals = [_arrivals_s(run) for run in next(iter(systems.values()))]
        last_s = max(float(own.max()) for own in arrivals)
        seconds, unit = style.time_unit(last_s)
        figure = style.new_figure(3.2)
        axis = figure.subplots()
        times, counts = mean_count(arrivals)
        axis.step(
            times / seconds,
            counts,
            where="post",
            label="submitted",
            color=style.MUTED,
            linewidth=1.1,
            linestyle=(0, (4, 2)),
        )
        for (system,), trials in systems.items():
            admitted = [_arrivals_s(run, admitted=True) for run in trials]
            times, counts = mean_count(admitted)
            axis.step(
                np.append(times, last_s) / seconds,
                np.append(counts, counts[-1]),
                where="post",
                label=f"admitted by {names[system]}",
                linewidth=1.8,
                **looks.line(system),
            )
        axis.set_xlabel(f"time of submission since the start of the run ({unit})")
        axis.set_ylabel("jobs (count)")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        style.put_note(figure, inside)
        style.put_legend(figure)
        drawings.append(
            Drawing(
                name=f"jobs-admitted-{number}",
                title=f"{TITLE}: {setting}, {engine}",
                caption="Jobs submitted up to a time, and how many of them were never refused; "
                "means over trials. Systems that refused no job are left out, because "
                "their curve equals that of the submitted jobs.",
                run_ids=[run.run_id for run in inside],
                figure=figure,
            )
        )
    return drawings or [Drawing("jobs-admitted", TITLE, missing="No system refused a job.")]


def _arrivals_s(run: ReportRun, *, admitted: bool = False) -> Floats:
    kept = [job for job in run.jobs if not (admitted and job.state == JobState.REFUSED)]
    return np.array([job.arrival_s for job in kept], dtype=np.float64)


FIGURE = Declared(draw, tables=("jobs",))
