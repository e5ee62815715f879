"""Page on differences without a cause: A/A trials, repeated runs and measured profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

from harness.metrics.statistics import MIN_TRIALS, estimate
from harness.results import verification_levels as levels
from reports.drawing.figure import Table
from reports.measures.outliers import RANGES, cells
from reports.runs.selection import ReportRun, groups
from reports.site.pages.base import Material, Page, Section, named_anew

_WALL_CLOCK = "replay_wall_s"
_METRICS = {
    "jct_mean_s": "mean JCT",
    "makespan_s": "makespan",
    "throughput_samples_per_s": "throughput",
    _WALL_CLOCK: "wall clock",
}
"""Metrics whose spread over repeated runs is shown."""
_CLOCK = "latencies"
"""Table of a simulated run that depends on the machine."""
_NOTHING_CHANGED = ": A/A"


def build(material: Material) -> Page:
    """Return the page with A/A trials of steps and rescales, repeated runs, and measured
    profiles."""
    return Page(
        name="noise",
        short="Noise",
        title="Noise: repetitions of the same",
        lead="Differences in the records that have no cause. A difference between two systems "
        "that is no larger than these is not distinguishable from zero.",
        sections=[
            _steps(material),
            _samples_lost(material),
            _live(material),
            _outliers(material),
            _simulated(material),
            _profiles(material),
        ],
    )


def _steps(material: Material) -> Section:
    rows = []
    for file, record in material.overhead.items():
        for cell in record["cells"]:
            rows += [
                _step_row(file, record, cell, centre)
                for centre in ("median", "mean")
                if (cell.get(centre) or {}).get("noise")
            ]
    header = ["workload, workers", "trials", "step of a stretch", "second over first, %",
              "95% interval, %", "load, median", "record"]  # fmt: skip
    return Section(
        "noise-steps",
        "A step of stock training, measured twice",
        "The same stand-alone script with stock DistributedDataParallel ran twice, in stretches "
        "of drawn order: how much longer a step of the second was. Geometric mean over trials, "
        "with the bootstrap interval; the last column is the median 1-minute load of the machine.",
        Table(header, rows) if rows else None,
        missing="" if rows else "there is no record of python -m harness.bench.overhead.",
    )


def _step_row(
    file: str, record: Mapping[str, Any], cell: Mapping[str, Any], centre: str
) -> list[str]:
    noise = cell[centre]["noise"]
    ends = (noise.get("low"), noise.get("high"))
    interval = "none" if None in ends else " to ".join(f"{100 * (end - 1):+.1f}" for end in ends)
    load = (record.get("load_1min") or {}).get("median")
    trials = cell["trials"]
    return [
        f"{cell['workload']}, {cell['num_workers']}",
        str(len(trials) if isinstance(trials, list) else trials),
        centre,
        f"{100 * (noise['value'] - 1):+.1f}",
        interval,
        "" if load is None else f"{load:.2f}",
        file.replace("/", ": ").replace("_", " "),  # spaces let a long name break
    ]


def _samples_lost(material: Material) -> Section:
    """Return the section with the A/A rows from the tables of the studies."""
    shown = [drawn for drawn in material.drawn if drawn.figure == "samples_lost_noise"]
    rows, header = [], ["workload, change"]
    for drawn in shown:
        if drawn.table is None:
            continue
        header = ["workload, change", "study", *drawn.table.header[1:]]
        change = drawn.title.rpartition(": ")[2]
        rows += [
            [f"{row[0].removesuffix(_NOTHING_CHANGED)}, {change}", drawn.study, *row[1:]]
            for row in drawn.table.rows
            if row[0].endswith(_NOTHING_CHANGED)
        ]
    return Section(
        "noise-samples-lost",
        "Samples lost without a change",
        "The formula of samples lost, evaluated at random moments without a change, over as long "
        "a time as a change takes, in steps of the job's batch: percentiles over A/A trials. The "
        "studies' figures compare the losses of real changes with these.",
        Table(header, rows) if rows else None,
        pictures=[drawn for drawn in shown if drawn.has_picture],
        missing="" if rows else "no study has A/A trials of rescales.",
    )


def _live(material: Material) -> Section:
    rows = []
    for study, runs in material.studies.items():
        live = [run for run in named_anew(runs) if run.is_live]
        for (setting, engine, _), trials in groups(live, "setting", "engine", "system").items():
            for metric, title in _METRICS.items():
                values = [run.metrics[metric] for run in trials if run.metrics.get(metric)]
                if len(values) > 1:
                    rows.append([study, setting, trials[0].label, engine, title, *_spread(values)])
    header = ["study", "setting", "system", "engine", "metric", "trials", "mean",
              "standard deviation, %", "largest − smallest, %",
              "95% interval of the mean, %"]  # fmt: skip
    return Section(
        "noise-live",
        "Repeated live runs",
        "Really trained runs that differ only in seed or repetition. Numbers are shares of their "
        f"mean; the interval is Student's, given from {MIN_TRIALS} trials on. {levels.MEANING}",
        Table(header, rows) if rows else None,
        missing="" if rows else "no live run was repeated.",
        links=material.links(),
    )


def _outliers(material: Material) -> Section:
    """Return the section on outliers: live runs, and the wall clock of repeated simulations."""
    num_cells, rows = 0, []
    for study, runs in material.studies.items():
        named = named_anew(runs)
        found = cells([run for run in named if run.is_live], [*_METRICS])
        for seed in sorted({run.trial[0] for run in named if not run.is_live}):
            same = [run for run in named if not run.is_live and run.trial[0] == seed]
            found += cells(same, [_WALL_CLOCK])
        num_cells += len(found)
        rows += [
            [
                study,
                f"{cell.system}, {cell.engine}: {cell.setting}",
                _METRICS[cell.metric],
                f"{len(cell.outside)} of {len(cell.values)}",
                f"{cell.low:,.4g} to {cell.high:,.4g}",
                "; ".join(f"{run} ({value:,.4g})" for run, value in cell.outside.items()),
            ]
            for cell in found
            if cell.outside
        ]
    header = ["study", "cell", "metric", "outside", "fences", "runs outside"]
    return Section(
        "noise-outliers",
        "Outliers, reported and kept",
        f"Runs more than {RANGES} interquartile ranges beyond the quartiles of their cell. A cell "
        "has live runs that differ only in seed or repetition, or simulations of one seed (their "
        f"wall-clock times). Of {num_cells:,} cells (one metric each) with at least {MIN_TRIALS} "
        f"trials, {len(rows):,} have any. They are kept: every number of the report includes them.",
        Table(header, rows) if rows else None,
        missing="" if rows else _no_outliers(num_cells),
        links=material.links(),
    )


def _no_outliers(num_cells: int) -> str:
    if num_cells:
        return "no run is an outlier."
    return f"no cell has {MIN_TRIALS} trials."


def _spread(values: Sequence[float]) -> list[str]:
    mean = fmean(values)
    half = estimate(values).half_width
    return [
        str(len(values)),
        f"{mean:,.4g}",
        f"{100 * stdev(values) / mean:.1f}",
        f"{100 * (max(values) - min(values)) / mean:.1f}",
        "" if half is None else f"±{100 * half / mean:.1f}",
    ]


def _is_drawn(run: ReportRun) -> bool:
    """Return whether a run's repetitions differ on purpose, because its engine draws speeds and
    costs."""
    choices = run.stored.manifest.get("choices") or {}
    return bool(choices.get("engine") == "simulated_varied")


def _simulated(material: Material) -> Section:
    rows = []
    for study, runs in material.studies.items():
        once = [run for run in runs if not run.is_live and not _is_drawn(run)]
        parts = groups(once, "setting", "engine", "system")
        alike = [
            same
            for trials in parts.values()
            for seed in sorted({run.trial[0] for run in trials})
            for same in [[run for run in trials if run.trial[0] == seed]]
            if len(same) > 1
        ]
        if alike:
            equal = sum(len({_digests(run) for run in same}) == 1 for same in alike)
            rows.append([study, str(sum(map(len, alike))), str(len(alike)), str(equal)])
    header = ["study", "runs", "configurations", "with equal records"]
    return Section(
        "noise-simulated",
        "Repeated simulations",
        "Simulations of one configuration and seed, repeated: their records have to be the same "
        "byte for byte, except for the table of decision latencies, which depends on the machine.",
        Table(header, rows) if rows else None,
        missing="" if rows else "no simulation was repeated with the same seed.",
        links=material.links(),
    )


def _digests(run: ReportRun) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in run.stored.digests.items() if k != _CLOCK))


def _profiles(material: Material) -> Section:
    found: dict[tuple[str, str], tuple[Mapping[str, Any], list[float]]] = {}
    for runs in material.studies.values():
        for run in runs:
            profile = run.stored.manifest.get("profile") or {}
            name = str((run.stored.manifest.get("choices") or {}).get("profile", "?"))
            spreads = [
                float(value)
                for curve in (profile.get("curves") or {}).values()
                for by_workers in (curve.get("spread") or {}).values()
                for value in by_workers.values()
            ]
            if spreads:
                found.setdefault((name, str(profile.get("digest"))), (profile, spreads))
    rows = [
        [
            name,
            str(profile.get("hardware", "unknown")),
            str(profile.get("trials", "")),
            str(len(spreads)),
            f"{100 * median(spreads):.1f}",
            f"{100 * max(spreads):.1f}",
        ]
        for (name, _), (profile, spreads) in sorted(found.items())
    ]
    header = ["profile", "measured on", "trials", "points", "median spread, %",
              "largest spread, %"]  # fmt: skip
    return Section(
        "noise-profiles",
        "Measured profiles",
        "Profiles that the runs use and that state a spread: the largest minus the smallest "
        "trial over the median, of a throughput at one workload, batch and number of workers.",
        Table(header, rows) if rows else None,
        missing="" if rows else "no run uses a profile that states its spread.",
    )
