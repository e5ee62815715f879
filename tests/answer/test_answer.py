"""The answer of stored runs: worked examples, and what holds for any runs."""

from __future__ import annotations

import math
import random
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.answer.answer import answer
from harness.answer.block import MOST_COLUMNS, Block
from harness.answer.differences import cell, paired, said
from harness.answer.units import duration, listed, number, percent

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "results")]

from sample_runs import write_run
from stored import stored


def replace_seed(run):
    run.manifest["seed"] = 0
    return run


def told(*runs) -> Block:
    block = answer(runs)
    assert block is not None
    return block


def test_numbers_are_shown_as_people_read_them():
    assert [duration(s) for s in (0.0041, 0.409, 1.26, 1656, 10_800, 300_000, 0)] == [
        "4.1 ms", "409 ms", "1.3 s", "27.6 min", "3.0 h", "3.5 days", "0 s",
    ]  # fmt: skip
    assert [percent(s) for s in (0.391, 0.0055, 1.0, 0.00026, 0.0)] == [
        "39 %", "0.55 %", "100 %", "0.026 %", "0 %",
    ]  # fmt: skip
    assert [number(v) for v in (12.0, 1234.5, 0.5, -24.9)] == ["12", "1,234", "0.5", "−24.9"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c", "d"]) == "a, b and 2 others"


def test_a_paired_difference_is_a_mean_of_ratios_with_its_least_and_largest_pair():
    found = paired([(50.0, 100.0), (200.0, 100.0)])
    assert found.value == pytest.approx(1.0)  # geometric: 0.5 and 2
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(2.0))
    assert (found.side, found.num_below, found.num_above, found.is_interval) == (0, 1, 1, False)
    one = paired([(61.0, 100.0)])
    assert (one.side, one.low) == (-1, None)
    assert said(one, "fifo", False) == "39 % below fifo"
    assert cell(one, False) == "−39 %"


def test_five_pairs_have_an_interval_of_students_t():
    # Logarithms of the ratios: -0.1 to 0.3, mean 0.1, standard deviation 0.15811; t = 2.7764.
    pairs = [(math.exp(each), 1.0) for each in (-0.1, 0.0, 0.1, 0.2, 0.3)]
    found = paired(pairs)
    half = 2.7764451 * 0.15811388 / math.sqrt(5)
    assert found.value == pytest.approx(math.exp(0.1))
    assert found.low == pytest.approx(math.exp(0.1 - half))
    assert found.high == pytest.approx(math.exp(0.1 + half))
    assert found.side == 0
    assert found.is_interval


def test_shares_differ_by_points():
    found = paired([(0.92, 0.78), (0.90, 0.76)], is_share=True)
    assert not found.is_ratio
    assert said(found, "fifo", True) == "14 points above fifo"
    assert cell(found, True) == "+14 points (+14 to +14)"


def test_the_scheduler_with_the_shortest_jct_is_told_with_its_baseline_and_inputs():
    runs = [
        stored(scheduler=name, trace=trace, jct_mean_s=base * factor, checked="compared")
        for trace, base in (("a", 3600.0), ("b", 7200.0), ("c", 10_800.0))
        for name, factor in (("fifo", 1.0), ("afs", 0.61), ("tiresias", 0.9))
    ]
    block = told(*runs)
    # The mean of 3600, 7200 and 10800 s is 2 h; 61 % of it is 73.2 min.
    assert block.sentences[0] == (
        "afs has the shortest mean JCT, 73.2 min: 39 % below fifo, on all 3 inputs."
    )
    assert block.header[:3] == ("scheduler", "mean JCT", "vs fifo")
    assert [row[:3] for row in block.rows] == [
        ("afs (compared)", "73.2 min", "−39 % (−39 to −39)"),
        ("tiresias (compared)", "108 min", "−10 % (−10 to −10)"),
        ("fifo (compared)", "2.0 h", "baseline"),
    ]


def test_one_input_is_said_to_be_one():
    block = told(stored(jct_mean_s=100.0), stored(scheduler="afs", jct_mean_s=80.0))
    assert block.sentences[0].endswith("20 % below fifo, on this one input.")
    assert block.note == "One run each, so no intervals."


def test_what_the_pairs_do_not_decide_is_not_distinguishable():
    runs = [
        stored(scheduler=name, seed=seed, jct_mean_s=value)
        for seed, values in enumerate([(100.0, 90.0), (100.0, 115.0), (100.0, 101.0)])
        for name, value in zip(("fifo", "afs"), values, strict=True)
    ]
    (sentence,) = told(*runs).sentences
    assert "is not distinguishable between fifo and afs" in sentence
    assert "on 3 seeds" in sentence


def test_where_no_input_is_common_only_pairs_are_told():
    runs = [
        *(
            stored(scheduler=name, trace="a", jct_mean_s=v)
            for name, v in (("fifo", 100.0), ("afs", 80.0))
        ),
        *(
            stored(scheduler=name, trace="b", jct_mean_s=v)
            for name, v in (("afs", 9.0), ("edf", 1.0))
        ),
    ]
    block = told(*runs)
    assert block.sentences == (
        "On inputs that both have, the mean JCT of afs is 20 % below fifo, on this one input.",
    )
    assert "No input is common to all rows" in block.note


def test_a_bound_is_never_the_winner():
    runs = [
        stored(jct_mean_s=100.0),
        stored(scheduler="afs", jct_mean_s=80.0),
        stored(scheduler="srtf", jct_mean_s=50.0, oracle=True),
    ]
    block = told(*runs)
    assert block.sentences[0].startswith("afs has the shortest mean JCT")
    assert block.rows[0][0] == "srtf (bound, exact)"


def test_refusals_count_and_deadlines_come_first_where_half_refuse():
    runs = [
        stored(jct_mean_s=100.0, jct_penalised_mean_s=100.0, deadline_satisfactory_ratio=0.5),
        stored(
            scheduler="elasticflow", jct_mean_s=10.0, jct_penalised_mean_s=300.0, jobs_refused=4.0,
            deadline_satisfactory_ratio=0.9,
        ),
    ]  # fmt: skip
    block = told(*runs)
    assert block.sentences == (
        "elasticflow meets the most deadlines, 90 %: 40 points above fifo, on this one input.",
        "fifo has the shortest mean JCT, 100 s; the next, elasticflow, is 3.0 times as much as"
        " it, on this one input.",
    )
    assert block.header[3] == "mean JCT, refusals counted"


def test_common_jobs_are_compared_where_their_records_are_there(tmp_path):
    fifo = write_run(tmp_path, trace={"digest": "d", "num_jobs": 12})
    other = write_run(tmp_path, scheduler="uniform", trace={"digest": "d", "num_jobs": 12})
    jobs = other.rows("jobs")
    other.metrics["jobs_refused"] = 1.0  # type: ignore[index]
    block = told(fifo, other)
    assert "mean JCT, common jobs" in block.header
    assert len(jobs) == 12


def test_backends_are_told_by_their_pauses(tmp_path):
    runs = [
        write_run(tmp_path, scheduler="uniform", live=True),
        # Another draw of the noise, so that the pauses differ, under the same seed on record.
        replace_seed(
            write_run(tmp_path, scheduler="uniform", backend="stop_free", live=True, seed=5)
        ),
    ]
    block = told(*runs)
    assert block.header[:3] == ("backend", "pause per change", "vs stop_resume")
    pause = {row[0]: row[1] for row in block.rows}
    best, worse = sorted(pause, key=pause.__getitem__)
    assert block.sentences[0] == (
        f"{best} stops training for {pause[best]} at the median, {worse} for {pause[worse]},"
        " on this one input."
    )


def test_a_check_after_the_replay_makes_no_other_input():
    runs = []
    for backend, jct in (("stop_free", 90.0), ("stop_resume", 100.0), ("virtual_thread", 95.0)):
        run = stored(backend=backend, live=True, jct_mean_s=jct)
        run.config["engine"]["check_reference"] = backend == "virtual_thread"
        runs.append(run)
    found = told(*runs)
    assert found.sentences[0].startswith("stop_free has the shortest mean JCT")
    assert all(row[2] for row in found.rows)


def test_live_runs_answer_and_simulated_ones_tell_the_error_of_the_simulator():
    runs = [
        stored(scheduler=name, live=live, jct_mean_s=value * (1.0 if live else 1.02))
        for name, value in (("fifo", 100.0), ("afs", 80.0))
        for live in (True, False)
    ]
    block = told(*runs)
    assert block.sentences[-1] == (
        "The simulator's mean JCT is 2.0 % above the live one, over 2 settings."
    )
    assert "The 2 simulated runs are not in this table." in block.note


def test_a_sweep_over_a_number_tells_the_trend():
    runs = [
        stored(scheduler=name, load=load, jct_mean_s=base * (1 + load) * factor)
        for load in (0.0, 0.5, 1.0)
        for name, base, factor in (("fifo", 3600.0, 3.0), ("afs", 3600.0, 2.0))
    ]
    block = told(*runs)
    assert block.sentences == (
        "The mean JCT of afs grows with the load, from 2.0 h to 4.0 h, 2.0 times as much, on this"
        " one input.",
        "The mean JCT of fifo grows with the load, from 3.0 h to 6.0 h, 2.0 times as much, on this"
        " one input.",
        "At load 1, afs has the shortest mean JCT, 4.0 h: 33 % below fifo, on this one input.",
    )
    assert block.header == (
        "mean JCT by scheduler", "load 0", "load 0.5", "load 1", "last vs first",
        "vs fifo at the last",
    )  # fmt: skip
    assert block.rows[0] == ("afs (exact)", "2.0 h", "3.0 h", "4.0 h", "2 times", "−33 %")


def test_a_seed_that_changes_nothing_is_no_further_input():
    runs = [
        stored(scheduler=name, seed=seed, jct_mean_s=value, replay_wall_s=0.1 * seed + 0.1)
        for seed in (0, 1)
        for name, value in (("fifo", 100.0), ("afs", 80.0))
    ]
    block = told(*runs)
    assert block.sentences[0].endswith("on this one input.")
    assert "Trials that repeat another exactly count once." in block.note


def test_repeated_simulations_are_about_speed():
    runs = [
        stored(scheduler=name, repetition=trial, jct_mean_s=1.0, replay_wall_s=wall + 0.01 * trial)
        for trial in range(3)
        for name, wall in (("fifo", 1.0), ("tiresias", 3.0))
    ]
    assert told(*runs).sentences[0].startswith("fifo is replayed in the shortest time, 1.0 s;")


def test_a_single_run_tells_its_key_numbers():
    block = told(
        stored(
            jobs_finished=10.0, jct_mean_s=7200.0, queueing_mean_s=60.0,
            deadline_satisfactory_ratio=0.5,
        )
    )  # fmt: skip
    assert block.sentences == (
        "All 10 jobs finished, with a mean JCT of 2.0 h and a mean wait of 60.0 s for the first"
        " slots, on this one input.",
        "50 % of the deadlines were met.",
    )
    assert ("mean JCT", "2.0 h") in block.rows


def test_names_from_records_stay_text_in_markdown():
    runs = [
        stored(scheduler="<script>|x", jct_mean_s=1.0),
        stored(scheduler="[a](javascript:1)", jct_mean_s=2.0),
    ]
    text = told(*runs).markdown()
    assert "<script" not in text
    assert re.search(r"(?<!\\)\]\(", text) is None
    assert r"\|x" in text


def test_without_runs_there_is_no_answer():
    assert answer([]) is None


SOME_RUNS = st.lists(
    st.builds(
        stored,
        scheduler=st.sampled_from(["fifo", "afs", "srtf", "edf"]),
        backend=st.sampled_from(["stop_resume", "stop_free"]),
        trace=st.sampled_from(["a", "b"]),
        seed=st.integers(0, 2),
        repetition=st.integers(0, 1),
        live=st.booleans(),
        load=st.sampled_from([None, 0.3, 0.9, 1.5]),
        oracle=st.booleans(),
        jct_mean_s=st.floats(0, 1e7),
        jct_penalised_mean_s=st.floats(0, 1e7),
        jobs_refused=st.sampled_from([0.0, 3.0]),
        deadline_satisfactory_ratio=st.floats(0, 1),
        samples_lost_per_rescale_mean=st.floats(-1e4, 1e4),
        throughput_samples_per_s=st.floats(0, 1e6),
    ),
    min_size=1,
    max_size=14,
    unique_by=lambda run: run.run_id,
)


@given(SOME_RUNS, st.randoms(use_true_random=False))
def test_any_runs_have_an_answer_that_does_not_depend_on_their_order(runs, rng: random.Random):
    block = told(*runs)
    shuffled = [*runs]
    rng.shuffle(shuffled)
    assert told(*shuffled) == block
    assert 1 <= len(block.sentences) <= 3
    assert len(block.header) <= MOST_COLUMNS
    everything = " ".join([*block.sentences, block.note, *block.header, *sum(block.rows, ())])
    assert not re.search(r"\bnan\b|\binf\b|None", everything)
    assert all(sentence.endswith(".") for sentence in block.sentences)


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=8, unique=True))
def test_rows_are_sorted_by_the_first_measure(values):
    names = [f"s{at}" for at in range(len(values))]
    runs = [stored(scheduler=n, jct_mean_s=v) for n, v in zip(names, values, strict=True)]
    by_value = [name for _, name in sorted(zip(values, names, strict=True))]
    assert [row[0].removesuffix(" (exact)") for row in told(*runs).rows] == by_value


def test_ratios_of_the_smallest_and_largest_numbers_have_ends():
    found = paired([(5e-324, 2.0), (2.0, 5e-324), (1e308, 5e-324)])
    assert found.is_ratio
    assert 0 <= found.low < found.value < found.high < math.inf
