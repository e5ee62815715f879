"""The simulator against live runs: relative error of every metric, with its interval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from harness.metrics.statistics import MIN_TRIALS, Estimate, estimate
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Simulated against live"
METRICS: Mapping[str, str] = {
    "jct_mean_s": "mean JCT",
    "jct_median_s": "median JCT",
    "jct_p95_s": "JCT, 95th percentile",
    "queueing_mean_s": "mean queueing delay",
    "makespan_s": "makespan",
    "slot_utilization_mean": "slots in use",
    "cluster_efficiency_mean": "cluster efficiency",
    "deadline_satisfactory_ratio": "deadlines met",
    "rescales": "rescales",
    "stopping_time_scale_out_mean_s": "stopping time, scale-out",
    "stopping_time_scale_in_mean_s": "stopping time, scale-in",
    "resource_loss_slot_s": "resource loss",
}
"""Metrics that are compared, with their names."""
FAR, LINEAR = 60, 10
"""Errors in %: if any is above the first, the scale is logarithmic, and linear up to the second."""
TICKS = (5, 10, 30, 100, 300, 1000, 3000, 10000)
_WALL_CLOCK = frozenset(
    {
        "stopping_time_scale_out_mean_s",
        "stopping_time_scale_in_mean_s",
        "resource_loss_slot_s",
    }
)
"""Metrics that live runs have in wall-clock seconds; these are converted to the engine's clock."""


@dataclass(frozen=True)
class Comparison:
    """One metric of one system in both engines."""

    metric: str
    system: str
    simulated: float
    live: Sequence[float]
    errors: Sequence[float]
    """Value of simulated / live - 1 for each live trial."""
    speeds: Sequence[float | None] = ()
    """Speed of the machine in each trial over that of the profile; None if unknown."""
    own: Sequence[float | None] = ()
    """Error for each live trial simulated again at its workers' own speeds; None if it was not."""
    draws: Sequence[float] = ()
    """Each simulated run over the mean of its seed, minus 1; not 0 if the runs were drawn."""

    @property
    def error(self) -> Estimate:
        """Mean error and its interval.

        Drawn simulations widen the interval by the uncertainty of their own mean; there is no
        interval if they are too few.
        """
        found = estimate(self.errors)
        if not any(self.draws):
            return found
        halves = found.half_width, estimate(self.draws).half_width
        known = [half for half in halves if half is not None]
        half_width = math.hypot(*known) if len(known) == len(halves) else None
        return Estimate(found.mean, found.num_trials, half_width)

    @property
    def error_at_own_speeds(self) -> Estimate | None:
        """Mean error with each trial's own speeds; None if a trial was not simulated again."""
        own = [error for error in self.own if error is not None]
        return estimate(own) if own and len(own) == len(self.errors) else None

    @property
    def error_at_equal_speed(self) -> Estimate | None:
        """Mean error if the machine were as fast as the profile says, to a first approximation.

        The value is None if a trial's speed is unknown.
        """
        speeds = [speed for speed in self.speeds if speed]
        if len(speeds) < len(self.errors):
            return None
        pairs = zip(self.errors, speeds, strict=True)
        return estimate([(1 + error) / speed - 1 for error, speed in pairs])

    @property
    def spread(self) -> tuple[float, float]:
        """Least and largest live trial over the mean of live trials, minus 1."""
        mean = fmean(self.live)
        return min(self.live) / mean - 1, max(self.live) / mean - 1


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting and pair of a live and a simulated engine.

    A pair has a figure if a system ran in both engines.
    """
    drawings: list[Drawing] = []
    for (setting,), inside in groups(runs, "setting").items():
        for engines, chosen in engine_pairs(inside).items():
            found = compare(chosen)
            if found:
                title = f"{TITLE} ({' and '.join(engines)}): {setting}"
                name = f"simulated-against-live-{len(drawings) + 1}"
                drawings.append(_chart(name, title, found, chosen))
    if drawings:
        return drawings
    reason = "No system of the selection ran in both engines in the same setting."
    return [Drawing("simulated-live", TITLE, missing=reason)]


def engine_pairs(runs: Sequence[ReportRun]) -> dict[tuple[str, str], list[ReportRun]]:
    """Return the runs of one setting for each pair of a simulated and a live engine."""
    live, simulated = (
        sorted({run.engine for run in runs if run.is_live is is_live}) for is_live in (True, False)
    )
    return {
        both: [run for run in runs if run.engine in both]
        for both in itertools.product(simulated, live)
    }


def compare(runs: Sequence[ReportRun]) -> list[Comparison]:
    """Return a comparison for every metric of every system that has live and simulated runs.

    A live trial is compared with the mean of the simulated runs of its seed. These are all alike
    unless their speeds and costs were drawn. A trial whose seed has none is compared with the only
    simulated seed, if there is one.
    """
    found = []
    for (system,), trials in groups(runs, "system").items():
        live = [run for run in trials if run.is_live]
        simulated = [run for run in trials if not run.is_live]
        for metric in METRICS if live and simulated else ():
            said, draws = _expected(simulated, metric)
            pairs = []
            for run in live:
                expected = said.get(run.trial[0])
                if expected is None and len(said) == 1:
                    expected = next(iter(said.values()))
                if expected is None or not run.metrics.get(metric):
                    continue
                real_s = run.dilation if metric in _WALL_CLOCK else 1.0
                speed = run.metrics.get("speed_over_profile")
                again = run.metrics.get(f"resimulated_{metric}")
                pairs.append((expected, run.metrics[metric] / real_s, speed, again))
            if pairs:
                ours, real, speeds, anew = zip(*pairs, strict=True)
                errors = [one / theirs - 1 for one, theirs in zip(ours, real, strict=True)]
                own = [
                    None if one is None else one / theirs - 1
                    for one, theirs in zip(anew, real, strict=True)
                ]
                mean = fmean(ours)
                found.append(Comparison(metric, system, mean, real, errors, speeds, own, draws))
    return found


def _expected(runs: Sequence[ReportRun], metric: str) -> tuple[dict[int, float], list[float]]:
    """Return the mean of a metric by seed, and the relative distance of each run from that mean."""
    by_seed: dict[int, list[float]] = {}
    for run in runs:
        if metric in run.metrics:
            by_seed.setdefault(run.trial[0], []).append(run.metrics[metric])
    means = {seed: fmean(values) for seed, values in by_seed.items()}
    # Equal values get exactly 0: their mean may differ from them in the last digit.
    draws = [
        value / means[seed] - 1 if len(set(values)) > 1 and means[seed] else 0.0
        for seed, values in by_seed.items()
        for value in values
    ]
    return means, draws


def _chart(
    name: str, title: str, found: Sequence[Comparison], runs: Sequence[ReportRun]
) -> Drawing:
    systems = sorted({one.system for one in found})
    metrics = [metric for metric in METRICS if any(one.metric == metric for one in found)]
    looks, names = style.Looks(systems), labels(runs)
    figure = style.new_figure(1.1 + len(metrics) * (0.16 + 0.15 * len(systems)))
    axis = figure.subplots()
    step = 0.72 / len(systems)
    for one in found:
        place = metrics.index(one.metric) + (systems.index(one.system) + 0.5) * step - 0.36
        colour, low_high = looks.colour(one.system), one.spread
        axis.barh(
            place, 100 * (low_high[1] - low_high[0]), left=100 * low_high[0], height=step * 0.8,
            color=colour, alpha=0.18, linewidth=0,
        )  # fmt: skip
        axis.plot([100 * error for error in one.errors], [place] * len(one.errors), "o",
                  color=colour, markersize=2.6, alpha=0.55, markeredgewidth=0)  # fmt: skip
        mean = one.error
        bar = None if mean.half_width is None else 100 * mean.half_width
        axis.errorbar(
            100 * mean.mean, place, xerr=bar, fmt="D" if bar is not None else "o", color=colour,
            markersize=4, capsize=2.5, linewidth=1.3,
            label=names[one.system] if one.metric == next(
                other.metric for other in found if other.system == one.system
            ) else None,
        )  # fmt: skip
    axis.axvline(0, color=style.INK, linewidth=0.9)
    axis.set_yticks(np.arange(len(metrics)), [METRICS[metric] for metric in metrics])
    axis.set_ylim(len(metrics) - 0.4, -0.6)
    _set_scale(axis, 100 * max(abs(error) for one in found for error in one.errors))
    axis.set_ylabel("metric (category)")
    axis.grid(visible=False, axis="y")
    style.put_note(figure, runs)
    style.put_legend(figure)
    return Drawing(
        name=name,
        title=title,
        caption=_caption(found),
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=_table(found, names),
    )


def _set_scale(axis: Axes, largest: float) -> None:
    """Set the scale of errors in %: logarithmic beyond ``LINEAR`` if one is above ``FAR``.

    On a linear scale, an error far above the others would put all others on one line.
    """
    label = "relative error, simulated / live − 1 (%"
    if largest > FAR:
        axis.set_xscale("symlog", linthresh=LINEAR, linscale=1.5)
        ticks = [tick for tick in TICKS if tick <= largest]
        axis.set_xticks([-tick for tick in ticks if tick <= 100] + [0, *ticks])
        axis.minorticks_off()
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        label += f"; logarithmic beyond ±{LINEAR}"
    axis.set_xlabel(f"{label})")


def _caption(found: Sequence[Comparison]) -> str:
    fewest = min(len(one.errors) for one in found)
    interval = (
        f"Diamonds are means over at least {fewest} live trials, with their 95% intervals"
        " (Student's t)."
        if fewest >= MIN_TRIALS
        else f"Some systems have only {fewest} live trial{'s' if fewest > 1 else ''}: no interval"
        f" is given below {MIN_TRIALS}, and circles mark such means."
    )
    return (
        f"{interval} Small dots are single trials. The pale bar spans the live trials around"
        " their own mean: an error inside it is not distinguishable from the live spread."
        + (
            " Simulated is the mean of drawn simulations; intervals count how far it is known."
            if any(any(one.draws) for one in found)
            else ""
        )
    )


def _table(found: Sequence[Comparison], names: Mapping[str, str]) -> Table:
    rows = []
    for one in found:
        mean, (low, high) = one.error, one.spread
        interval = (
            f"±{100 * mean.half_width:.1f}"
            if mean.half_width is not None
            else f"none, n < {MIN_TRIALS}"
        )
        rows.append(
            [f"{METRICS[one.metric]}: {names[one.system]}", f"{one.simulated:.4g}",
             f"{fmean(one.live):.4g}", f"{100 * mean.mean:+.1f}", interval,
             str(mean.num_trials), f"{100 * low:+.1f} to {100 * high:+.1f}"]
        )  # fmt: skip
    header = ["metric: system", "simulated", "live, mean", "error %", "95% interval", "n",
              "live spread %"]  # fmt: skip
    return Table(header, rows)
