"""Environment and marks of the processes on a slot, the same for all backends."""

from __future__ import annotations

from harness.cluster import Slot, is_cpu
from harness.contracts.training_order import TrainingOrder
from harness.files.safe_names import file_name
from harness.machine.network import interface_of
from systems.runtime.wire.kernels import Kernels


def mark_path(order: TrainingOrder, name: str) -> str | None:
    """Return the path of the mark of the worker with this process name; None if it keeps no
    mark."""
    return None if order.marks is None else str(order.marks.absolute() / file_name(name))


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
