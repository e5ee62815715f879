"""Shockwave: its window by brute force, and rounds worked by hand."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.shockwave.scheduler import Shockwave
from systems.schedulers.shockwave.window import Share, best_counts, objective, pack
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run


@st.composite
def shares(draw, widths=(1, 2, 3)):
    """A job in mid-life: 10 s a round, of 1 to 12 rounds, part of which are done."""
    whole_s = draw(st.floats(10, 120))
    left_s = whole_s * draw(st.sampled_from([1.0, 0.9, 0.5, 0.1]))
    return Share(
        width=draw(st.sampled_from(widths)),
        done=1.0 - left_s / whole_s,
        per_round=10.0 / whole_s,
        left_s=left_s,
        weight=draw(st.sampled_from([1.0, 1.0, 3.0, 40.0])),
    )


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(shares(), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(3, 4),
    st.sampled_from([0.0, 0.001, 1.0]),
)
def test_rounds_of_each_job_against_every_plan(jobs, num_rounds, num_slots, makespan_weight):
    def value(counts):
        return objective(jobs, counts, num_rounds, 10.0, makespan_weight)

    found = best_counts(jobs, num_slots, num_rounds, 10.0, makespan_weight, 1e-6)
    plans = [
        counts
        for counts in itertools.product(range(num_rounds + 1), repeat=len(jobs))
        if slot_rounds(jobs, counts) <= num_rounds * num_slots
    ]
    assert slot_rounds(jobs, found) <= num_rounds * num_slots
    assert value(found) == pytest.approx(max(map(value, plans)), rel=1e-5, abs=1e-7)


def slot_rounds(jobs, counts):
    return sum(one.width * count for one, count in zip(jobs, counts, strict=True))


@settings(deadline=None, max_examples=examples(60))
@given(
    st.sampled_from([(1,), (2,), (1, 2, 4)]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=8),
    st.integers(1, 6),
)
def test_rounds_are_packed_and_those_of_equal_widths_completely(widths, drawn, num_rounds):
    """On 4 slots; wide gangs beside narrow ones can leave a planned round without room."""
    jobs, counts, room = [], [], 4 * num_rounds
    for which, count in drawn:
        jobs.append(Share(widths[which % len(widths)], 0.0, 0.1, 100.0))
        counts.append(min(count, num_rounds, room // jobs[-1].width))
        room -= counts[-1] * jobs[-1].width
    rounds = pack(jobs, counts, 4, num_rounds)
    packed = [sum(index in members for members in rounds) for index in range(len(jobs))]
    assert len(rounds) == num_rounds
    assert all(sum(jobs[index].width for index in members) <= 4 for members in rounds)
    assert all(have <= planned for have, planned in zip(packed, counts, strict=True))
    assert len(widths) > 1 or packed == counts


def test_who_comes_in_the_instant_in_which_another_goes_counts_all_that_are_there():
    """b arrives at 20, when a ends and c, who needs all the cluster, has been there since 0."""
    jobs = [job("a", 0, 1, 20), job("c", 0, 1, 60), job("b", 20, 1, 20)]
    seen = []

    class Watched(Shockwave):
        def decide(self, view):
            decision = super().decide(view)
            if "b" in view.jobs and view.time_s > 20.0:
                fair = self._jobs[self._orders["b"]]
                seen.append(fair.contention(view.time_s, 20.0))
            return decision

    run(jobs, Watched(round_s=10.0, num_rounds=2, gap=1e-6), cluster(1, 2))
    assert seen
    assert set(seen) == {2.0}


def test_two_equal_jobs_take_turns():
    """One slot, windows of 2 rounds of 10 s: each job half its work by then, not one all of it."""
    jobs = [job("a", 0, 1, 20), job("b", 0, 1, 20)]
    records, _ = run(jobs, Shockwave(round_s=10.0, num_rounds=2, gap=1e-6), cluster(1, 1))
    assert periods(records, "a") == [(0, 10, 1), (20, 30, 1)]
    assert periods(records, "b") == [(10, 20, 1), (30, 40, 1)]


def test_who_is_behind_its_fair_time_goes_first():
    """One slot, one round a window. At 10 s b has waited for 10 of its 20 s; on half of the slot
    both from now on, rho is (10 + 2 * 20) / (20 * 2) for b and (10 + 2 * 10) / (20 * 2) for a."""
    _, recorder = run(
        [job("a", 0, 1, 20), job("b", 0, 1, 20)],
        scheduler := Shockwave(round_s=10.0, num_rounds=1, gap=1e-6),
        cluster(1, 1),
    )
    view = next(view for view in recorder.views if view.time_s == 10.0)
    again = Shockwave(round_s=10.0, num_rounds=1)
    for earlier in recorder.views[: recorder.views.index(view) + 1]:
        again.decide(earlier)
    assert again._share(view, "b").weight == pytest.approx(1.25**5)
    assert again._share(view, "a").weight == 1.0
    assert scheduler.needs == again.needs


def test_idle_slots_go_to_the_longest_job_that_fits():
    """2 slots. The window of one round is for wide; when it has ended, long and short run."""
    jobs = [job("long", 0, 1, 90), job("short", 0, 1, 30), job("mid", 0, 1, 50)]
    records, _ = run(jobs, Shockwave(round_s=10.0, makespan_weight=1.0), cluster(1, 2))
    assert periods(records, "long")[0] == (0, 90, 1), "never idle, never interrupted"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_rounds": 0}, "num_rounds is 0; plan at least 1 round"),
        ({"fairness_power": -1.0, "gap": 0.0}, "fairness_power is -1.0.*\ngap is 0.0"),
    ],
)
def test_wrong_options_are_told(options, text):
    with pytest.raises(ValueError, match=text):
        Shockwave(**options)
