"""Figures of the report, one module each: ``draw(runs)`` returns its drawings."""

from collections.abc import Callable, Mapping, Sequence

from harness.errors import Problem, UserError, suggest
from reports.drawing.figure import Drawing
from reports.figures import (
    accuracy_curves,
    class_accuracy,
    comparison,
    coordination,
    deadlines_met,
    decay_curves,
    decision_interval,
    decision_latency,
    efficiency_over_time,
    growth,
    hang_detection,
    idle_intervals,
    jct_distribution,
    jobs_admitted,
    jobs_completed,
    loss_difference,
    loss_in_parts,
    loss_over_step_time,
    node_pools,
    normalized_run_time,
    packing,
    parallelism,
    placement_speed,
    planning_time,
    profiling_time,
    recovery_time,
    rescale_cost,
    rescale_phases,
    same_inputs,
    samples_lost_noise,
    sensitivity,
    simulated_against_live,
    slots_in_use,
    state_size,
    stop_resume_phases,
    straggler,
    timeline,
    transient_slots,
    waiting_ratios,
)
from reports.runs.selection import ReportRun

FIGURES: Mapping[str, Callable[[Sequence[ReportRun]], list[Drawing]]] = {
    "comparison": comparison.draw,
    "jct_distribution": jct_distribution.draw,
    "jobs_completed": jobs_completed.draw,
    "deadlines_met": deadlines_met.draw,
    "jobs_admitted": jobs_admitted.draw,
    "node_pools": node_pools.draw,
    "planning_time": planning_time.draw,
    "slots_in_use": slots_in_use.draw,
    "efficiency_over_time": efficiency_over_time.draw,
    "waiting_ratios": waiting_ratios.draw,
    "idle_intervals": idle_intervals.draw,
    "timeline": timeline.draw,
    "stop_resume_phases": stop_resume_phases.draw,
    "simulated_against_live": simulated_against_live.draw,
    "rescale_cost": rescale_cost.draw,
    "samples_lost_noise": samples_lost_noise.draw,
    "rescale_phases": rescale_phases.draw,
    "loss_in_parts": loss_in_parts.draw,
    "state_size": state_size.draw,
    "loss_over_step_time": loss_over_step_time.draw,
    "recovery_time": recovery_time.draw,
    "hang_detection": hang_detection.draw,
    "transient_slots": transient_slots.draw,
    "parallelism": parallelism.draw,
    "normalized_run_time": normalized_run_time.draw,
    "packing": packing.draw,
    "coordination": coordination.draw,
    "placement_speed": placement_speed.draw,
    "straggler": straggler.draw,
    "loss_difference": loss_difference.draw,
    "profiling_time": profiling_time.draw,
    "accuracy_curves": accuracy_curves.draw,
    "class_accuracy": class_accuracy.draw,
    "decay_curves": decay_curves.draw,
    "sensitivity": sensitivity.draw,
    "same_inputs": same_inputs.draw,
    "growth": growth.draw,
    "decision_interval": decision_interval.draw,
    "decision_latency": decision_latency.draw,
}
"""Figures by name; studies name the figures of their page, in order."""
ALWAYS = ("comparison",)
"""Figures that are drawn for every study."""
FROM_METRICS = frozenset(
    {
        *ALWAYS,
        "deadlines_met",
        "decision_interval",
        "decision_latency",
        "growth",
        "node_pools",
        "same_inputs",
        "sensitivity",
    }
)
"""Figures that are drawn from metrics alone, so also for runs that were copied without tables."""
_TABLES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(FROM_METRICS, frozenset()),
    "jct_distribution": frozenset({"jobs"}),
    "jobs_admitted": frozenset({"jobs"}),
    "jobs_completed": frozenset({"jobs"}),
    "waiting_ratios": frozenset({"jobs"}),
    "planning_time": frozenset({"jobs", "latencies"}),
    "idle_intervals": frozenset({"grants"}),
    "efficiency_over_time": frozenset({"grants"}),
    "slots_in_use": frozenset({"grants", "outages"}),
}
"""Tables that figures are drawn from, for figures that do not need all of ``_MOST``."""
_MOST = frozenset({"jobs", "grants", "changes", "outages"})


def tables_of(figure: str) -> frozenset[str]:
    """Return the tables that a run must have for this figure to show it."""
    return _TABLES.get(figure, _MOST)


ON_REQUEST = frozenset(
    {
        "deadlines_met",
        "efficiency_over_time",
        "idle_intervals",
        "waiting_ratios",
        "jobs_admitted",
        "jobs_completed",
        "node_pools",
        "planning_time",
        "rescale_cost",
        "samples_lost_noise",
        "rescale_phases",
        "loss_in_parts",
        "state_size",
        "loss_over_step_time",
        "recovery_time",
        "hang_detection",
        "transient_slots",
        "parallelism",
        "normalized_run_time",
        "packing",
        "coordination",
        "placement_speed",
        "straggler",
        "loss_difference",
        "profiling_time",
        "accuracy_curves",
        "class_accuracy",
        "decay_curves",
        "sensitivity",
        "same_inputs",
        "growth",
        "decision_interval",
        "decision_latency",
    }
)
"""Figures that are drawn only when a study or ``--figures`` names them. A report of everything
draws them for the runs of every study that names them."""


def checked(names: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the names, after a check that all are names of figures.

    Args:
        names: names as the user wrote them.
        place: place of the names, for the message.

    Raises:
        UserError: there is no figure of some name.
    """
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise UserError(
            Problem(place, f"there is no figure {name!r}", suggest(name, FIGURES))
            for name in unknown
        )
    return tuple(names)
