"""Memory that processes of one host share, freed when the last of them has ended.

The memory has no name. Other processes open it through the descriptor of the process that made it,
which the kernel permits to the same user. So nothing is left behind, whatever process is killed.
"""

from __future__ import annotations

import mmap
import os

import torch


class HostMemory:
    """Block of memory, initially zero, as a flat tensor of bytes."""

    def __init__(self, num_bytes: int) -> None:
        """Allocate the memory. Raises OSError if the system has none left."""
        self.num_bytes = num_bytes
        self.descriptor = os.memfd_create("elastrace-gradients")
        try:
            os.ftruncate(self.descriptor, num_bytes)
            self.bytes = _map(self.descriptor, num_bytes)
        except BaseException:
            os.close(self.descriptor)
            raise

    def __del__(self) -> None:
        if hasattr(self, "bytes"):  # otherwise it was never allocated
            os.close(self.descriptor)


def open_other(process: int, descriptor: int, num_bytes: int) -> torch.Tensor:
    """Return the ``HostMemory`` of another process as a flat tensor of bytes.

    Raises:
        OSError: the process or descriptor does not exist, or access is denied.
    """
    own = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR)
    try:
        return _map(own, num_bytes)
    finally:
        os.close(own)  # the mapping remains


def _map(descriptor: int, num_bytes: int) -> torch.Tensor:
    # The tensor owns the mapping, which ends with it.
    return torch.frombuffer(mmap.mmap(descriptor, num_bytes), dtype=torch.uint8)
