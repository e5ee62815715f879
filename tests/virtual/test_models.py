"""Models of the catalogue, three of the ten that ``run_models`` holds to stock training."""

import pytest

from tests.virtual.run_models import compared

STEPS = 30
OFTEN = [("ncf", "sgd"), ("bert", "adamw"), ("resnet50", "sgd")]


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in OFTEN),
        pytest.param("ncf", "adamw", marks=pytest.mark.soak),
        pytest.param("bert", "sgd", marks=pytest.mark.soak),
        pytest.param("resnet50", "adamw", marks=pytest.mark.soak),
    ],
)
def test_three_logical_workers_on_slots_that_change_twice(catalogue_launcher, model, optimizer):
    line = compared(catalogue_launcher, model, optimizer, 3, STEPS)
    assert line["equal"], line["problem"]
    assert line["steps"] >= STEPS
    assert len({tuple(slots) for slots in line["plan"]}) >= 2
    assert len(line["plan"]) == 3
