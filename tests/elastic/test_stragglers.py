"""The straggler rule, as a pure machine: who is named, when, and who never is."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.job import JobSpec
from systems.elastic.driver.remove_stragglers import removal_of
from systems.elastic.wire.options import ElasticOptions, elastic_options
from systems.elastic.wire.stragglers import StragglerRule, StragglerWatch

WORKERS = ("w1", "w2", "w3", "w4", "w5")


def watch(num_workers=5, shares=None, ratio=1.2, window=10):
    found = StragglerWatch(StragglerRule(ratio, window))
    found.begin(WORKERS[:num_workers], shares or [4] * num_workers)
    return found


def named_at(machine, times_s, steps):
    """Steps, from 1, at which somebody was named, and who."""
    return [
        (step, sorted(found)) for step in range(1, steps + 1) if (found := machine.observe(times_s))
    ]


def test_a_worker_slow_in_ten_steps_running_is_named_and_again_ten_steps_later():
    assert named_at(watch(4), [1.0, 1.0, 1.3, 1.0], 25) == [(10, ["w3"]), (20, ["w3"])]


def test_the_slowness_is_the_mean_over_the_window():
    machine = watch(3, window=2)
    machine.observe([1.0, 1.0, 1.5])
    assert machine.observe([1.0, 1.0, 2.5]) == {"w3": pytest.approx(2.0)}


def test_one_quick_step_or_one_unknown_time_begins_the_count_anew():
    for gap in (1.0, 0.0):
        machine = watch(4)
        assert named_at(machine, [1.0, 1.0, 1.3, 1.0], 9) == []
        assert machine.observe([1.0, 1.0, gap, 1.0]) == {}
        assert named_at(machine, [1.0, 1.0, 1.3, 1.0], 10) == [(10, ["w3"])]


def test_several_at_once_in_one_report_but_never_half_of_the_workers():
    assert named_at(watch(5), [1.0, 2.0, 1.0, 2.0, 1.0], 10) == [(10, ["w2", "w4"])]
    assert named_at(watch(4), [1.0, 2.0, 1.0, 2.0], 30) == []


def test_two_workers_have_no_stragglers():
    assert named_at(watch(2), [1.0, 100.0], 30) == []
    assert named_at(watch(4), [1.0, 100.0, 0.0, 0.0], 30) == [], "two known times are two workers"


def test_a_larger_share_of_the_batch_is_no_straggler_but_a_slow_worker_with_one_is():
    shares = [3, 3, 2, 2, 2]
    assert named_at(watch(shares=shares), [3.0, 3.0, 2.0, 2.0, 2.0], 30) == []
    assert named_at(watch(shares=shares), [1.0, 1.0, 1.0, 1.0, 1.0], 30) == []
    assert named_at(watch(shares=shares), [4.0, 3.0, 2.0, 2.0, 2.0], 10) == [(10, ["w1"])]


def test_other_members_begin_with_no_memory():
    machine = watch(4)
    named_at(machine, [1.0, 1.0, 1.3, 1.0], 9)
    machine.begin(WORKERS[:3], [4, 4, 4])
    assert named_at(machine, [1.0, 1.0, 1.3], 10) == [(10, ["w3"])]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="straggler_ratio") as caught:
        StragglerRule(1.0, 0)
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(ValueError, match="do not fit"):
        watch(3, [4, 4])
    with pytest.raises(ValueError, match="3 times of 4 workers"):
        watch(4).observe([1.0] * 3)


@pytest.mark.parametrize("start", ["spare", "standby"])
def test_spares_would_make_stragglers(start):
    with pytest.raises(ValueError, match=f"'remove', but start is '{start}'.*start=preimported"):
        elastic_options(straggler="remove", start=start)


@st.composite
def lives(draw):
    count = draw(st.integers(1, 5))
    shares = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    time_s = st.sampled_from([0.0, 0.9, 1.0, 1.1, 1.19, 1.21, 1.5, 3.0])
    step = st.lists(time_s, min_size=count, max_size=count)
    blocks = draw(st.lists(st.tuples(step, st.integers(1, 6)), max_size=12))
    return shares, [times_s for times_s, repeat in blocks for _ in range(repeat)]


@given(lives(), st.integers(1, 5))
def test_who_is_named_was_slow_in_every_step_of_the_window_and_is_of_a_minority(life, window):
    shares, steps = life
    count = len(shares)
    machine = watch(count, shares, window=window)
    for number, times_s in enumerate(steps):
        found = machine.observe(times_s)
        assert 2 * len(found) < count or not found
        for worker in found:
            rank = WORKERS.index(worker)
            assert number + 1 >= window
            for past in steps[number + 1 - window : number + 1]:
                known = [one for one in past if one > 0]
                assert len(known) >= 3
                assert past[rank] > 1.2 * median(known)


@given(lives(), st.integers(-20, 20).map(lambda power: 2.0**power))
def test_the_unit_of_time_does_not_matter(life, scale):
    shares, steps = life
    one, other = (watch(len(shares), shares, window=3) for _ in range(2))
    for times_s in steps:
        found = one.observe(times_s)
        assert found == pytest.approx(other.observe([scale * time_s for time_s in times_s]))


@given(lives())
def test_a_slow_worker_among_equals_is_named_in_any_life(life):
    """Whoever is slow among equals is named after the window, whatever happened before."""
    shares, steps = life
    machine = watch(len(shares), shares)
    for times_s in steps:
        machine.observe(times_s)
    machine.begin(WORKERS, [4] * 5)
    assert named_at(machine, [1.0, 1.0, 1.0, 1.0, 1.25], 10) == [(10, ["w5"])]


def job(min_slots):
    return JobSpec("a", 0.0, "toy", 4, 1e9, 12, min_slots=min_slots)


def removal(slowness, min_slots=1):
    slots = {"w1": 5, "w2": 3, "w3": 0, "w4": 7}
    return removal_of(slowness, slots, job(min_slots), 12, 9, ElasticOptions())


def test_a_removal_keeps_ranks_and_batch_and_says_why():
    found = removal({"w2": 1.25, "w3": 2.0})
    assert (found.old, found.new) == (("w1", "w2", "w3", "w4"), ("w1", "w4"))
    change = found.change
    assert (change.previous_slots, change.slots) == ((5, 3, 0, 7), (5, 7))
    assert (change.change_id, change.global_batch, found.leavers) == (-9, 12, ("w2", "w3"))
    assert found.removal.workers == ("w3", "w2")
    assert found.removal.slots == (0, 3)
    assert found.removal.reason == (
        "straggler: w3 (2.00 times the median), w2 (1.25 times the median) of 4 workers, above"
        " straggler_ratio 1.2 in straggler_window 10 steps running"
    )


def test_the_slowest_go_first_where_the_job_needs_the_others():
    assert removal({"w2": 1.25, "w3": 2.0}, min_slots=3).leavers == ("w3",)
    assert removal({"w2": 1.25, "w3": 2.0}, min_slots=4) is None
    assert removal({"w9": 3.0}) is None
