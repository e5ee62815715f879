"""Distribution of job completion times, by scheduler and backend."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.contracts.job_state import JobState
from harness.metrics.columns import Floats
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Job completion times"
_MOST_CURVES = 8
"""Most systems whose curves share a panel; more have a panel each."""
_COLUMNS, _TITLE_LETTERS = 3, 34
"""Panels in a row then, and letters that fit into a line of the title of one."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting, with a panel for each engine.

    A curve is the share of jobs finished within a time. It ends below 1 if jobs were refused,
    failed or never finished. Trials are pooled. More than eight systems have a panel each.
    """
    looks = style.Looks(run.system for run in runs)
    names = labels(runs)
    drawings = []
    for number, ((setting,), inside) in enumerate(groups(runs, "setting").items(), 1):
        name, title = f"jct-distribution-{number}", f"{TITLE}: {setting}"
        times = [values[values > 0] for values in map(_times, inside)]
        if not any(len(values) for values in times):
            reason = f"No job of {setting} finished."
            drawings.append(Drawing(name, title, missing=reason))
            continue
        every = np.concatenate(times)
        seconds, unit = style.time_unit(float(np.median(every)))
        least, longest = float(every.min()) / seconds, float(every.max()) / seconds
        is_many = len({run.system for run in inside}) > _MOST_CURVES
        panels = groups(inside, "engine", "system") if is_many else groups(inside, "engine")
        columns = _COLUMNS if is_many else len(panels)
        lines = -(-len(panels) // columns)
        figure = style.new_figure(3.4 if lines == 1 else 0.9 + 1.7 * lines)
        axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        for axis, (key, members) in zip(axes.flat, panels.items(), strict=False):
            axis.set_xscale("log")
            axis.set_xlim(0.8 * least, 1.25 * longest)
            axis.set_ylim(0, 1.02)
            if is_many:
                for (system, engine), others in groups(inside, "system", "engine").items():
                    if engine == key[0] and system != key[1]:
                        axis.step(*_curve(others, seconds), where="post", **_BEHIND)
            for (system,), trials in groups(members, "system").items():
                submitted = sum(len(run.jobs) for run in trials)
                label = f"{names[system]} ({len(trials)} × {submitted // len(trials):,} jobs)"
                axis.step(
                    *_curve(trials, seconds),
                    where="post",
                    linewidth=1.8,
                    label=None if is_many else label,
                    **({"color": style.PALETTE[0]} if is_many else looks.line(system)),
                )
            axis.set_title(_panel_title(names, key, inside) if is_many else key[0])
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis in list(axes.flat)[: len(panels)][-columns:]:
            axis.tick_params(labelbottom=True)
            axis.set_xlabel(f"job completion time ({unit})")
        style.plain_log_ticks(axes[0][0].xaxis)
        for line in axes[:, 0]:
            line.set_ylabel("jobs (fraction)" if is_many else "share of submitted jobs (fraction)")
        style.put_note(figure, inside)
        if not is_many:
            style.put_legend(figure)
        drawings.append(
            Drawing(
                name=name,
                title=title,
                caption="Share of the submitted jobs that finished within a time after their"
                " arrival; further left is better. A curve that stays below 1 leaves jobs"
                " unfinished. Trials are pooled. The axis of time is logarithmic."
                + (" Grey: the other systems." if is_many else ""),
                run_ids=[run.run_id for run in inside],
                figure=figure,
            )
        )
    return drawings or [Drawing("jct", TITLE, missing="No run was selected.")]


_BEHIND: dict[str, Any] = {"color": "#C9CED4", "linewidth": 0.9, "zorder": 1}
"""Look of the other systems' curves in the panel of one."""


def _panel_title(
    names: Mapping[str, str], key: tuple[str, ...], inside: Sequence[ReportRun]
) -> str:
    """Return the name of a panel's system, with the engine if there are several."""
    lines = textwrap.wrap(names[key[1]].removesuffix(_shared_end(names)), _TITLE_LETTERS)
    engine = [key[0]] if len({run.engine for run in inside}) > 1 else []
    return "\n".join([*lines, *engine])


def _shared_end(names: Mapping[str, str]) -> str:
    """Return the backend after every system's name, if all have the same; else ""."""
    ends = {" / ".join(["", *name.split(" / ")[1:]]) for name in names.values()}
    return ends.pop() if len(ends) == 1 else ""


def _curve(trials: Sequence[ReportRun], seconds: float) -> tuple[Floats, Floats]:
    """Return times in units of ``seconds``, and the share of submitted jobs finished by them."""
    values = np.sort(np.concatenate([_times(run) for run in trials])) / seconds
    submitted = sum(len(run.jobs) for run in trials)
    share = np.arange(1, len(values) + 1) / max(submitted, 1)
    kept = style.thinned(values) if len(values) else slice(0)
    return np.concatenate([[1e-12], values[kept]]), np.concatenate([[0.0], share[kept]])


def _times(run: ReportRun) -> Floats:
    done = [job for job in run.jobs if job.state == JobState.FINISHED and job.finish_s is not None]
    return np.array([(job.finish_s or 0.0) - job.arrival_s for job in done], dtype=np.float64)


FIGURE = Declared(draw, tables=("jobs",), general_place=1)
