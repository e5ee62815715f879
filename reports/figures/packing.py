"""Memory and throughput of several workers on one device (EasyScale, figure 12)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.measures.step_speed import Speed, speeds
from reports.runs.selection import ReportRun

TITLE = "Several workers on one device"
_GB = 1e9
_NAMES = {"static": "packed, one process each", "virtual_thread": "virtual threads, in turns"}

Points = dict[int, list[Speed]]
"""Speeds by the number of logical workers."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: a column for each program, memory above and throughput below."""
    curves: dict[tuple[str, str], Points] = {}
    for speed in speeds(runs):
        if speed.backend in _NAMES:
            points = curves.setdefault((speed.workload, speed.backend), {})
            points.setdefault(speed.logical_workers, []).append(speed)
    curves = {key: points for key, points in curves.items() if len(points) > 1}
    if {backend for _, backend in curves} != set(_NAMES):
        reason = "No program of the selection was trained on one device by several workers."
        return [Drawing("packing", TITLE, missing=reason)]
    return [_chart(curves, [run for run in runs if run.is_live])]


def _chart(curves: dict[tuple[str, str], Points], runs: Sequence[ReportRun]) -> Drawing:
    workloads = sorted({workload for workload, _ in curves})
    looks = style.Looks(_NAMES)
    figure = style.new_figure(4.6)
    axes = figure.subplots(2, len(workloads), sharex=True, squeeze=False)
    rows = []
    for (workload, backend), points in sorted(curves.items()):
        memory, throughput = axes[:, workloads.index(workload)]
        alone = curves.get((workload, "static"), points)
        base = median(speed.samples_per_s for speed in alone[min(alone)])
        look = looks.line(backend)
        gigabytes = {
            count: [s.memory_bytes / _GB for s in own if s.memory_bytes is not None]
            for count, own in points.items()
        }
        relative = {count: [s.samples_per_s / base for s in own] for count, own in points.items()}
        _line(memory, gigabytes, look)
        _line(throughput, relative, look)
        for count in sorted(points):
            size = f"{median(gigabytes[count]):.2f}" if gigabytes[count] else "not sampled"
            rows.append([f"{workload}: {_NAMES[backend]}, {count}", str(len(points[count])), size,
                         f"{median(relative[count]):.3f}",
                         f"{min(relative[count]):.3f} to {max(relative[count]):.3f}"])  # fmt: skip
    for workload, (memory, throughput) in zip(workloads, axes.T, strict=True):
        memory.set_title(workload)
        memory.set_ylim(bottom=0)
        throughput.set_ylim(bottom=0)
        throughput.set_xlabel("workers (count)")
    axes[0][0].set_ylabel("resident memory (GB)")
    axes[1][0].set_ylabel("throughput over that of\none packed worker (ratio)")
    counts = sorted({count for points in curves.values() for count in points})
    axes[0][0].set_xticks(counts)
    for backend, named in _NAMES.items():
        axes[0][0].plot([], [], label=named, **looks.line(backend))
    style.put_legend(figure)
    style.put_count_note(figure, [len(own) for p in curves.values() for own in p.values()], runs)
    return Drawing(
        name="packing-1",
        title=TITLE,
        caption="Medians over trials, dots: trials. Memory is the resident memory of all "
        "processes of the job (shared pages count in each), minus the memory in use before they "
        "started. Every worker has the same batch. After EasyScale (Li et al., SC '23), figure "
        "12.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["program: system, workers", "n", "memory (GB)", "throughput (ratio)",
             "least to most"],
            rows,
        ),
    )  # fmt: skip


def _line(axis: Axes, points: dict[int, list[float]], look: dict[str, object]) -> None:
    known = [count for count in sorted(points) if points[count]]
    axis.plot(known, [median(points[count]) for count in known], **look)  # type: ignore[arg-type]
    for count in known:
        axis.plot(
            [count] * len(points[count]), points[count], ".", color=look["color"], markersize=4
        )


FIGURE = Declared(draw)
