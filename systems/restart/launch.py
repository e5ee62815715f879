"""Orders and process specifications of the workers of a new generation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.cluster import Cluster, Slot
from harness.contracts.change import Change
from harness.contracts.process import ProcessSpec, Warmth
from systems.restart.generation import Generation
from systems.restart.job import JobGroup
from systems.restart.order import WorkerOrder
from systems.runtime.driver.job_protocol import MakeJob, Timeouts
from systems.runtime.driver.launch import mark_path, shared_order, slot_environment
from systems.runtime.wire.control import TOKEN_VARIABLE
from systems.runtime.wire.kernels import Kernels, kernels_on
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
                order,
                cluster.slots[slot],
                kernels_on(cluster.slots[slot], cluster, common=options.common_kernels),
                token=job.services.token,
                control=job.services.server.address,
                warmth=options.warmth,
            )
            for order, slot in zip(orders, change.slots, strict=True)
        ]
        return Generation(orders, specs, job.services)

    timeouts = Timeouts(options.start_timeout_s, options.stop_timeout_s, options.hang_timeout_s)
    return partial(JobGroup, timeouts, make_generation)


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
            mark=mark_path(order, process_name(order.job_id, job.status.serial, rank)),
        )
        for rank, slot in enumerate(slots)
    ]


def process_name(job_id: str, generation: int, rank: int) -> str:
    """Return the name of a worker's process."""
    return f"{job_id}.{generation}.{rank}"


def process_spec(
    order: WorkerOrder,
    slot: Slot,
    kernels: Kernels,
    *,
    token: str,
    control: tuple[str, int],
    warmth: Warmth,
) -> ProcessSpec:
    """Return the specification of a worker's process on its slot."""
    address, port = control
    return ProcessSpec(
        name=process_name(order.job_id, order.generation, order.rank),
        entry=WORKER_ENTRY,
        argv=(address, str(port), order.job_id, str(order.generation), str(order.rank)),
        env=slot_environment(slot, order.address, kernels),
        own_env={TOKEN_VARIABLE: token},
        host=order.address,
        cores=slot.cores,
        log_path=Path(order.job_dir) / f"worker-{order.generation:04d}-{order.rank:03d}.log",
        warmth=warmth,
        slot=slot.slot_id,
    )
