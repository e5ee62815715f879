"""Comparison of systems input by input, for studies with many inputs and few trials of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from matplotlib.axes import Axes

from harness.metrics.statistics import Interval, mean_interval
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "On the same inputs"
_PANELS = (
    ("deadline_satisfactory_ratio", 0.01, "deadlines met (% of jobs)", 1.0),
    ("jct_mean_s", 60.0, "mean JCT (min)", -1.0),
)
"""Metric, its unit, its label, and the sign with which larger is better."""
_EQUAL = 1e-9
"""Largest relative difference of two means that is attributed to rounding."""

_Values = Mapping[str, Mapping[str, float]]
"""Mean over trials, by input and system."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return for each metric a figure of all inputs with its table, and a table of differences.

    An input is a setting that all systems have. If each seed draws another trace, as in resampling,
    a setting has its own figures, and each of its traces is an input. An input is left out if any
    system lacks the metric there. Mean JCT is left out if any system refused jobs, because it would
    be a mean of fewer jobs.
    """
    drawn: list[_Inputs] = []
    recorded: list[ReportRun] = []
    for (setting,), inside in groups(runs, "setting").items():
        if len({_digest(run) for run in inside}) > 1:
            drawn.append(_Inputs(inside, f", {setting}", f"-{len(drawn) + 1}", is_drawn=True))
        else:
            recorded += inside
    families = [_Inputs(recorded), *drawn] if recorded else drawn
    drawings = []
    for inputs in families:
        for metric, unit, label, sign in _PANELS:
            values = _values(inputs, metric, unit)
            refuses = any(run.metrics.get("jobs_refused") for run in inputs.runs)
            is_fair = metric != "jct_mean_s" or not refuses
            if len(inputs.systems) > 1 and values and is_fair:
                drawings += _drawings(inputs, values, metric, label, sign)
    if drawings:
        return drawings
    text = "No two systems share an input and a metric."
    return [Drawing("same_inputs", TITLE, missing=text)]


@dataclass(frozen=True)
class _Inputs:
    """Runs whose inputs are compared in the same figures."""

    runs: Sequence[ReportRun]
    title: str = ""
    suffix: str = ""
    """Suffix of the names of the figures."""
    is_drawn: bool = False
    """True if each seed draws its own input."""

    @property
    def systems(self) -> list[str]:
        """Names of all systems, sorted."""
        return sorted({run.system for run in self.runs})

    def name(self, run: ReportRun) -> str:
        """Return the name of a run's input."""
        return f"seed {run.trial[0]}" if self.is_drawn else run.setting


def _digest(run: ReportRun) -> str:
    """Return the digest of the jobs and events of a run's trace."""
    return str(run.stored.manifest.get("trace", {}).get("digest"))


def _values(inputs: _Inputs, metric: str, unit: float) -> dict[str, dict[str, float]]:
    """Return the means of every input on which all systems have the metric."""
    known: dict[str, dict[str, list[float]]] = {}
    for run in sorted(inputs.runs, key=lambda run: (run.setting, run.trial)):
        if metric in run.metrics:
            own = known.setdefault(inputs.name(run), {})
            own.setdefault(run.system, []).append(run.metrics[metric])
    return {
        name: {system: fmean(values) / unit for system, values in own.items()}
        for name, own in known.items()
        if len(own) == len(inputs.systems)
    }


def _drawings(
    inputs: _Inputs, values: _Values, metric: str, label: str, sign: float
) -> list[Drawing]:
    runs, systems = inputs.runs, inputs.systems
    run_ids = [run.run_id for run in runs if inputs.name(run) in values]
    figure = style.new_figure(1.2 + 0.22 * len(values))
    names = labels(runs)
    _scatter(figure.subplots(), names, values, label)
    style.put_note(figure, runs)
    style.put_legend(figure)
    rows = [[name, *(f"{own[system]:,.1f}" for system in systems)] for name, own in values.items()]
    means = (fmean(own[system] for own in values.values()) for system in systems)
    rows.append(["mean of the inputs", *(f"{mean:,.1f}" for mean in means)])
    pairs = [
        [f"{names[first]}, {names[other]}", *_pair(first, other, values, sign)]
        for first, other in combinations(systems, 2)
    ]
    return [
        Drawing(
            name=f"same_inputs-{metric}{inputs.suffix}",
            title=f"{TITLE}: {label}{inputs.title}",
            caption="Every input with all systems."
            + (" Each seed draws another trace." if inputs.is_drawn else ""),
            run_ids=run_ids,
            figure=figure,
            table=Table([f"{label} on", *(names[system] for system in systems)], rows),
        ),
        Drawing(
            name=f"same_inputs-{metric}-differences{inputs.suffix}",
            title=f"{TITLE}: differences of {label}{inputs.title}",
            caption="Mean over the inputs of the first system's value minus the other's, with "
            "the 95% bootstrap interval over inputs, given from 5 inputs on; windows of "
            "one trace count as separate inputs. The last columns count the inputs on "
            "which the first is better, the same or worse.",
            run_ids=run_ids,
            table=Table(["first, other", "difference", "better", "the same", "worse"], pairs),
        ),
    ]


def _scatter(axis: Axes, names: Mapping[str, str], values: _Values, label: str) -> None:
    looks = style.Looks(names)
    places = range(len(values))
    for marker, system in zip("osD^vPX*" * len(names), sorted(names), strict=False):
        xs = [own[system] for own in values.values()]
        colour = looks.colour(system)
        name = names[system]
        axis.plot(xs, places, marker, label=name, color=colour, markersize=4.5, alpha=0.85)
    axis.set_yticks(list(places), [style.shorten(name, 70) for name in values])
    axis.invert_yaxis()
    axis.set_xlabel(label)
    axis.set_ylabel("input (trace and its options)")
    axis.set_xlim(left=0)


def _pair(first: str, other: str, values: _Values, sign: float) -> list[str]:
    differences = [own[first] - own[other] for own in values.values()]
    scales = [max(abs(own[first]), abs(own[other])) for own in values.values()]
    signs = [
        0 if abs(difference) <= _EQUAL * scale else (1 if sign * difference > 0 else -1)
        for difference, scale in zip(differences, scales, strict=True)
    ]
    counts = [str(signs.count(one)) for one in (1, 0, -1)]
    return [_said(mean_interval(differences)), *counts]


def _said(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:+.1f}"
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"


FIGURE = Declared(draw, tables=())
