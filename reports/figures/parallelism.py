"""Throughput and efficiency over parallelism, strong and weak scaling (EDL, section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.profiles.evaluate import step_times
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.rescales import system_names
from reports.runs.selection import ReportRun

TITLE = "Throughput over parallelism"

Key = tuple[str, str, str]
"""Workload, system, ``strong`` or ``weak``."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: samples per second and efficiency, a row for strong and one for weak."""
    own = [
        run for run in runs if run.is_live and len(run.jobs) == 1 and not run.jobs[0].num_rescales
    ]
    speeds = throughputs(own)
    curves = {key: points for key, points in scalings(speeds).items() if len(points) > 1}
    if not curves:
        reason = "No workload of the selection was trained alone on several numbers of slots."
        return [Drawing("parallelism", TITLE, missing=reason)]
    return [_chart(curves, own)]


def throughputs(runs: Sequence[ReportRun]) -> dict[tuple[str, str, int, int], list[float]]:
    """Return samples per second by workload, system, workers and global batch.

    There is one value for every run, without its first steps.
    """
    names = system_names(runs)
    found: dict[tuple[str, str, int, int], list[float]] = {}
    for run in runs:
        (job,) = run.jobs
        for workers, step_s in step_times(run.stored.rows("steps")).items():
            key = (job.workload, names[run.run_id], workers, job.global_batch)
            found.setdefault(key, []).append(job.global_batch / step_s)
    return found


def scalings(
    speeds: dict[tuple[str, str, int, int], list[float]],
) -> dict[Key, dict[int, list[float]]]:
    """Return curves over workers: strong scaling keeps the smallest global batch, weak scaling
    multiplies it."""
    found: dict[Key, dict[int, list[float]]] = {}
    for (workload, system, workers, batch), values in sorted(speeds.items()):
        least = min(b for w, s, _, b in speeds if (w, s) == (workload, system))
        if batch == least:
            found.setdefault((workload, system, "strong"), {})[workers] = values
        if batch == least * workers:
            found.setdefault((workload, system, "weak"), {})[workers] = values
    return found


def _chart(curves: dict[Key, dict[int, list[float]]], runs: Sequence[ReportRun]) -> Drawing:
    modes = [mode for mode in ("strong", "weak") if any(key[2] == mode for key in curves)]
    workloads, systems = sorted({k[0] for k in curves}), sorted({k[1] for k in curves})
    looks = style.Looks(workloads)
    figure = style.new_figure(0.8 + 2.1 * len(modes))
    axes = figure.subplots(len(modes), 2, sharex=True, squeeze=False)
    most = max(workers for points in curves.values() for workers in points)
    rows = []
    for (workload, system, mode), points in curves.items():
        speed, efficiency = axes[modes.index(mode)]
        workers = np.array(sorted(points))
        middle = np.array([np.median(points[int(count)]) for count in workers])
        shape = {
            "color": looks.colour(workload),
            "linestyle": style.DASHES[systems.index(system) % len(style.DASHES)],
            "marker": "os^v"[systems.index(system) % 4],
            "markersize": 4,
        }
        label = f"{workload}, {system}" if mode == modes[0] else None
        speed.plot(workers, middle, label=label, **shape)
        relative = 100 * middle / (workers * middle[0] / workers[0])
        efficiency.plot(workers, relative, **shape)
        for count, value, share in zip(workers, middle, relative, strict=True):
            trials = points[int(count)]
            spread = f"{min(trials):.0f} to {max(trials):.0f}"
            rows.append([f"{workload}: {system}, {mode}, {count} workers", str(len(trials)),
                         f"{value:.0f}", spread, f"{share:.0f}"])  # fmt: skip
    for mode, (speed, efficiency) in zip(modes, axes, strict=True):
        speed.set_title(f"{mode} scaling")
        speed.set_ylabel("throughput (samples/s)")
        efficiency.set_ylabel("efficiency (% of linear)")
        speed.set_ylim(bottom=0)
        efficiency.set_ylim(0, 110)
        for axis in (speed, efficiency):
            axis.set_xlabel("workers (count)")
            axis.set_xticks([count for count in range(1, most + 1) if most <= 8 or count % 2 == 0])
    figure.legend(loc="outside upper left", ncols=4, fontsize=style.SMALL_PT)
    style.put_count_note(
        figure, [len(v) for points in curves.values() for v in points.values()], runs
    )
    return Drawing(
        name="parallelism-1",
        title=TITLE,
        caption="Medians over trials. Strong scaling keeps the global batch, weak scaling keeps "
        "the batch of each worker. Efficiency: throughput over that of one worker times the "
        "workers. More workers than cores cannot be faster: the cluster says which slots share a "
        "core.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["program: system, scaling", "n", "samples/s", "least to most", "efficiency %"], rows
        ),
    )


FIGURE = Declared(draw)
