"""Environment, marks and orders of the processes on a slot, as far as all backends share them."""

from __future__ import annotations

from typing import Any

from harness.cluster import Cluster, Slot, is_cpu
from harness.contracts.process import ProcessSpec, Warmth
from harness.contracts.training_order import TrainingOrder
from harness.files.safe_names import file_name
from harness.machine.network import interface_of
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.wire.control import TOKEN_VARIABLE
from systems.runtime.wire.kernels import Kernels, kernels_on
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.protocol import JsonObject


def mark_path(order: TrainingOrder, label: str) -> str | None:
    """Return the path of the mark of the worker whose process has this label; None if it keeps no
    mark."""
    if order.marks is None:
        return None
    return str(order.marks.absolute() / file_name(f"{order.job_id}.{label}"))


def slot_environment(slot: Slot, address: str, kernels: Kernels) -> dict[str, str]:
    """Return the environment of a slot's processes, which must be set before torch is imported.

    The environment is the same for all jobs, so a worker can be a process that was started before
    its job.

    Args:
        slot: slot of the processes.
        address: address of the slot's host.
        kernels: kernels that they may use.
    """
    threads = str(kernels.num_threads)
    env = {
        **kernels.environment,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # otherwise every log would end in warnings
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    interface = interface_of(address)
    if interface is not None:
        env["GLOO_SOCKET_IFNAME"] = interface
    if not is_cpu(slot.device_type):
        env["CUDA_VISIBLE_DEVICES"] = str(slot.device)
    return env


def process_spec(
    order: TrainingOrder,
    services: JobServices,
    cluster: Cluster,
    slot: Slot,
    kernels: Kernels,
    *,
    label: str,
    entry: str,
    arguments: tuple[str, ...],
    log: str,
    warmth: Warmth = Warmth.COLD,
    serves_only: bool = False,
) -> ProcessSpec:
    """Return the specification of a job's process, which connects to the driver.

    Args:
        order: order of the job.
        services: token and address of the driver.
        cluster: cluster of the slot.
        slot: slot of the process, or one on the host of a process that only serves.
        kernels: kernels that the process may use.
        label: name of the process within its job.
        entry: function of the process; its first arguments are ``ADDRESS PORT JOB_ID``.
        arguments: further arguments.
        log: name of its log, without the ending.
        warmth: way in which the process starts.
        serves_only: true if it is no worker and has no cores of its own.
    """
    address, port = services.server.address
    host = cluster.hosts[slot.host].address
    return ProcessSpec(
        name=f"{order.job_id}.{label}",
        entry=entry,
        argv=(address, str(port), order.job_id, *arguments),
        env=slot_environment(slot, host, kernels),
        own_env={TOKEN_VARIABLE: services.token},
        host=host,
        cores=() if serves_only else slot.cores,
        log_path=order.job_dir.absolute() / f"{log}.log",
        warmth=warmth,
        slot=None if serves_only else slot.slot_id,
    )


def shared_order(
    order: TrainingOrder, options: RuntimeOptions, cluster: Cluster, slot: Slot
) -> dict[str, Any]:
    """Return the fields of a ``WorkOrder`` that do not change while the job lives."""
    kernels = kernels_on(slot, cluster, common=options.common_kernels)
    return {
        "job_id": order.job_id,
        "workload": order.workload.target,
        "options": JsonObject(order.workload.options),
        "seed": order.seed,
        "job_dir": str(order.job_dir.absolute()),
        "checkpoint_every": options.checkpoint_every,
        "digest_every": order.digest_every,
        "device": options.device,
        "device_type": slot.device_type,
        "num_threads": kernels.num_threads,
        "address": cluster.hosts[slot.host].address,
        "collective_timeout_s": options.collective_timeout_s,
        "step_floors_s": {str(count): floor for count, floor in order.step_floor_s.items()},
        "evaluate_epochs": order.evaluate_epochs,
        "evidence": order.evidence,
        "adaptive": order.adaptive,
        "common_kernels": options.common_kernels,
        "data_order": options.data_order,
        "block_samples": options.block_samples,
        "prefetch_steps": options.prefetch_steps,
        "loader_processes": options.loader_processes,
        "drawn_samples": options.drawn_samples,
        "accumulation_steps": options.accumulation_steps,
        "random_states": options.random_states,
    }
