"""Every scheduler on a cluster of two device types, of which one is three times as fast."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from harness.contracts.decision import Grant
from tests.contracts.test_scheduler import EVERY, SCHEDULERS, examine, examine_ends, traces
from tests.examples import examples
from tests.schedulers.mixed import mixed, run_mixed, speeds
from tests.schedulers.world import built

WHERE = mixed(t=3, v=5)
KNOWN = speeds(v=3.0, t=1.0)
KNOWN.families.update(dict.fromkeys(("dips", "flat", "recorded"), KNOWN.families["net"]))
MIXING = [
    name for name in SCHEDULERS if not getattr(built("scheduler", name), "one_device_type", False)
]


@pytest.mark.parametrize("name", MIXING)
@settings(deadline=None, max_examples=examples(30))
@given(jobs=traces())
def test_no_type_is_over_its_capacity_and_everybody_ends(name, jobs):
    records, recorder = run_mixed(jobs, built("scheduler", name), WHERE, KNOWN)
    examine(recorder, EVERY.get(name))
    examine_ends(records, recorder)
    all_of = Counter(slot.device_type for slot in WHERE.slots)
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        typed = Counter()
        for job_id, one in view.jobs.items():
            grant = decision.changes.get(job_id, one.grant)
            if isinstance(grant, Grant) and grant.device_type is not None:
                typed[grant.device_type] += grant.num_slots
        assert typed <= all_of
