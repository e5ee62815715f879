"""What level D0 sums after a restart: that of stock workers that accumulate, one a slot."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from systems.runtime.reduction.ordered import join_alone
from systems.runtime.tensors.state import digests
from systems.runtime.wire.groups import build_group
from systems.runtime.wire.virtual_plan import ranges, split_evenly
from systems.virtual.slot_reduction import SlotReduction
from systems.virtual.virtual_reduction import VirtualReduction
from tests.backends.members import Members, last_word
from tests.backends.tiny_workload import Tiny

CPU = torch.device("cpu")
NUM_WORKERS, STEPS, RESTARTED_AT = 4, 3, 7


class Job:
    """Part of a job with four logical workers, as one slot has it."""

    def __init__(self):
        # Wide enough for several chunks of a ring.
        self.workload = Tiny(width=512)
        self.model = self.workload.build_model(3)
        self.optimizer = self.workload.build_optimizer(self.model)

    def loss(self, model, step, worker):
        torch.manual_seed(10 * step + worker)
        ids = [(12 * step + 3 * worker + i) % self.workload.num_samples for i in range(3)]
        return self.workload.loss(model, self.workload.samples(ids))

    def update(self, step):
        self.workload.update(self.optimizer, 12, step)

    def digest(self):
        """Buffers are not compared: stock workers that accumulate keep those of all passes."""
        return digests(self.model, self.optimizer)["digest_parameters"]


def accumulates(pipe, port, rank, size):
    job = Job()
    store = dist.TCPStore("127.0.0.1", port, wait_for_workers=False)
    store = dist.PrefixStore(f"stock {size}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    model = DistributedDataParallel(job.model)
    *before, last = ranges(split_evenly(NUM_WORKERS, size))[rank]
    for step in range(RESTARTED_AT, RESTARTED_AT + STEPS):
        job.optimizer.zero_grad()
        with model.no_sync():
            for worker in before:
                (job.loss(model, step, worker) * (size / NUM_WORKERS)).backward()
        (job.loss(model, step, last) * (size / NUM_WORKERS)).backward()
        job.update(step)
    last_word(pipe, job.digest())


def trains_virtual(pipe, port, rank, size, kind):
    job = Job()
    join_alone()
    reduction = kind(job.model, job.optimizer, CPU, NUM_WORKERS)
    reduction.warm_up(lambda: job.loss(reduction.parallel, 0, 0))
    generation = size + NUM_WORKERS * (kind is SlotReduction)
    reduction.attach(build_group("127.0.0.1", port, generation, rank, size, 30.0))
    reduction.assign(split_evenly(NUM_WORKERS, size))
    for step in range(RESTARTED_AT, RESTARTED_AT + STEPS):
        job.optimizer.zero_grad()
        reduction.begin_step(step)
        for worker in reduction.turns:
            reduction.begin_worker(worker)
            reduction.begin_last(worker)
            loss = job.loss(reduction.module, step, worker) * reduction.loss_weight
            reduction.after_forward(worker)
            if worker == reduction.turns[-1]:
                reduction.begin()
            loss.backward()
            reduction.end_worker(worker)
        reduction.finish()
        job.update(step)
        reduction.commit()
    last_word(pipe, job.digest())


@pytest.mark.long
def test_slots_are_the_ranks_and_buckets_those_of_a_new_job():
    members = Members()
    try:
        for size in (2, 4):
            (stock,) = set(members.together(accumulates, size))
            (lost,) = set(members.together(trains_virtual, size, SlotReduction))
            (carried,) = set(members.together(trains_virtual, size, VirtualReduction))
            assert lost == stock
            assert carried != stock, "ranks, or with four slots only the layout"
    finally:
        members.end()
