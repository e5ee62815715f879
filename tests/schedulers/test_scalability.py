"""The job scalability analyser: table II, interpolation, and the best batch of a range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.common.scalability import AllReduce, ScalabilityAnalyser
from tests.examples import examples
from tests.replay.worlds import job

TABLE_2 = {8: 0.86, 11: 1.06, 16: 1.3, 22: 1.45, 32: 1.66}
"""Table II: scaling factor of a category 1 job on 2 GPUs, by its batch on each."""


@dataclass(eq=False)
class Model:
    """An iteration takes a + b x (samples on a slot), and on more slots what ``summing_s`` says."""

    a: float = 0.067
    b: float = 0.01
    summing_s: dict[int, float] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def samples_per_s(self, num_slots, global_batch=None):
        self.asked.append((num_slots, global_batch))
        part = math.ceil(global_batch / num_slots)
        return global_batch / (self.a + self.b * part + self.summing_s.get(num_slots, 0.0))


class TableTwo(Model):
    """On 2 slots exactly as fast as table II says."""

    def samples_per_s(self, num_slots, global_batch=None):
        if num_slots == 2:
            return TABLE_2[global_batch // 2] * super().samples_per_s(1, 32)
        return super().samples_per_s(num_slots, global_batch)


def analyser(k_max=10, num_probes=8, slot_batch=None, table_s=None, weights=None):
    allreduce = AllReduce(table_s or {}, weights or {})
    return ScalabilityAnalyser(k_max, num_probes, slot_batch, allreduce)


def category_1(**more):
    fields = {"global_batch": 32, "min_global_batch": 32, "max_global_batch": 256}
    return job("j", workload="resnet50", **(fields | more))


@pytest.mark.parametrize(("part", "factor"), TABLE_2.items())
def test_table_2_comes_out_as_printed(part, factor):
    spec = category_1(min_global_batch=16, max_slots=2)
    found = analyser(slot_batch=32).analyse(spec, TableTwo(), (2 * part, 2 * part))
    assert found.worth.values[-1] == pytest.approx(factor, rel=1e-12)
    assert found.batch(2) == 2 * part


def test_the_best_batch_on_two_slots_is_the_largest_that_fits():
    """Table II rises with the batch on each GPU, so 64 is the best batch on 2: factor 1.66."""
    found = analyser().analyse(category_1(max_slots=2), TableTwo(), (32, 256))
    assert found.worth.fewest == 1
    assert found.batches == (32, 64)
    assert found.worth.values.tolist() == pytest.approx([1.0, 1.66], rel=1e-12)


def test_a_large_fixed_batch_needs_several_slots():
    """160 at 32 a GPU needs 5 (section IV-D); 256 needs 8; 161 needs 6."""
    for batch, fewest in ((32, 1), (33, 2), (160, 5), (161, 6), (256, 8)):
        found = analyser().analyse(category_1(), Model(), (batch, batch))
        assert found.worth.fewest == fewest
        assert set(found.batches) == {batch}
        assert len(found.batches) == 11 - fewest
    assert analyser(k_max=7).analyse(category_1(), Model(), (256, 256)) is None


def test_times_between_the_probes_are_straight_lines():
    """Probes at 1, 16 and 32 of a curve that bends; 9 lies between the first two."""

    class Bent(Model):
        def samples_per_s(self, num_slots, global_batch=None):
            return global_batch / (1.0 + global_batch**2)

    table_s = {1_000_000: [0.0, 0.0]}
    look = analyser(num_probes=3, k_max=2, table_s=table_s, weights={"resnet50": 1})
    found = look.analyse(category_1(min_global_batch=9), Bent(), (9, 9))
    at_9_s = 2.0 + (257.0 - 2.0) * 8 / 15
    assert found.worth.values[0] == pytest.approx((9 / at_9_s) / (32 / 1025.0))
    curve = Model()
    look.analyse(category_1(), curve, (32, 256))
    assert curve.asked == [(1, 1), (1, 16), (1, 32)]


def test_all_reduce_times_between_weights_and_beyond_the_table():
    table_s = {10_000_000: [0.0, 0.01, 0.04], 20_000_000: [0.0, 0.03, 0.08]}
    weights = {"resnet50": 15_000_000, "small": 1, "large": 58_000_000}
    times = AllReduce(table_s, weights)
    assert [times.time_s("resnet50", k) for k in (1, 2, 3, 9)] == pytest.approx(
        [0, 0.02, 0.06, 0.06]
    )
    assert times.time_s("small", 2) == 0.01
    assert times.time_s("large", 2) == 0.03
    assert times.knows("small")
    assert not times.knows("vgg16")
    model = Model()
    found = analyser(k_max=2, table_s=table_s, weights=weights).analyse(
        category_1(), model, (32, 64)
    )
    alone = 32 / (0.067 + 0.32)
    assert found.worth.values[1] == pytest.approx(64 / (0.067 + 0.32 + 0.02) / alone)
    assert {slots for slots, _ in model.asked} == {1}, "only one slot is measured"


@pytest.mark.parametrize(
    ("table_s", "weights", "fact"),
    [
        ({10: [0.0, 1.0], 20: [0.0]}, {"a": 1}, "rows of 1, 2 times"),
        ({10: [0.0, -1.0]}, {"a": 1}, r"\[0.0, -1.0\]; give seconds, 0 or more"),
        ({10: [0.0, 1.0]}, {}, "give both, or neither"),
        ({}, {"a": 1}, "give both, or neither"),
    ],
)
def test_wrong_tables(table_s, weights, fact):
    with pytest.raises(ValueError, match=fact):
        AllReduce(table_s, weights)


def test_the_slots_a_job_may_have():
    def counts(spec, **options):
        found = analyser(**options).analyse(spec, Model(), spec.batch_range)
        return found.worth.fewest, found.worth.fewest + len(found.batches) - 1

    assert counts(category_1()) == (1, 10)
    assert counts(category_1(max_slots=4)) == (1, 4)
    assert counts(category_1(min_slots=2, max_slots=20)) == (2, 10)
    assert counts(category_1(slots=16, global_batch=256), k_max=10) == (2, 16)
    assert counts(category_1(slots=3, elastic=False)) == (3, 3)


@settings(deadline=None, max_examples=examples(200))
@given(
    low=st.integers(1, 40),
    width=st.integers(0, 200),
    fits=st.integers(1, 12),
    a=st.floats(0.0, 1.0),
    summing=st.lists(st.floats(0.0, 2.0), min_size=7, max_size=7),
)
def test_no_batch_of_the_range_scales_better(low, width, fits, a, summing):
    high = low + width
    curve = Model(a=a, summing_s=dict(enumerate(summing, 2)))
    spec = job("j", global_batch=low, min_global_batch=low, max_global_batch=high, max_slots=8)
    found = analyser(num_probes=12, slot_batch=fits).analyse(spec, curve, (low, high))
    alone = fits / (a + 0.01 * fits)
    for k in range(1, 9):
        factors = {
            b: curve.samples_per_s(k, b) / alone
            for b in range(low, high + 1)
            if math.ceil(b / k) <= fits
        }
        if not factors:
            assert found is None or k < found.worth.fewest
            continue
        assert found.batch(k) in factors
        value = found.worth.values[k - found.worth.fewest]
        assert value == pytest.approx(max(factors.values()), rel=1e-9)
        assert value == pytest.approx(factors[found.batch(k)], rel=1e-9)
