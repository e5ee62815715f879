"""From periods to an overhead, on numbers worked by hand; the order of trials."""

import math
from pathlib import Path

import pytest

from harness.contracts.training import TrainingOrder, WorkloadSpec
from harness.overhead import numbers
from harness.overhead.numbers import Ratio, extra_us, noise, overhead, ratio, step_s
from harness.overhead.record import make_record
from harness.overhead.settings import read_settings
from harness.overhead.trials import Cell, Kind, Trial, order_of
from harness.problems import UserError


def trial(plain, backend, again):
    return {Kind.PLAIN: plain, Kind.BACKEND: backend, Kind.AGAIN: again}


def test_a_step_is_the_geometric_mean_over_rounds_of_the_centre_of_a_turn():
    rounds = [trial([1.0, 2.0, 6.0], [3.0], [5.0]), trial([8.0], [12.0], [5.0])]
    assert step_s(rounds, "median") == pytest.approx(trial(4.0, 6.0, 5.0))  # of 2 and 8
    assert step_s(rounds, "mean")[Kind.PLAIN] == pytest.approx((3 * 8) ** 0.5)


def test_overhead_is_the_geometric_mean_of_ratios_to_both_plain_programs():
    # First: 6 over sqrt(1 x 4) = 3; second: 12 over sqrt(4 x 4) = 3; third: 3/4.
    trials = [trial(1, 6, 4), trial(4, 12, 4), trial(4, 3, 4)]
    assert overhead(trials).value == pytest.approx((3 * 3 * 0.75) ** (1 / 3))
    assert noise(trials).value == pytest.approx(4 ** (1 / 3))


def test_extra_time_is_the_median_over_trials_in_microseconds():
    trials = [trial(1e-3, 1.5e-3, 2e-3), trial(1e-3, 1.2e-3, 1e-3), trial(1e-3, 2e-3, 1e-3)]
    assert extra_us(trials) == pytest.approx(200)  # of 0, 200, 1000


def test_one_trial_has_no_interval_and_equal_trials_have_a_point():
    assert ratio([1.02]) == Ratio(pytest.approx(1.02), None, None)
    even = ratio([1.02] * 4)
    assert even.low == pytest.approx(1.02) == pytest.approx(even.high)


def test_the_interval_is_that_of_resampled_means_and_repeatable():
    # Of two values drawn twice each mean has the probabilities 1/4, 1/2, 1/4, so the central
    # 95% reaches from the one value to the other.
    found = ratio([1.0, 1.21])
    assert (found.low, found.value, found.high) == (
        pytest.approx(1.0),
        pytest.approx(1.1),
        pytest.approx(1.21),
    )
    many = [1 + 0.01 * math.sin(i) for i in range(50)]
    assert ratio(many) == ratio(many)
    assert ratio(many).low < ratio(many).value < ratio(many).high
    # Four times the trials, half the width.
    narrow, wide = ratio(many * 4), ratio(many)
    assert (narrow.high - narrow.low) / (wide.high - wide.low) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_impossible_ratios_are_refused(values):
    with pytest.raises(ValueError, match="above 0"):
        ratio(values)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.99, 1.0099, "yes"),
        (1.01, 1.02, "no"),
        (0.99, 1.02, "undecided"),
        (None, None, "undecided"),
    ],
)
def test_the_target_is_judged_by_the_interval(low, high, verdict):
    assert Ratio(1.0, low, high).verdict() == verdict


def cells(*names):
    toy = WorkloadSpec("toy", "workloads.toy.Toy", {})
    order = TrainingOrder("job", toy, 0, 20, Path("job"))
    return [Cell(f"toy/{name}", 1, (), 20, 32, 0, order, (0,), {}) for name in names]


def test_each_cell_has_its_first_trial_before_any_has_its_second():
    trials = order_of(cells("a", "b"), 30, seed=1)
    assert [trial.number for trial in trials] == [number for number in range(30) for _ in "ab"]
    assert {trial.cell.name for trial in trials[::2]} == {"toy-a-1w", "toy-b-1w"}
    assert len({trial.name for trial in trials}) == len(trials)


def test_the_order_is_a_function_of_the_seed():
    own = cells("a", "b", "c")
    first, same, other = (order_of(own, 4, seed) for seed in (1, 1, 2))
    assert first == same != other


def test_flags_go_before_the_file():
    settings = read_settings(workers=[1], steps=None, steps_of={"tiny/bert": 90})
    assert settings.workers == (1,)
    assert settings.num_steps("tiny/bert") == 90
    assert settings.num_steps("tiny/vgg16") == settings.steps == 250
    assert settings.backend == "static"


def test_all_mistakes_of_the_settings_at_once():
    with pytest.raises(UserError) as caught:
        read_settings(
            workloads=["toy", "toy"],
            workers=[2, 2],
            trials=0,
            drop=0,
            steps=3,
            steps_of={},
            turn_s=0.0,
        )
    places = [problem.place for problem in caught.value.problems]
    assert sorted(places) == sorted(
        [
            "--workloads",
            "--workloads",
            "--workloads",
            "--workers",
            "--trials",
            "--drop",
            "--steps",
            "--turn",
        ]
    )


def test_looks_double_until_the_budget_and_each_spends_its_share():
    assert read_settings(trials=8, max_trials=40).looks == (8, 16, 32, 40)
    assert read_settings(trials=5).looks == (5,)
    with pytest.raises(UserError, match="the first look is at 8"):
        read_settings(trials=8, max_trials=4)


def test_only_the_trials_before_a_look_are_judged_at_it():
    """Those measured since, before the next look, are in the ratio and not in the tests."""
    (cell,) = cells("a")
    settings = read_settings(workloads=["toy/a"], trials=5, max_trials=10)

    def judged(count, load=0.5):
        trials = [trial(1.0, 1.0 + 0.01 * number, 1.0) for number in range(count)]
        found = {
            Trial(cell, number): {
                "git_commit": "a", "git_dirty": False, "load_1min": None if number else load,
                "median_s": steps, "mean_s": steps,
            }
            for number, steps in enumerate(trials)
        }  # fmt: skip
        record = make_record(settings, found, {})
        assert record["load_1min"] == {"min": load, "median": load, "max": load}
        (made,) = record["cells"]
        assert made["median"]["ratio"]["value"] == pytest.approx(overhead(trials).value)
        return made["median"]["equivalence"]["ratio"]

    assert judged(4) is None
    assert judged(5) == judged(9) != judged(10)
    assert judged(5, load=None) == judged(5), "of no trial is it known"


def test_two_one_sided_tests_of_the_ratios():
    even = [trial(1.0, 1.0 + 0.001 * (-1) ** k, 1.0) for k in range(10)]
    one, four = numbers.tests(even, 0.01, 1)["ratio"], numbers.tests(even, 0.01, 4)["ratio"]
    assert one.verdict == four.verdict == "equivalent"
    assert four.high > one.high > 0, "more looks, each with a wider interval"
    slower = [trial(1.0, 1.03 + 0.001 * (-1) ** k, 1.0) for k in range(10)]
    assert numbers.tests(slower, 0.01, 1)["ratio"].verdict == "different"
    found = numbers.tests(slower[:3], 0.01, 1)
    assert found == {"ratio": None, "noise": None}
