"""Facts of a live run that are derived after its end."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from harness.configuration.instantiate import build
from harness.results.records import RunRecords
from harness.run.resimulation import resimulated
from harness.trace.build import load_trace
from harness.trace.model.similarity import similarity
from harness.trace.transforms import TransformContext

if TYPE_CHECKING:
    from harness.run.plan import RunPlan


def live_facts(planned: RunPlan, records: RunRecords) -> dict[str, float]:
    """Return the run's similarity to the recorded trace, and the results of its resimulation."""
    return {**_similarity_facts(planned, records), **_resimulated(planned, records)}


def _similarity_facts(planned: RunPlan, records: RunRecords) -> dict[str, float]:
    """Return the similarity of a live replay to the recorded trace (``trace.model.similarity``)."""
    config, setup = planned.config, planned.setup
    stops_s = [c.stopping_time_s for c in records.changes if c.stopping_time_s is not None]
    rescale_s = fmean(stops_s) / records.facts.get("dilation", 1.0) if stops_s else None
    jobs = planned.trace.jobs
    here = similarity(jobs, len(setup.cluster.devices), setup.profile, rescale_s)
    facts = {f"similarity_{name}": value for name, value in here.items()}
    recorded_on = config.trace.get("recorded_on_slots")
    if recorded_on is not None:
        untouched = load_trace({**config.trace, "transforms": []}, TransformContext())
        original = similarity(untouched.jobs, int(recorded_on), setup.profile)
        facts |= {f"similarity_{name}_original": value for name, value in original.items()}
    return facts


def _resimulated(planned: RunPlan, records: RunRecords) -> dict[str, float]:
    """Return the simulator's results for a live run with the run's own speeds
    (``harness.run.resimulation``)."""
    config, setup = planned.config, planned.setup
    scheduler, placement = (build(getattr(config, g), g) for g in ("scheduler", "placement"))
    return resimulated(setup, records, scheduler, placement, setup.profile.as_shown(config.seed))
