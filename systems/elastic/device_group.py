"""Operations among devices, over NCCL, for members that have a device each.

An operation of NCCL runs on the device, and one that a dead peer has left alone runs there for
ever. So a thread watches those under way, and says when one has ended; to give the group up
aborts them all. Nothing here has run on a machine with several devices yet.
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
"""How often the operation that is under way is looked at: a call that asks the device."""

Ended = Callable[[str | None], None]
"""Called once per operation, on the watching thread: why it failed, or None."""


class DeviceGroup:
    """A process group whose operations' ends are looked for. They end in their order."""

    def __init__(self, process_group: Any) -> None:
        """Args: a connected process group, which nobody else uses."""
        self._process_group = process_group
        self._is_aborted = threading.Event()
        self._under_way: queue.SimpleQueue[tuple[dist.Work, Ended] | None] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="device group", daemon=True).start()

    def begin(self, start: Callable[[Any], dist.Work], ended: Ended) -> None:
        """Begin the operation that ``start`` starts. Raises what that raises."""
        self._under_way.put((start(self._process_group), ended))

    def abort(self) -> None:
        """End what is under way; whoever waits hears that it failed. May take a while."""
        self._process_group.abort()
        self._is_aborted.set()

    def free(self) -> None:
        """Free the connections; to be called last, and when nothing is under way."""
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
        rank: of this process among the ``size`` members.
        timeout: for the others to come, and of every operation.

    Raises:
        RuntimeError: a member could not be reached in time.
    """
    # Else a thread of its own ends the process when an operation fails.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    kind: Any = dist.ProcessGroupNCCL
    options = kind.Options()
    options._timeout = timeout
    process_group = kind(keys, rank, size, options)
    process_group.eager_connect_single_device(torch.device("cuda", 0))  # not in the first step
    return DeviceGroup(process_group)


def no_device_group(device: torch.device) -> str | None:
    """Why a worker on this device cannot be in such a group, or None."""
    if device.type != "cuda":
        return f"it connects CUDA devices, and this worker trains on {device.type}"
    if not dist.is_nccl_available():
        return f"torch {torch.__version__} was built without NCCL"
    return None
