"""Speed on the same number of slots, on one host or several (ElasticFlow, figure 2b; EDL, 14a)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from harness.contracts.job_state import JobState
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun

TITLE = "Throughput by where the slots are"
_Program = tuple[str, int, int]
"""Workload, global batch and number of slots."""


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: for each program its samples per second by the number of hosts."""
    used = [run for run in runs if is_one_allocation(run)]
    speeds = by_hosts(used)
    compared = {program: own for program, own in speeds.items() if len(own) > 1}
    if not compared:
        reason = (
            "No program of the selection ran alone both on one host and, with as many slots, "
            "on several."
        )
        return [Drawing("placement_speed", TITLE, missing=reason)]
    return [_chart(compared, used)]


def by_hosts(runs: Sequence[ReportRun]) -> dict[_Program, dict[int, list[float]]]:
    """Return the samples per second of each run's only job, by program and number of hosts."""
    found: dict[_Program, dict[int, list[float]]] = {}
    for run in runs:
        (job,), grant = run.jobs, run.grants[-1]
        cluster = run.stored.config["cluster"]
        per_host = cluster["devices_per_host"] * cluster.get("slots_per_device", 1)
        hosts = len({slot // per_host for slot in grant.slots})
        program = (job.workload, job.global_batch, len(grant.slots))
        speed = job.samples_done / job.executed_s
        found.setdefault(program, {}).setdefault(hosts, []).append(speed)
    return found


def is_one_allocation(run: ReportRun) -> bool:
    """Return whether a run has one job, which held the same slots from start to end.

    The hosts must be equal, and the job must have finished.
    """
    if "devices_per_host" not in run.stored.config.get("cluster", {}):
        return False
    slots = {grant.slots for grant in run.grants}
    return len(run.jobs) == len(slots) == 1 and run.jobs[0].state == JobState.FINISHED


def _chart(found: dict[_Program, dict[int, list[float]]], runs: Sequence[ReportRun]) -> Drawing:
    gains = {program: _relative(own) for program, own in found.items()}
    programs = sorted(gains, key=lambda program: min(gains[program].values()))
    counts = sorted({hosts for own in found.values() for hosts in own})
    looks = style.Looks([f"{hosts} host{'s' * (hosts > 1)}" for hosts in counts])
    figure = style.new_figure(3.0)
    axis = figure.subplots()
    width = 0.8 / len(counts)
    for number, hosts in enumerate(counts):
        label = f"{hosts} host{'s' * (hosts > 1)}"
        offset = (number - (len(counts) - 1) / 2) * width
        places = [at + offset for at, program in enumerate(programs) if hosts in gains[program]]
        values = [gains[program][hosts] for program in programs if hosts in gains[program]]
        axis.bar(places, values, 0.9 * width, color=looks.colour(label), label=label)
        for place, value in zip(places, values, strict=True):
            axis.annotate(f"{value:.2f}", (place, value), ha="center", va="bottom", fontsize=7)
    names = [f"{workload}\nbatch {batch}" for workload, batch, _ in programs]
    axis.set_xticks(range(len(programs)), names)
    axis.set_ylabel("relative samples/s")
    axis.set_ylim(0, 1.15)
    style.put_legend(figure)
    style.put_count_note(
        figure, [len(each) for own in found.values() for each in own.values()], runs
    )
    rows = [
        [f"{workload}, batch {batch}, {slots} slots: {hosts} hosts", f"{median(values):.1f}",
         f"{gains[workload, batch, slots][hosts]:.3f}"]
        for (workload, batch, slots), own in sorted(found.items())
        for hosts, values in sorted(own.items())
    ]  # fmt: skip
    return Drawing(
        name="placement_speed-1",
        title=TITLE,
        caption="One job on the same number of slots, on one host and divided evenly over several."
        " After ElasticFlow (Gu et al., ASPLOS '23), figure 2b, and EDL (Wu et al., TPDS '22),"
        " figure 14a.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(["program: hosts", "samples/s", "over the fewest hosts (ratio)"], rows),
    )


def _relative(by_count: dict[int, list[float]]) -> dict[int, float]:
    """Return the medians over the median of the fewest hosts."""
    base = median(by_count[min(by_count)])
    return {hosts: median(values) / base for hosts, values in by_count.items()}


FIGURE = Declared(draw)
