"""Orders and process specifications of the workers of a new generation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.cluster import Cluster
from harness.contracts.change import Change
from systems.restart.generation import Generation
from systems.restart.job import JobGroup
from systems.restart.order import WorkerOrder
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.driver.launch import mark_path, process_spec, shared_order
from systems.runtime.wire.kernels import kernels_on
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.virtual_plan import split_evenly, split_slots

WORKER_ENTRY = "systems.restart.main:main"


def grouped_jobs(options: RuntimeOptions, cluster: Cluster) -> MakeJob:
    """Return the function that makes a driver's jobs, whose workers all stop and start together."""

    def make_generation(job: JobGroup, change: Change) -> Generation:
        num_slots = len(change.slots)
        change = by_executor(change, options)
        orders = worker_orders(job, change, cluster, options, num_slots)
        specs = [
            process_spec(
                job.order,
                job.services,
                cluster,
                cluster.slots[slot],
                kernels_on(cluster.slots[slot], cluster, common=options.common_kernels),
                label=f"{order.generation}.{order.rank}",
                entry=WORKER_ENTRY,
                arguments=(str(order.generation), str(order.rank)),
                log=f"worker-{order.generation:04d}-{order.rank:03d}",
                warmth=options.warmth,
            )
            for order, slot in zip(orders, change.slots, strict=True)
        ]
        return Generation(orders, specs, job.services)

    return partial(JobGroup, options, make_generation)


def by_executor(change: Change, options: RuntimeOptions) -> Change:
    """Return a change for executors: it names a slot once for each of the slot's executors."""
    if options.executors == 1:
        return change
    even = split_evenly(change.job.num_logical_workers, len(change.slots))
    executors = split_slots(change.virtual_workers or even, options.executors)
    return replace(
        change,
        slots=tuple(change.slots[index] for index, _ in executors),
        virtual_workers=tuple(count for _, count in executors),
    )


def worker_orders(
    job: JobGroup, change: Change, cluster: Cluster, options: RuntimeOptions, num_slots: int
) -> list[WorkerOrder]:
    """Return the orders of a job's next generation, by rank; they differ only in rank and slot.

    Args:
        job: job of the workers.
        change: result of ``by_executor``.
        cluster: cluster of the slots.
        options: options of the backend.
        num_slots: number of slots of the job.
    """
    slots = [cluster.slots[slot] for slot in change.slots]
    order, checkpoint = job.order, job.status.checkpoint
    own_device = len({(slot.host, slot.device) for slot in slots}) == len(slots)
    return [
        WorkerOrder(
            **shared_order(order, options, cluster, slot),
            generation=job.status.serial,
            rank=rank,
            num_workers=len(slots),
            num_slots=num_slots,
            global_batch=change.global_batch,
            target_step=job.status.target_step,
            checkpoint=checkpoint.path if checkpoint else None,
            own_device=own_device,
            carries_ranks=options.carries_ranks,
            replay_layout=options.replay_layout,
            reduction=options.reduction,
            logical_workers=change.job.num_logical_workers if options.virtual else 0,
            virtual_workers=change.virtual_workers or (),
            mark=mark_path(order, f"{job.status.serial}.{rank}"),
        )
        for rank, slot in enumerate(slots)
    ]
