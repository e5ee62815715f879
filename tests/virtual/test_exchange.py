"""Slots that share the sum have the bits of N workers, in shared memory and without."""

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from systems.elastic.groups import Group
from systems.runtime.reduction import BucketLayout
from systems.virtual import exchange
from systems.virtual.assignment import ranges, split_evenly
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


def summed(num_workers, num_slots, num_steps, kinds):
    """What every slot has after each step; the slots are threads with real groups."""
    store, results, failures = dist.HashStore(), {}, []
    counts = split_evenly(num_workers, num_slots)

    def work(rank):
        try:
            process_group = dist.ProcessGroupGloo(store, rank, num_slots, TIMEOUT)
            group = Group(1, rank, num_slots, process_group)
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
                totals = buckets_of(memory.total.bytes, LAYOUT)
                results[rank, step] = [total.clone() for total in totals]
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
