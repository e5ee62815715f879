"""Schedulers that promise a queue in order of arrival: nobody overtakes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.contracts.test_scheduler import PROFILE, WHERE, traces
from tests.examples import examples
from tests.schedulers.world import built, run

IN_ORDER = [
    "easyscale_heter",
    "easyscale_homo",
    "fifo",
    "hu_greedy",
    "hu_milp",
    "saxena_dp",
    "saxena_max_bs",
    "saxena_min_bs",
    "saxena_random_bs",
    "static_share",
    "uniform",
    "yarn_cs",
]


@pytest.mark.parametrize("name", IN_ORDER)
@settings(deadline=None, max_examples=examples(60))
@given(jobs=traces())
def test_jobs_start_in_order_of_arrival(name, jobs):
    """No starvation: whoever waits has only those before it to wait for."""
    records, _ = run(jobs, built("scheduler", name), WHERE, known=PROFILE)
    served = [record for record in records.jobs if record.first_start_s is not None]
    assert len(served) == len(jobs)
    order = sorted(served, key=lambda record: (record.arrival_s, record.job_id))
    starts = [record.first_start_s for record in order]
    assert starts == sorted(starts)
