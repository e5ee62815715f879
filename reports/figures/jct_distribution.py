"""Distribution of job completion times, by scheduler and backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.contracts.job_state import JobState
from harness.metrics.columns import Floats
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Job completion times"
_WIDE = 50
"""Ratio of the longest to the median time above which the axis is logarithmic."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting, with a panel for each engine.

    A curve is the share of jobs finished within a time. It ends below 1 if jobs were refused,
    failed or never finished. Trials are pooled.
    """
    looks = style.Looks(run.system for run in runs)
    names = labels(runs)
    drawings = []
    for number, ((setting,), inside) in enumerate(groups(runs, "setting").items(), 1):
        panels = groups(inside, "engine")
        name, title = f"jct-distribution-{number}", f"{TITLE}: {setting}"
        times = [_times(run) for run in inside]
        if not any(len(values) for values in times):
            reason = f"No job of {setting} finished."
            drawings.append(
                Drawing(f"jct-distribution-{number}", f"{TITLE}: {setting}", missing=reason)
            )
            continue
        longest = max(float(values.max()) for values in times if len(values))
        middle = max(float(np.median(np.concatenate(times))), 1e-9)
        is_wide = longest > _WIDE * middle
        seconds, unit = style.time_unit(middle if is_wide else longest)
        figure = style.new_figure(3.4)
        axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axis, ((engine,), members) in zip(axes, panels.items(), strict=True):
            for (system,), trials in groups(members, "system").items():
                values = np.sort(np.concatenate([_times(run) for run in trials])) / seconds
                submitted = sum(len(run.jobs) for run in trials)
                share = np.arange(1, len(values) + 1) / max(submitted, 1)
                kept = style.thinned(values) if len(values) else slice(0)
                axis.step(
                    np.concatenate([[0.0], values[kept]]),
                    np.concatenate([[0.0], share[kept]]),
                    where="post",
                    linewidth=1.8,
                    label=f"{names[system]} ({len(trials)} × {submitted // len(trials):,} jobs)",
                    **looks.line(system),
                )
            axis.set_title(engine)
            axis.set_xlabel(f"job completion time ({unit})")
            axis.set_ylim(0, 1.02)
            if is_wide:
                axis.set_xscale("symlog", linthresh=middle / seconds / 10)
                axis.xaxis.set_major_formatter("{x:,g}")
            axis.set_xlim(left=0)
        axes[0].set_ylabel("share of submitted jobs (fraction)")
        style.put_note(figure, inside)
        style.put_legend(figure)
        drawings.append(
            Drawing(
                name=name,
                title=title,
                caption="Share of the submitted jobs that finished within a time after their"
                " arrival; further left is better. A curve that stays below 1 leaves jobs"
                " unfinished. Trials are pooled."
                + (" The time axis is logarithmic, but linear near 0." if is_wide else ""),
                run_ids=[run.run_id for run in inside],
                figure=figure,
            )
        )
    return drawings or [Drawing("jct", TITLE, missing="No run was selected.")]


def _times(run: ReportRun) -> Floats:
    done = [job for job in run.jobs if job.state == JobState.FINISHED and job.finish_s is not None]
    return np.array([(job.finish_s or 0.0) - job.arrival_s for job in done], dtype=np.float64)


FIGURE = Declared(draw, tables=("jobs",), general_place=1)
