"""Jobs completed over time, compared with jobs that have arrived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.contracts.job_state import JobState
from harness.metrics.columns import Floats
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Jobs completed over time"


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting, with a panel for each engine (Saxena, figures 5 to 9).

    A system whose curve follows the arrivals keeps up with them. A curve that keeps its slope when
    fewer jobs arrive shows a queue; a curve that ends below the arrivals shows dropped jobs.
    """
    looks = style.Looks(run.system for run in runs)
    names = labels(runs)
    drawings = []
    for number, ((setting,), inside) in enumerate(groups(runs, "setting").items(), 1):
        name, title = f"jobs-completed-{number}", f"{TITLE}: {setting}"
        if not any(len(_finishes_s(run)) for run in inside):
            drawings.append(Drawing(name, title, missing=f"No job of {setting} finished."))
            continue
        panels = groups(inside, "engine")
        moments = np.concatenate(
            [part for run in inside for part in (_finishes_s(run), _arrivals_s(run))]
        )
        last_s = float(moments.max())
        seconds, unit = style.time_unit(last_s)
        figure = style.new_figure(3.4)
        axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axis, ((engine,), members) in zip(axes, panels.items(), strict=True):
            systems = groups(members, "system")
            arrivals_s = [_arrivals_s(run) for run in next(iter(systems.values()))]
            times, counts = _until(last_s, *mean_count(arrivals_s))
            axis.step(
                times / seconds,
                counts,
                where="post",
                label="arrived",
                color=style.MUTED,
                linewidth=1.1,
                linestyle=(0, (4, 2)),
            )
            for (system,), trials in systems.items():
                finishes_s = [_finishes_s(run) for run in trials]
                times, counts = _until(last_s, *mean_count(finishes_s))
                axis.step(
                    times / seconds,
                    counts,
                    where="post",
                    label=names[system],
                    linewidth=1.8,
                    **looks.line(system),
                )
            axis.set_title(engine)
            axis.set_xlabel(f"time since the start of the run ({unit})")
            axis.set_xlim(left=0)
            axis.set_ylim(bottom=0)
        axes[0].set_ylabel("jobs completed (count)")
        style.put_note(figure, inside)
        style.put_legend(figure)
        drawings.append(
            Drawing(
                name=name,
                title=title,
                caption="Jobs that have finished up to a time, mean over trials; dashed: jobs "
                "that have arrived, in the trials of the first system. A system whose "
                "curve ends below the dashed line has refused or failed jobs.",
                run_ids=[run.run_id for run in inside],
                figure=figure,
            )
        )
    return drawings or [Drawing("jobs-completed", TITLE, missing="No run was selected.")]


def mean_count(trials: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return times, ascending from 0, and the number of moments up to each time, mean over
    trials."""
    moments = np.sort(np.concatenate(trials))
    counts = np.arange(1, len(moments) + 1) / len(trials)
    kept = style.thinned(moments) if len(moments) else slice(0)
    return np.concatenate([[0.0], moments[kept]]), np.concatenate([[0.0], counts[kept]])


def _until(last_s: float, times: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the curve, extended to the end of the axis."""
    return np.append(times, last_s), np.append(counts, counts[-1])


def _finishes_s(run: ReportRun) -> Floats:
    done = [job.finish_s for job in run.jobs if job.state == JobState.FINISHED]
    return np.array(done, dtype=np.float64)


def _arrivals_s(run: ReportRun) -> Floats:
    return np.array([job.arrival_s for job in run.jobs], dtype=np.float64)


FIGURE = Declared(draw, tables=("jobs",))
