"""Slots that share the sum have the bits of N workers, in shared memory and without."""

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.wire.groups import Group
from systems.runtime.wire.virtual_plan import ranges, split_evenly
from systems.virtual import exchange
from systems.virtual.gradient_memory import GradientMemory, buckets_of
from tests.virtual.test_ring_order import by_gloo, same_bits, wild

LAYOUT = (
    BucketLayout((0,), 100_003, torch.float32),
    BucketLayout((1, 2), 517, torch.bfloat16),
    BucketLayout((3,), 1, torch.float64),
)
TIMEOUT = timedelta(seconds=60)


def copies_of(num_workers, step):
    return [
        [wild(b.numel, b.dtype, 1000 * step + 10 * worker + i) for i, b in enumerate(LAYOUT)]
        for worker in range(num_workers)
    ]


class Late:
    """An operation that is over for its caller only once something else has happened."""

    def __init__(self, pending, event):
        self.pending, self.event = pending, event

    def wait(self):
        self.pending.wait()
        assert self.event.wait(TIMEOUT.total_seconds())


class Hesitant(Group):
    """A real group whose member goes on late after its ``number``-th sum."""

    number, event = 0, None

    def all_reduce(self, tensor):
        self.number -= 1
        pending = super().all_reduce(tensor)
        return pending if self.number else Late(pending, self.event)


def summed(num_workers, num_slots, num_steps, kinds, held=None, is_updated=None):
    """What every slot has after each step; the slots are threads with real groups.

    ``held``: number of the sum after which slot 1 goes on only when slot 0 has ended its step,
    and has updated its gradients in place, which sets ``is_updated``.
    """
    store, results, failures = dist.HashStore(), {}, []
    counts = split_evenly(num_workers, num_slots)

    def work(rank):
        try:
            process_group = dist.ProcessGroupGloo(store, rank, num_slots, TIMEOUT)
            group = Hesitant(1, rank, num_slots, process_group)
            if held is not None and rank == 1:
                group.number, group.event = held, is_updated
            memory, local = GradientMemory((LAYOUT,)), ranges(counts)[rank]
            memory.resize(len(local))
            found = exchange.exchange_over(group, memory, LAYOUT, num_workers, local)
            kinds.add(type(found))
            for step in range(num_steps):
                copies = copies_of(num_workers, step)
                for worker, own in zip(local, memory.copies, strict=True):
                    for place, values in zip(
                        buckets_of(own.bytes, LAYOUT), copies[worker], strict=True
                    ):
                        place.copy_(values)
                found.run()
                totals = buckets_of(memory.total, LAYOUT)
                results[rank, step] = [total.clone() for total in totals]
                if held is not None and rank == 0:
                    for total in totals:
                        total.mul_(0.5)  # as clip_grad_norm_ does
                    is_updated.set()
            group.drop()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(num_slots)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return results


def unopenable(process, descriptor, num_bytes):
    raise OSError("not on this host")


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize(("num_workers", "num_slots"), [(4, 2), (5, 3), (3, 3)])
def test_every_slot_has_the_sum_of_all(monkeypatch, num_workers, num_slots, is_shared):
    if not is_shared:
        monkeypatch.setattr(exchange, "open_other", unopenable)
    kinds = set()
    results = summed(num_workers, num_slots, 2, kinds)
    assert kinds == {exchange.SharedExchange if is_shared else exchange.TravellingExchange}
    for step in range(2):
        expected = by_gloo(copies_of(num_workers, step))
        for rank in range(num_slots):
            pairs = zip(results[rank, step], expected, strict=True)
            assert all(same_bits(total, wanted) for total, wanted in pairs), (rank, step)


def test_an_update_in_place_is_for_its_own_slot_alone():
    """Updates begin as soon as a slot has its sum, while another may still take its parts."""
    kinds = set()
    # Two sums make them known to each other; a step's second one says that the parts are there.
    results = summed(4, 2, 1, kinds, held=4, is_updated=threading.Event())
    assert kinds == {exchange.SharedExchange}
    expected = by_gloo(copies_of(4, 0))
    for rank in range(2):
        pairs = zip(results[rank, 0], expected, strict=True)
        assert all(same_bits(total, wanted) for total, wanted in pairs), rank
