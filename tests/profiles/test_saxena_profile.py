"""The modelled profile is its model, and the model gives what Saxena et al. print."""

import csv
import math

import pytest

from harness.profiles import load_profile
from harness.profiles.read import SHIPPED
from tests.schedulers.test_scalability import TABLE_2

UNIT_S = 4.5e-3
# weights in millions, a, r, largest batch on a slot
CATEGORIES = {
    "resnet50": (24, 6.7, 1.0, 32),
    "alexnet": (58, 0.5, 1.0, 32),
    "vgg11_bn": (10, 6.7, 0.07, 128),
    "alexnet_food101": (58, 0.5, 1.0, 128),
}
PROFILE = load_profile({"path": str(SHIPPED / "saxena_p100.yaml")})


def summing(slots):
    return {1: 0.0, 2: 7.5}.get(slots, 34.8 * 2 * (slots - 1) / slots)


def factor(workload, slots, batch):
    fits = CATEGORIES[workload][3]
    alone = PROFILE.throughput(workload, fits).samples_per_s(1)
    return PROFILE.throughput(workload, batch).samples_per_s(slots) / alone


def best_factor(workload, batch):
    fits = CATEGORIES[workload][3]
    return max(factor(workload, k, batch) for k in range(1, 11) if math.ceil(batch / k) <= fits)


@pytest.mark.parametrize("workload", CATEGORIES)
def test_every_cell_is_what_the_remarks_say(workload):
    weights, a, r, fits = CATEGORIES[workload]
    with (SHIPPED / "data" / "saxena" / f"{workload}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        batch = int(row.pop("global_batch_size"))
        for slots, cell in ((int(name), cell) for name, cell in row.items()):
            part = -(-batch // slots)
            time_s = (r * (a + part) + summing(slots) * weights / 24) * UNIT_S
            is_possible = slots <= batch and part <= fits
            assert bool(cell) == is_possible
            assert not is_possible or float(cell) == pytest.approx(1 / time_s, rel=1e-5)


def test_table_2_within_one_and_a_half_percent():
    found = {part: factor("resnet50", 2, 2 * part) for part in TABLE_2}
    assert found == {part: pytest.approx(value, rel=0.015) for part, value in TABLE_2.items()}


def test_one_job_on_five_slots_is_1_6_times_as_fast():
    """Section IV-D: 160 on 5 GPUs against 32, which is best on 2."""
    at_32 = {k: factor("resnet50", k, 32) for k in range(1, 6)}
    assert max(at_32, key=at_32.get) == 2
    assert factor("resnet50", 5, 160) / at_32[2] == pytest.approx(1.6, rel=0.005)


def test_the_first_category_scales_1_3_times_as_well_as_the_second():
    """Section IV-E, with their smallest batches."""
    ratio = best_factor("resnet50", 32) / best_factor("alexnet", 16)
    assert ratio == pytest.approx(1.3, rel=0.01)


def test_the_third_category_communicates_more_than_the_first_and_less_than_the_second():
    share = {
        name: summing(2) * weights / 24 / (r * (a + fits))
        for name, (weights, a, r, fits) in CATEGORIES.items()
    }
    assert share["resnet50"] < share["vgg11_bn"] < share["alexnet"]
    middle = math.sqrt(share["resnet50"] * share["alexnet"])
    assert share["vgg11_bn"] == pytest.approx(middle, rel=0.01)
