"""Process groups over NCCL, for members that have a device each.

An NCCL operation runs on the device. If a peer dies, the operation never ends by itself. So a
thread watches the operations under way and tells when one has ended; ``abort`` ends them all.
This code has not run on a machine with several devices yet.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

WATCH_S = 50e-6
"""Seconds between two checks of the operation under way, each a call to the device."""

Ended = Callable[[str | None], None]
"""Callback, once per operation on the watching thread: reason of its failure, or None."""


class DeviceGroup:
    """NCCL process group whose operations are watched until they end, in the order of begin."""

    def __init__(self, process_group: Any) -> None:
        """Watch a connected process group, which only this object uses."""
        self._process_group = process_group
        self._is_aborted = threading.Event()
        self._under_way: queue.SimpleQueue[tuple[dist.Work, Ended] | None] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="device group", daemon=True).start()

    def begin(self, start: Callable[[Any], dist.Work], ended: Ended) -> None:
        """Begin the operation that ``start`` starts; its errors are raised."""
        self._under_way.put((start(self._process_group), ended))

    def abort(self) -> None:
        """End all operations under way, which then count as failed. This may take a while."""
        self._process_group.abort()
        self._is_aborted.set()

    def free(self) -> None:
        """Free the connections; to be called last, when no operation is under way."""
        self._under_way.put(None)
        if not self._is_aborted.is_set():
            self._process_group.shutdown()

    def _watch(self) -> None:
        while (operation := self._under_way.get()) is not None:
            work, ended = operation
            while not work.is_completed() and not self._is_aborted.is_set():
                time.sleep(WATCH_S)
            ended(self._failure(work))

    def _failure(self, work: dist.Work) -> str | None:
        if self._is_aborted.is_set():
            return "was aborted"
        error = work.exception()
        return str(error) if error is not None else None


def meet_on_devices(keys: Any, rank: int, size: int, timeout: timedelta) -> DeviceGroup:
    """Connect this process's only device to the others'. Blocks.

    Args:
        keys: a store for this group alone.
        rank: rank of this process among the ``size`` members.
        size: number of members.
        timeout: longest time for the other members to connect, and for every operation.

    Raises:
        RuntimeError: a member could not be reached in time.
    """
    # Otherwise a thread of NCCL's process group ends this process when an operation fails.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    kind: Any = dist.ProcessGroupNCCL
    options = kind.Options()
    options._timeout = timeout
    process_group = kind(keys, rank, size, options)
    process_group.eager_connect_single_device(torch.device("cuda", 0))  # not in the first step
    return DeviceGroup(process_group)


def no_device_group(device: torch.device) -> str | None:
    """Return why a worker on this device cannot be in a ``DeviceGroup``, or None if it can."""
    if device.type != "cuda":
        return f"it connects CUDA devices, and this worker trains on {device.type}"
    if not dist.is_nccl_available():
        return f"torch {torch.__version__} was built without NCCL"
    return None
