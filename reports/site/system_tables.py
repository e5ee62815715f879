"""Comparison of systems on the overview: backends by the cost of a change, schedulers by outcome.

The numbers are medians of stored metrics over the runs of a study. Studies have different scales,
so systems can only be compared within a study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.results import verification_levels as levels
from reports.claims.measures import says_same
from reports.drawing.figure import Table
from reports.runs.selection import ReportRun, options
from reports.site import about

_BACKENDS = ("edl_rescale", "edl_replay", "main", "easyscale_replay")
"""Studies that compare backends."""
_SCHEDULERS: Mapping[str, Mapping[str, str]] = {
    "elasticflow_fig6": {"trace": "itp195"},
    "edl_table3": {"trace": "philly_models_sample", "backend": "stop_free"},
    "test_deadlines": {},
    "test_jct": {},
}
"""Studies that compare schedulers, with options that select the runs shown. The options select one
of several settings, or the inputs that all schedulers share."""
_COSTS: Mapping[str, tuple[str, str]] = {
    "stopping_time_scale_out_mean_s": ("stopping out, s", ".3g"),
    "stopping_time_scale_in_mean_s": ("stopping in, s", ".3g"),
    "samples_lost_per_rescale_mean": ("samples lost per rescale", ",.1f"),
}
_EQUAL = "bitwise_equal"
_MET, _JCT = "deadline_satisfactory_ratio", "jct_penalised_mean_s"


@dataclass(frozen=True)
class Part:
    """Systems of one study."""

    study: str
    scale: str
    """Engine and size of the runs, in one line."""
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Comparison:
    """A table of systems, study by study."""

    name: str
    """Stem of its files."""
    title: str
    text: str
    header: Sequence[str]
    parts: Sequence[Part]

    def table(self) -> Table:
        """Return all rows in one table, each with its study and scale."""
        header = [self.header[0], "study", "scale", *self.header[1:]]
        rows = [
            [row[0], part.study, part.scale, *row[1:]] for part in self.parts for row in part.rows
        ]
        return Table(header, rows)


def compare(studies: Mapping[str, Sequence[ReportRun]]) -> list[Comparison]:
    """Return the comparisons for which there are records.

    Args:
        studies: runs by study.
    """
    return [each for each in (_backends(studies), _schedulers(studies)) if each.parts]


def _backends(studies: Mapping[str, Sequence[ReportRun]]) -> Comparison:
    found = []
    for study in _BACKENDS:
        changed = [
            run
            for run in studies.get(study, ())
            if run.is_live and any(metric in run.metrics for metric in (*_COSTS, _EQUAL))
        ]
        rows = [
            [
                name,
                *(_median(own, metric, form) for metric, (_, form) in _COSTS.items()),
                _equal(own),
                str(len(own)),
            ]
            for name, own in _by(changed, _backend_names(changed)).items()
        ]
        if rows:
            found.append(Part(study, about.scale(changed), rows))
    return Comparison(
        name="systems-backends",
        title="Backends: cost of a change of slots",
        text="Medians over the live runs in which slots were changed, of each run's mean over "
        "its changes; within a study all backends have the same jobs and sizes. Stopping: "
        "wall-clock seconds in which the remaining workers did not train. Bitwise equal: "
        "runs whose jobs all ended with the bits of fixed-size training, out of the runs "
        "that were compared with it.",
        header=["backend", *(title for title, _ in _COSTS.values()), "bitwise equal", "runs"],
        parts=found,
    )


def _schedulers(studies: Mapping[str, Sequence[ReportRun]]) -> Comparison:
    found, shown = [], []
    for study, wanted in _SCHEDULERS.items():
        runs = [run for run in studies.get(study, ()) if _fits(run, wanted)]
        names = [options(run.stored).get("scheduler", "?") for run in runs]
        by_scheduler = sorted(_by(runs, names).items(), key=lambda pair: _worst_last(pair[1]))
        rows = [
            [
                name,
                " or ".join(sorted({levels.of_run(run.stored) for run in own})),
                _median(own, _MET, ".1f", 100),
                _median(own, _JCT, ",.0f"),
                str(len(own)),
            ]
            for name, own in by_scheduler
        ]
        if rows:
            found.append(Part(study, about.scale(runs), rows))
            shown += runs
    made_up = any("deadline_s" in run.generated for run in shown)
    return Comparison(
        name="systems-schedulers",
        title="Schedulers: deadlines met and completion times",
        text="Medians over runs (seeds, or inputs that all schedulers share), best first. JCT "
        "penalised: mean over all jobs, where a refused job counts as run alone after all "
        "others. Checked: verification level of the implementation, as its source states it."
        + (
            " Deadlines were generated, not recorded, in some or all of these traces."
            if made_up
            else ""
        ),
        header=["scheduler", "checked", "deadlines met, %", "JCT penalised, s", "runs"],
        parts=found,
    )


def _fits(run: ReportRun, wanted: Mapping[str, str]) -> bool:
    own = options(run.stored) if wanted else {}
    return all(says_same(own.get(key), value) for key, value in wanted.items())


def _backend_names(runs: Sequence[ReportRun]) -> list[str]:
    """Return each run's backend, with the options in which the runs of this backend differ."""
    own = [
        {key: text for key, text in options(run.stored).items() if key.startswith("backend.")}
        for run in runs
    ]
    names = []
    for run, mine in zip(runs, own, strict=True):
        alike = [
            each for other, each in zip(runs, own, strict=True) if other.backend == run.backend
        ]
        keys = [key for key in sorted(mine) if len({each.get(key) for each in alike}) > 1]
        names.append(", ".join([run.backend, *(f"{k.partition('.')[2]}={mine[k]}" for k in keys)]))
    return names


def _by(runs: Sequence[ReportRun], names: Sequence[str]) -> dict[str, list[ReportRun]]:
    found: dict[str, list[ReportRun]] = {}
    for name, run in sorted(zip(names, runs, strict=True), key=lambda pair: pair[0]):
        found.setdefault(name, []).append(run)
    return found


def _values(runs: Sequence[ReportRun], metric: str) -> list[float]:
    return [run.metrics[metric] for run in runs if metric in run.metrics]


def _median(runs: Sequence[ReportRun], metric: str, form: str, factor: float = 1.0) -> str:
    values = _values(runs, metric)
    return format(factor * median(values), form) if values else ""


def _equal(runs: Sequence[ReportRun]) -> str:
    values = _values(runs, _EQUAL)
    return f"{sum(value == 1.0 for value in values)} of {len(values)}" if values else ""


def _worst_last(runs: Sequence[ReportRun]) -> tuple[float, float]:
    met, jct_s = (_values(runs, metric) for metric in (_MET, _JCT))
    return (-median(met) if met else 0.0, median(jct_s) if jct_s else 0.0)
