"""Similarity numbers, by hand."""

from __future__ import annotations

import pytest

from harness.trace.model.similarity import similarity, similarity_lines
from tests.replay.worlds import job, profile


def test_numbers_of_two_jobs_on_ten_slots():
    jobs = [
        job("a", 0.0, 2, 100, duration_s=50.0),
        job("b", 100.0, 4, 100, duration_s=150.0),
    ]
    numbers = similarity(jobs, 10, profile(), rescale_s=5.0)
    assert numbers == {
        "demand_share": pytest.approx(0.3),
        "load": pytest.approx((2 * 50 + 4 * 150) / (10 * 100)),
        "rescale_share": pytest.approx(5 / 100),
        "communication_share": 0.0,  # T(w) = w: nothing is lost
    }


def test_what_is_not_known_is_absent():
    numbers = similarity([job("a"), job("b", workload="other")], 4, profile())
    assert numbers == {"demand_share": 0.25}
    facts = {"similarity_load": 1.25, "similarity_demand_share_original": 0.5}
    assert [line.split(" (")[0] for line in similarity_lines(facts)] == [
        "load 1.25, original not known",
        "demand_share not known, original 0.5",
    ]
