"""Tensors as plain memory: flat views, bytes, and reading another process's memory.

A receiver on the donor's host reads the donor's memory itself, by ``process_vm_readv`` (the
"cross-memory attach" of MPI libraries). So the donor has nothing to copy or to send. This works on
Linux only; where the kernel forbids it, the bytes go through the socket.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

import torch

_PR_SET_PTRACER = 0x59616D61
# Below the kernel's limit for one call (IOV_MAX, 1024).
_MAX_VECTORS = 512

Region: TypeAlias = tuple[int, int]
"""Address and number of bytes."""


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements fill their memory once and without a gap, in any order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return a one-dimensional view in the order of the memory.

    Raises:
        TypeError: there are gaps or overlaps.
    """
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor.view(-1)
    if not is_dense(tensor):
        raise TypeError(f"a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()}")
    return tensor.as_strided((tensor.numel(),), (1,))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a dense tensor as a flat tensor of bytes, not copied.

    Raises:
        TypeError: there are gaps or overlaps.
    """
    return flat(tensor).view(torch.uint8)


def split(memory: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return consecutive views of flat ``memory``, each as long as the tensor in ``like``."""
    views, at = [], 0
    for tensor in like:
        views.append(memory[at : at + tensor.numel()])
        at += tensor.numel()
    return views


def regions(payload: Sequence[torch.Tensor]) -> list[Region]:
    """Return where byte tensors lie in this process."""
    return [(part.data_ptr(), part.numel()) for part in payload]


def host_identity() -> str:
    """Return a text that is the same for processes which share process ids; '' if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


class ReadingPermission:
    """Permission for another process to read this one's memory where the Yama module forbids it.

    The kernel knows one permitted process at a time. A later permission replaces an earlier one,
    whose ``end`` then has no effect.
    """

    _lock: ClassVar = threading.Lock()
    _valid: ClassVar[ReadingPermission | None] = None

    def __init__(self, process: int) -> None:
        with self._lock:
            ReadingPermission._valid = self
            _set_reader(process)

    def end(self) -> None:
        """End the permission. Safe to call twice."""
        # Test and call under one lock: the end of this permission must not take a later one back.
        with self._lock:
            if ReadingPermission._valid is self:
                ReadingPermission._valid = None
                _set_reader(0)


def _set_reader(process: int) -> None:
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PTRACER, ctypes.c_ulong(process), 0, 0, 0)


def read_memory(process: int, there: Sequence[Region], here: Sequence[torch.Tensor]) -> None:
    """Fill byte tensors with another process's memory.

    Raises:
        OSError: the process has gone, or the kernel forbids it.
        ValueError: the sizes differ.
    """
    pairs = list(_pair(there, regions(here)))
    for first in range(0, len(pairs), _MAX_VECTORS):
        _read(process, pairs[first : first + _MAX_VECTORS])


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _pair(there: Sequence[Region], here: Sequence[Region]) -> Iterator[tuple[int, int, int]]:
    """Split both lists at the same places: (address there, address here, bytes).

    Raises:
        ValueError: the sizes differ.
    """
    if sum(size for _, size in there) != sum(size for _, size in here):
        raise ValueError("regions of another size")
    sources = iter(there)
    source, left = 0, 0
    for target, size in here:
        while size:
            while not left:
                source, left = next(sources)
            count = min(size, left)
            yield source, target, count
            source, left, target, size = source + count, left - count, target + count, size - count


def _read(process: int, pairs: Sequence[tuple[int, int, int]]) -> None:
    if sys.platform != "linux":
        raise OSError("no process_vm_readv on this system")
    there = (_Vector * len(pairs))(*(_Vector(source, size) for source, _, size in pairs))
    here = (_Vector * len(pairs))(*(_Vector(target, size) for _, target, size in pairs))
    wanted = sum(size for *_, size in pairs)
    call = _libc().process_vm_readv
    call.restype = ctypes.c_ssize_t
    vectors = (ctypes.c_void_p, ctypes.c_ulong)
    call.argtypes = (ctypes.c_int, *vectors, *vectors, ctypes.c_ulong)
    # Both lists are cut at the same places (``_pair``), so that the rest can be found from the
    # count.
    count = call(process, here, len(pairs), there, len(pairs), 0)
    if count < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    if count == wanted:
        return
    # Without progress, reading the rest again would never end.
    if not count:
        raise OSError("process_vm_readv read nothing")
    # The kernel ends early at 2 GiB, and at an address that has gone: read the rest again.
    left = []
    for source, target, size in pairs:
        skipped = min(size, count)
        count -= skipped
        if size > skipped:
            left.append((source + skipped, target + skipped, size - skipped))
    _read(process, left)
