"""Which cell answers for a change that was not measured."""

import pytest

from harness.contracts.change import ChangeKind
from harness.profiles.costs import CostCell, RescaleCost, find_cost

RESCALE, START = ChangeKind.RESCALE, ChangeKind.START


def cell(seconds, *match, **named):
    return CostCell(RescaleCost(0.0, seconds), *match, **named)


CELLS = [
    cell(9.0),
    cell(8.0, "stop_resume"),
    cell(1.0, "stop_resume", "resnet50", RESCALE, 1, 2),
    cell(2.0, "stop_resume", "resnet50", RESCALE, 2, 4),
    cell(3.0, "stop_resume", "resnet50", RESCALE, 4, 2),
    cell(4.0, "stop_resume", "resnet50", RESCALE, 4, 8),
]


@pytest.mark.parametrize(
    ("backend", "workload", "kind", "sizes", "seconds"),
    [
        ("stop_resume", "resnet50", RESCALE, (1, 2), 1.0),
        ("stop_resume", "resnet50", RESCALE, (2, 4), 2.0),
        ("stop_resume", "resnet50", RESCALE, (2, 3), 2.0),  # the nearest larger
        ("stop_resume", "resnet50", RESCALE, (1, 4), 2.0),
        ("stop_resume", "resnet50", RESCALE, (3, 6), 4.0),
        ("stop_resume", "resnet50", RESCALE, (2, 1), 3.0),  # same direction only
        ("stop_resume", "resnet50", RESCALE, (4, 16), 8.0),  # larger than all: less specific
        ("stop_resume", "resnet50", START, (0, 2), 8.0),
        ("stop_resume", "bert", RESCALE, (1, 2), 8.0),
        ("stop_free", "resnet50", RESCALE, (1, 2), 9.0),
    ],
)
def test_cell_that_answers(backend, workload, kind, sizes, seconds):
    assert find_cost(CELLS, backend, workload, kind, *sizes).pause_s == seconds
    assert find_cost(CELLS[::-1], backend, workload, kind, *sizes).pause_s == seconds


def test_workload_is_more_specific_than_backend_and_backend_than_kind():
    cells = [
        cell(1.0, kind=RESCALE),
        cell(2.0, "stop_resume"),
        cell(3.0, workload="bert"),
    ]
    assert find_cost(cells, "stop_resume", "bert", RESCALE, 1, 2).pause_s == 3.0
    assert find_cost(cells, "stop_resume", "vgg16", RESCALE, 1, 2).pause_s == 2.0
    assert find_cost(cells, "stop_free", "vgg16", RESCALE, 1, 2).pause_s == 1.0
    assert find_cost(cells, "stop_free", "vgg16", START, 0, 2) is None
