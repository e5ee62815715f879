"""The ordered reduction between real processes: the bits of stock DistributedDataParallel,
whatever happened before."""

import gc
import math
import random
import signal
import threading
import weakref

import numpy as np
import pytest
import torch
import torch.distributed as dist

from systems.runtime.reduction.ordered import OrderedReduction, join_alone
from systems.runtime.reduction.stock import StockReduction
from systems.runtime.tensors.state import digests
from systems.runtime.wire.groups import GroupLost, build_group
from systems.runtime.worker import checkpoint
from tests.backends.members import Members, last_word
from tests.backends.tiny_workload import Tiny

CPU = torch.device("cpu")
STEPS = 12


@pytest.fixture
def members():
    members = Members()
    yield members
    members.end()


class Job:
    """One worker's share of a job whose samples follow from step and rank."""

    def __init__(self, optimizer="adamw"):
        # Wide enough for several ring segments above two workers.
        self.workload = Tiny(width=512, optimizer=optimizer)
        self.model = self.workload.build_model(3)
        self.optimizer = self.workload.build_optimizer(self.model)
        self.step = 0

    def loss(self, rank):
        torch.manual_seed(10 * self.step + rank)
        ids = [(12 * self.step + 3 * rank + i) % self.workload.num_samples for i in range(3)]
        return self.workload.loss(self.reduction.parallel, self.workload.samples(ids))

    def compute(self, rank):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(rank)
        self.reduction.begin()
        loss.backward()
        self.reduction.finish()

    def advance(self, rank, steps=STEPS):
        for _ in range(steps):
            self.compute(rank)
            self.workload.update(self.optimizer, 12, self.step)
            self.reduction.commit()
            self.step += 1

    def make_ordered(self):
        join_alone()
        self.reduction = OrderedReduction(self.model, self.optimizer, CPU)
        self.reduction.warm_up(lambda: self.loss(0))

    def digests(self):
        return digests(self.model, self.optimizer)

    def join(self, port, generation, rank, size):
        group = build_group("127.0.0.1", port, generation, rank, size, 30.0)
        self.reduction.attach(group)
        return group


def trains_stock(pipe, port, rank, size, optimizer):
    job = Job(optimizer)
    store = dist.TCPStore("127.0.0.1", port, wait_for_workers=False)
    store = dist.PrefixStore("stock", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    job.reduction = StockReduction(job.model, CPU, replays=size > 2)
    if job.reduction.needs_warm_up(1):
        job.reduction.warm_up(lambda: job.loss(rank))
    job.advance(rank)
    last_word(pipe, job.digests())


def trains_ordered(pipe, port, rank, size, optimizer):
    job = Job(optimizer)
    job.make_ordered()
    for bucket in job.reduction.backward_memory:  # a newcomer's has had other gradients in it
        bucket.fill_(math.nan)
    job.join(port, 1, rank, size)
    job.advance(rank)
    last_word(pipe, job.digests())


@pytest.mark.parametrize(
    ("size", "optimizer"), [(2, "adamw"), (2, "sgd"), (3, "sgd"), (4, "adamw")]
)
def test_the_bits_are_those_of_stock_ddp(members, size, optimizer):
    stock = members.together(trains_stock, size, optimizer)
    ordered = members.together(trains_ordered, size, optimizer)
    assert ordered[0] == stock[0]
    # Stock workers have buffers of their own until the next forward pass.
    assert ordered == [ordered[0]] * size


def goes_on(pipe, port, rank, size, folder, generation):
    """What follows from a checkpoint in fresh processes."""
    job = Job()
    job.make_ordered()
    found = checkpoint.load(checkpoint.newest(folder), job.model, job.optimizer, verify=True)
    job.step = found.step
    job.join(port, generation, rank, size)
    job.advance(rank)
    last_word(pipe, job.digests())


def loses_one(pipe, port, rank, size, folder):
    """Loses the last member in the middle of a step and goes on with the others."""
    job = Job()
    job.make_ordered()
    group = job.join(port, 1, rank, size)
    job.advance(rank)
    if rank == size - 1:
        pipe.send("ready")
        pipe.recv()
    before = job.digests()
    pipe.send("ready")

    def listen():
        assert pipe.recv() == "give up"
        group.give_up()

    listener = threading.Thread(target=listen)
    listener.start()
    with pytest.raises(GroupLost):
        job.compute(rank)
    listener.join()
    assert job.digests() == before
    if rank == 0:
        checkpoint.save(folder, checkpoint.Checkpoint(job.step, {}, 0), job.model, job.optimizer)
    job.join(port, 2, rank, size - 1)
    job.advance(rank)
    last_word(pipe, job.digests())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_survivors_go_on_with_the_bits_of_fresh_processes(members, tmp_path, number):
    started = [members.start(loses_one, rank, 3, tmp_path) for rank in range(3)]
    assert [member.hear() for member in started] == ["ready"] * 3
    *survivors, victim = started
    victim.signal(number)
    for member in survivors:
        member.tell("give up")
    found = [member.hear() for member in survivors]
    fresh = members.together(goes_on, 2, tmp_path, 9)
    assert found == fresh == [fresh[0]] * 2


def undoes(pipe, port, rank, size, generation):
    """A step that was computed on all members, and then counts for nobody."""
    job = Job()
    job.make_ordered()
    job.join(port, generation, rank, size)
    job.advance(rank)
    before = job.digests()
    job.loss(rank)  # no backward pass follows
    job.reduction.begin()
    job.reduction.undo()
    assert job.digests() == before
    job.compute(rank)
    assert job.digests()["digest_buffers"] != before["digest_buffers"]
    job.reduction.undo()
    assert job.digests() == before
    job.reduction.undo()
    job.advance(rank)
    last_word(pipe, job.digests())


def test_a_step_can_be_undone_until_it_is_committed(members):
    assert members.together(undoes, 2, 1) == members.together(continues, 2, 2)


def continues(pipe, port, rank, size, generation):
    job = Job()
    job.make_ordered()
    job.join(port, generation, rank, size)
    job.advance(rank, 2 * STEPS)
    last_word(pipe, job.digests())


def alone(pipe, port):
    """One worker without any group."""
    job = Job("sgd")
    job.make_ordered()
    layout = job.reduction.layout
    job.advance(0)
    indices = [index for bucket in layout for index in bucket.parameters]
    sizes = [parameter.numel() for parameter in job.model.parameters()]
    assert sorted(indices) == list(range(len(sizes)))
    assert sum(bucket.numel for bucket in layout) == sum(sizes)
    last_word(pipe, job.digests())


def plain(pipe, port):
    """The same without anything around the model."""
    job = Job("sgd")
    for _ in range(STEPS):
        job.optimizer.zero_grad()
        torch.manual_seed(10 * job.step)
        ids = [(12 * job.step + i) % job.workload.num_samples for i in range(3)]
        job.workload.loss(job.model, job.workload.samples(ids)).backward()
        job.workload.update(job.optimizer, 12, job.step)
        job.step += 1
    last_word(pipe, job.digests())


def test_one_worker_alone_trains_as_without_any_reduction(members):
    assert members.start(alone).hear() == members.start(plain).hear()


def warms_up(pipe, port):
    job = Job()
    before = job.digests()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    job.make_ordered()
    assert job.digests() == before
    drawn = torch.rand(1).item(), np.random.rand(), random.random()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    assert drawn == (torch.rand(1).item(), np.random.rand(), random.random())
    reduction = job.reduction
    known = reduction.layout, reduction.first_layout, reduction.kept_layout
    reduction.warm_up(lambda: job.loss(0), rounds=1)  # of a batch of another size, say
    assert known == (reduction.layout, reduction.first_layout, reduction.kept_layout)
    assert job.digests() == before
    with pytest.raises(ValueError, match="rounds is 0; buckets are laid out in the second"):
        reduction.warm_up(lambda: job.loss(0), rounds=0)
    other = Job()
    fresh = OrderedReduction(other.model, other.optimizer, torch.device("cpu"))
    with pytest.raises(ValueError, match="rounds is 1; buckets are laid out in the second"):
        fresh.warm_up(lambda: other.loss(0), rounds=1)
    last_word(pipe, reduction.layout)


def drops_a_job(pipe, port):
    job = Job()
    job.make_ordered()
    left = weakref.ref(job.reduction), weakref.ref(job.model)
    del job
    gc.collect()
    last_word(pipe, [reference() is None for reference in left])


def test_a_reduction_that_nobody_holds_is_gone_with_its_model(members):
    assert members.start(drops_a_job).hear() == [True, True]


def test_a_warm_up_changes_nothing_but_the_layout(members):
    assert members.start(warms_up).hear() == members.start(warms_up).hear()
