"""Time of a job's leader election and messages, over workers (EDL, sections 4.1 and 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun

TITLE = "Coordination of a job's workers"
ELECTION = "election_mean_ms"
LATENCIES = {
    "message_latency_median_us": "median of a run",
    "message_latency_mean_us": "mean",
    "message_latency_p95_us": "95th percentile",
}


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: the election on the left, a message on the right."""
    told = [run for run in runs if ELECTION in run.metrics and len(run.jobs) == 1]
    if not told:
        reason = "No live run of one job in the selection elected a leader."
        return [Drawing("coordination", TITLE, missing=reason)]
    pools = sorted({pool(run) for run in told})
    looks = style.Looks(pools)
    figure = style.new_figure(3.2)
    left, right = figure.subplots(1, 2)
    for name in pools:
        own = [run for run in told if pool(run) == name]
        _line(left, own, ELECTION, colour=looks.colour(name), label=name)
        for mark, (metric, what) in zip("o^s", LATENCIES.items(), strict=True):
            label = f"{name}: {what}"
            _line(right, own, metric, colour=looks.colour(name), label=label, mark=mark)
    left.set_ylabel("until all know the leader (ms)")
    right.set_ylabel("one message, sent to handled (µs)")
    right.set_yscale("log")
    style.plain_log_ticks(right.yaxis)
    counts = sorted({workers(run) for run in told})
    for axis in (left, right):
        axis.set_xlabel("workers")
        axis.set_xticks(counts, [str(count) for count in counts])
    left.set_ylim(bottom=0)
    style.put_legend(figure)
    cells = [(name, count) for name in pools for count in counts]
    trials = [len(_of(told, *cell)) for cell in cells if _of(told, *cell)]
    style.put_count_note(figure, trials, told)
    metrics = [ELECTION, *LATENCIES]
    rows = [
        [f"{name}: {count} workers", str(len(own)), *(_middle(own, metric) for metric in metrics)]
        for name, count in cells
        if (own := _of(told, name, count))
    ]
    header = ["pool: workers", "n", "election ms", *(f"{what} us" for what in LATENCIES.values())]
    return [
        Drawing(
            name="coordination-1",
            title=TITLE,
            caption="Left: from the start of the election in the last of the first workers until "
            "all know the leader. Right: from sending a message between a worker and the leader "
            "until it is handled, while the job trains. Medians of runs; bars from the lowest to "
            "the highest. After EDL (Wu et al., TPDS '22), sections 4.1 and 4.4.",
            run_ids=[run.run_id for run in told],
            figure=figure,
            table=Table(header, rows),
        )
    ]


def pool(run: ReportRun) -> str:
    """Return the chosen pool of workloads, which determines whether workers keep the cores busy."""
    return str(run.stored.manifest["choices"]["workload"])


def workers(run: ReportRun) -> int:
    """Return the number of workers with which the run's only job was submitted."""
    return run.jobs[0].requested_slots


def _of(runs: Sequence[ReportRun], name: str, count: int) -> list[ReportRun]:
    return [run for run in runs if pool(run) == name and workers(run) == count]


def _middle(runs: Sequence[ReportRun], metric: str) -> str:
    return f"{median(run.metrics[metric] for run in runs):.1f}"


def _line(
    axis: Axes, runs: Sequence[ReportRun], metric: str, *, colour: str, label: str, mark: str = "o"
) -> None:
    """Draw the medians by the number of workers, and the range of the runs."""
    counts = sorted({workers(run) for run in runs})
    found = [[run.metrics[metric] for run in runs if workers(run) == count] for count in counts]
    middles = [median(values) for values in found]
    ranges = [
        [middle - min(values) for middle, values in zip(middles, found, strict=True)],
        [max(values) - middle for middle, values in zip(middles, found, strict=True)],
    ]
    axis.errorbar(
        counts, middles, yerr=ranges, color=colour, label=label, marker=mark, markersize=4,
        linewidth=1, capsize=2,
    )  # fmt: skip


FIGURE = Declared(draw)
