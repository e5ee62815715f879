"""From periods to an overhead, on numbers worked by hand; the order of trials."""

import math
from pathlib import Path

import pytest

from harness.bench.overhead import numbers
from harness.bench.overhead.numbers import Ratio, extra_us, noise, of_trial, overhead, ratio
from harness.bench.overhead.record import make_record
from harness.bench.overhead.settings import read_settings
from harness.bench.overhead.trials import Kind, OverheadCell, OverheadTrial, order_of
from harness.contracts.training_order import TrainingOrder
from harness.contracts.workload import WorkloadSpec
from harness.errors import UserError


def turns(plain, backend, again):
    """A round of three turns."""
    return {Kind.PLAIN: plain, Kind.BACKEND: backend, Kind.AGAIN: again}


def trial(plain, backend, again):
    """What a trial of one round says, of one step each."""
    return of_trial([turns([plain], [backend], [again])], "median")


def test_a_round_gives_the_ratio_to_the_geometric_mean_of_both_plain_programs():
    found = trial(1.0, 6.0, 4.0)
    assert found == pytest.approx({"plain_s": 2.0, "ratio": 3.0, "noise": 4.0})


def test_a_trial_is_the_centre_over_its_rounds_of_the_centre_of_a_turn():
    rounds = [
        turns([1.0, 2.0, 6.0], [4.0, 4.0, 7.0], [2.0]),
        turns([8.0], [24.0], [8.0]),
        turns([1.0], [6.0], [4.0]),
    ]
    # Medians of turns: 2, 4, 2, a ratio of 2; then 3 and 3. Means: 3, 5, 2.
    assert of_trial(rounds, "median") == pytest.approx({"plain_s": 2, "ratio": 3, "noise": 1})
    found = of_trial(rounds, "mean")
    assert found["ratio"] == pytest.approx((5 / 6**0.5 * 3 * 3) ** (1 / 3))
    assert found["noise"] == pytest.approx((2 / 3 * 1 * 4) ** (1 / 3))


def test_rounds_in_which_something_else_had_the_machine_do_not_move_a_trial():
    even = [turns([1.0] * 9, [1.1] * 9, [1.0] * 9)] * 5
    disturbed = [turns([3.0] * 9, [1.1] * 9, [1.0] * 9), turns([1.0] * 9, [5.0] * 9, [1.0] * 9)]
    assert of_trial([*even, *disturbed], "median") == pytest.approx(of_trial(even, "median"))


def test_an_estimate_is_the_geometric_mean_over_trials():
    trials = [trial(1, 6, 4), trial(4, 12, 4), trial(4, 3, 4)]  # ratios 3, 3, 3/4
    assert overhead(trials).value == pytest.approx((3 * 3 * 0.75) ** (1 / 3))
    assert noise(trials).value == pytest.approx(4 ** (1 / 3))


def test_extra_time_is_the_median_over_trials_in_microseconds():
    trials = [trial(1e-3, 1e-3, 1e-3), trial(1e-3, 1.2e-3, 1e-3), trial(1e-3, 2e-3, 1e-3)]
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
    return [OverheadCell(f"toy/{name}", 1, (), 20, 32, 0, order, (0,), {}) for name in names]


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
    assert settings.turn_of("tiny/vgg16") == settings.turn_s < settings.turn_of("tiny/resnet50")
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
            turn_s_of={"toy/toy": 61.0},
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
            OverheadTrial(cell, number): {
                "git_commit": "a", "git_dirty": False, "load_1min": None if number else load,
                "median": of_trial, "mean": of_trial,
            }
            for number, of_trial in enumerate(trials)
        }  # fmt: skip
        record = make_record(settings, found, {})
        assert record["load_1min"] == {"min": load, "median": load, "max": load}
        (made,) = record["cells"]
        assert made["median"]["ratio"]["value"] == pytest.approx(overhead(trials).value)
        return made["median"]["equivalence"]["ratio"]

    assert judged(4) is None
    assert judged(5) == judged(9) != judged(10)
    assert judged(5, load=None) == judged(5), "of no trial is it known"


def test_a_record_keeps_the_cells_that_a_sitting_did_not_measure():
    first, second = cells("a", "b")

    def of_sitting(cell, ratio, earlier):
        said = {"median": trial(1.0, ratio, 1.0), "mean": trial(1.0, ratio, 1.0)}
        about = {"git_commit": f"{ratio}", "git_dirty": False, "load_1min": ratio}
        found = {OverheadTrial(cell, 0): {"trial": 0, "conditions": cell.name, **about, **said}}
        settings = read_settings(workloads=[cell.workload], trials=1)
        return make_record(settings, found, {}, earlier)

    before = of_sitting(first, 1.5, [])
    both = of_sitting(second, 2.0, before["cells"])
    assert [cell["workload"] for cell in both["cells"]] == ["toy/b", "toy/a"]
    assert both["cells"][1] == before["cells"][0]
    assert both["commits"] == ["1.5", "2.0"], "of all cells"
    assert both["load_1min"] == {"min": 1.5, "median": 1.75, "max": 2.0}
    anew = of_sitting(first, 3.0, both["cells"])
    values = {cell["workload"]: cell["median"]["ratio"]["value"] for cell in anew["cells"]}
    assert values == pytest.approx({"toy/a": 3.0, "toy/b": 2.0})


def test_two_one_sided_tests_of_the_ratios():
    even = [trial(1.0, 1.0 + 0.001 * (-1) ** k, 1.0) for k in range(10)]
    one, four = numbers.tests(even, 0.01, 1)["ratio"], numbers.tests(even, 0.01, 4)["ratio"]
    assert one.verdict == four.verdict == "equivalent"
    assert four.high > one.high > 0, "more looks, each with a wider interval"
    slower = [trial(1.0, 1.03 + 0.001 * (-1) ** k, 1.0) for k in range(10)]
    assert numbers.tests(slower, 0.01, 1)["ratio"].verdict == "different"
    found = numbers.tests(slower[:3], 0.01, 1)
    assert found == {"ratio": None, "noise": None}
