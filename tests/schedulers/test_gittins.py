"""Gittins indices and Tiresias's order by them, worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.schedulers.attained_service.gittins import ServiceHistory
from systems.schedulers.tiresias import Tiresias
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run


def history(*services):
    known = ServiceHistory()
    for service in services:
        known.add(service)
    return known


def test_index_worked_by_hand():
    """Ended jobs needed 1, 2, 4 and 10. With 2 attained, over 5 more: of the two longer ones one
    ends (after 2 of the 5), the other takes all 5: (1/2) / ((2 + 5) / 2) = 1/7."""
    known = history(1.0, 2.0, 4.0, 10.0)
    assert known.index(2.0, 5.0) == pytest.approx(1 / 7)
    assert known.index(0.0, math.inf) == pytest.approx(4 / 17)
    assert known.index(4.0, 1.0) == 0.0  # nobody of those ends that soon
    assert known.index(10.0, math.inf) == 0.0
    assert known.index(2.0, 0.0) == 0.0  # at the end of its group
    assert history().index(0.0, 5.0) == 0.0


def test_a_job_that_has_nearly_what_another_needed_is_sure_to_end_at_once():
    """The last bits of the sums do not say how much is left: the services themselves do."""
    for longest in (7107941.179730156, 4295828.4503612025, 3600.1):
        attained = math.nextafter(longest, 0.0)
        known = history(longest, longest / 3, longest, longest / 7)
        assert known.index(attained, math.inf) == 1.0 / (longest - attained)


def test_the_snapshot_is_taken_when_the_number_of_ended_jobs_doubles():
    known = ServiceHistory()
    assert [known.add(float(n)) for n in range(1, 9)] == [
        True, True, False, True, False, False, False, True,
    ]  # fmt: skip


@given(
    st.lists(st.floats(0.5, 100), min_size=1, max_size=16),
    st.floats(0, 100),
    st.one_of(st.just(math.inf), st.floats(0.5, 100)),
)
def test_index_is_its_definition(services, attained, ahead):
    known = history(*services)
    seen = services[: 2 ** int(math.log2(len(services)))]
    longer = [s - attained for s in seen if s > attained]
    chance = sum(attained + left <= attained + ahead for left in longer)
    expected = sum(min(left, ahead) for left in longer)
    ending = [s for s in seen if attained < s <= attained + ahead]
    assert len(ending) == chance or any(abs(s - attained - ahead) < 1e-9 for s in seen)
    if longer and len(ending) == chance:
        found = known.index(attained, ahead)
        # The time is compared, not what is divided by it: that has no bound where little is left.
        assert (found == 0) == (chance == 0)
        assert not chance or chance / found == pytest.approx(expected, abs=1e-12)


def test_within_a_group_the_job_that_is_likelier_to_end_soon_goes_first():
    """One slot, one limit at 10; a and b needed 12 and have ended when the rest begins.

    e comes at 44 s, runs its first 10 in group 0 and drops at 54 s into the last group. There c
    waits with 20 attained, more than anybody has needed: index 0. e, with 10, has 1/2, so it
    goes on to its end at 59 s. In order of entry c would have taken the slot at 54 s.
    """
    jobs = [job("a", 0, 1, 12), job("b", 12, 1, 12), job("c", 24, 1, 30), job("e", 44, 1, 15)]
    records, _ = run(jobs, Tiresias([10], order="gittins"), cluster(1, 1))
    assert periods(records, "e") == [(44, 59, 1)]
    assert periods(records, "c") == [(24, 44, 1), (59, 69, 1)]
    fifo, _ = run(jobs, Tiresias([10]), cluster(1, 1))
    assert periods(fifo, "e") == [(44, 54, 1), (64, 69, 1)]


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="fifo or gittins"):
        Tiresias(order="lifo")
