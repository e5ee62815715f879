"""Memory that processes of one host share, and that goes when the last of them has gone.

It has no name: others open it through the descriptor of the process that made it, which the
kernel allows to processes of the same user. So whatever is killed, nothing stays behind.
"""

from __future__ import annotations

import mmap
import os

import torch


class HostMemory:
    """A piece of memory, all zero at first, as a flat tensor of bytes."""

    def __init__(self, num_bytes: int) -> None:
        """Raises OSError where the system has none left."""
        self.num_bytes = num_bytes
        self.descriptor = os.memfd_create("elastrace-gradients")
        try:
            os.ftruncate(self.descriptor, num_bytes)
            self.bytes = _map(self.descriptor, num_bytes)
        except BaseException:
            os.close(self.descriptor)
            raise

    def __del__(self) -> None:
        if hasattr(self, "bytes"):  # else it was never made
            os.close(self.descriptor)


def open_other(process: int, descriptor: int, num_bytes: int) -> torch.Tensor:
    """The ``HostMemory`` of another process, as a flat tensor of bytes.

    Raises:
        OSError: there is no such process or descriptor, or it does not let us.
    """
    own = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR)
    try:
        return _map(own, num_bytes)
    finally:
        os.close(own)  # the mapping stays


def _map(descriptor: int, num_bytes: int) -> torch.Tensor:
    # The tensor holds the mapping, which ends with it.
    return torch.frombuffer(mmap.mmap(descriptor, num_bytes), dtype=torch.uint8)
