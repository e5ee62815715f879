"""A step that is given up between its forward and its backward pass leaves nothing behind."""

import pytest
import torch

from systems.runtime.reduction.ordered import join_alone
from systems.runtime.tensors.state import digests
from systems.runtime.wire.groups import Group, build_group
from systems.runtime.wire.virtual_plan import split_evenly
from systems.virtual.virtual_reduction import VirtualReduction
from tests.backends.members import Members, last_word
from tests.backends.tiny_workload import Tiny

CPU = torch.device("cpu")
NUM_WORKERS, STEPS = 3, (5, 6)


def goes_on(pipe, port, rank, size, generation, gives_up):
    """Trains on as one of ``size`` slots, after a step with a slot for each worker or without."""
    workload = Tiny(width=64)
    model = workload.build_model(3)
    optimizer = workload.build_optimizer(model)
    join_alone()
    reduction = VirtualReduction(model, optimizer, CPU, NUM_WORKERS)

    def loss(module, step, worker):
        torch.manual_seed(10 * step + worker)
        ids = [(12 * step + 3 * worker + index) % workload.num_samples for index in range(3)]
        return workload.loss(module, workload.samples(ids))

    def forward(step, worker):
        reduction.begin_worker(worker)
        reduction.begin_last(worker)
        found = loss(reduction.module, step, worker)
        reduction.after_forward(worker)
        if worker == reduction.turns[-1]:
            reduction.begin()
        return found

    reduction.warm_up(lambda: loss(reduction.parallel, 0, 0))
    if gives_up:
        lost = Group(1, rank, NUM_WORKERS, None)
        reduction.attach(lost)
        reduction.assign([1] * NUM_WORKERS)
        reduction.begin_step(STEPS[0])
        lost.give_up()
        forward(STEPS[0], rank)
        reduction.undo()
    reduction.attach(build_group("127.0.0.1", port, generation, rank, size, 30.0))
    reduction.assign(split_evenly(NUM_WORKERS, size))
    for step in STEPS:
        optimizer.zero_grad()
        reduction.begin_step(step)
        for worker in reduction.turns:
            forward(step, worker).backward()
            reduction.end_worker(worker)
        reduction.finish()
        workload.update(optimizer, 9, step)
        reduction.commit()
    last_word(pipe, digests(model, optimizer))


@pytest.mark.parametrize("size", [1, 2])
def test_a_step_that_is_given_up_between_its_passes_leaves_nothing_to_those_by_hand(size):
    members = Members()
    try:
        before = members.together(goes_on, size, 2, False)
        after = members.together(goes_on, size, 3, True)
    finally:
        members.end()
    assert after == before
