"""Kernel that scales one worker's gradients, and adds them to sums or keeps them for later.

In C (``sum_kernel.c``) it is one pass over memory and one call for many gradients. In torch it is a
pass for every operation and a call for every block of elements. That makes a tenth of a step of
small models and 2 to 4 % of one of large models. Both give the same bits. The C code is compiled
when the project is installed. Torch is used if there was no compiler, and for gradients that are
not float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from systems.virtual.copied_gradients import scale
from systems.virtual.ordered_sum import BLOCK_ELEMENTS

LIBRARY = "systems.virtual._sum_kernel"


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a gradient that are summed in one order."""

    gradient: int
    """Index among the gradients that are taken together."""
    start: int
    stop: int
    """Range of its elements, in the order of the memory."""
    first: int
    """Worker whose term begins the sum."""
    total: torch.Tensor
    """Destination of the sum, flat."""
    kept: torch.Tensor
    """Memory for the terms of the workers above ``first``: a row each, the last worker's first."""


class TorchPieces:
    """Pieces that torch's operations sum."""

    def __init__(self, pieces: Sequence[Piece], num_workers: int) -> None:
        """Prepare the pieces to take in every worker's turn, for ``num_workers`` workers."""
        self._pieces = pieces
        self._num_workers = num_workers
        longest = max((piece.stop - piece.start for piece in pieces), default=0)
        dtype = pieces[0].total.dtype if pieces else torch.float32
        self._scratch = torch.empty(min(longest, BLOCK_ELEMENTS), dtype=dtype)

    def take(self, gradients: Sequence[torch.Tensor], worker: int) -> None:
        """Add a worker's gradients to the sums, or keep them; turns must go down to worker 0.

        Args:
            gradients: dense gradients; pieces refer to their memory, in its order.
            worker: worker of these gradients.
        """
        flats = [_flat(gradient) for gradient in gradients]
        for piece in self._pieces:
            term = flats[piece.gradient][piece.start : piece.stop]
            if worker > piece.first:
                scale(term, self._num_workers, piece.kept[self._num_workers - 1 - worker])
                continue
            for start in range(0, term.numel(), BLOCK_ELEMENTS):
                block = slice(start, start + BLOCK_ELEMENTS)
                self._add(piece, term, block, worker)

    def _add(self, piece: Piece, term: torch.Tensor, block: slice, worker: int) -> None:
        total, own = piece.total[block], term[block]
        if worker == piece.first:
            scale(own, self._num_workers, total)
        else:
            scaled = self._scratch[: own.numel()]
            # Product and sum are rounded one after the other, as in stock training. ``add_`` with
            # ``alpha`` may round only once.
            scale(own, self._num_workers, scaled)
            total.add_(scaled)
        if worker == 0:
            # After worker 0 the ring goes on with the last worker, whose term is in the first row.
            for later in piece.kept:
                total.add_(later[block])


class CompiledPieces:
    """Pieces that one call of the C library sums."""

    def __init__(
        self, kernel: Callable[..., None], pieces: Sequence[Piece], num_workers: int
    ) -> None:
        """Prepare the pieces, all float32. Args: ``kernel``: ``elastrace_take`` of the library; the
        rest: as for ``TorchPieces``."""
        self._kernel = kernel
        self._memory = [(piece.total, piece.kept) for piece in pieces]
        """Memory to which the table points, kept alive."""
        self._table = np.array(
            [
                (
                    *(piece.gradient, piece.start, piece.stop - piece.start, piece.first),
                    *(piece.total.data_ptr(), piece.kept.data_ptr(), piece.kept.stride(0)),
                )
                for piece in pieces
            ],
            np.int64,
        )
        num_gradients = max((piece.gradient + 1 for piece in pieces), default=0)
        self._pointers = (ctypes.c_void_p * num_gradients)()
        # Prepare the arguments now: the call comes during a backward pass, with cold caches.
        self._before = (self._table.ctypes.data, len(self._table), self._pointers)
        # The call rounds it to float32, as ``torch.mul`` does with its factor.
        self._factor = 1.0 / num_workers
        self._num_workers = num_workers

    def take(self, gradients: Sequence[torch.Tensor], worker: int) -> None:
        """See ``TorchPieces``."""
        for number, gradient in enumerate(gradients):
            self._pointers[number] = gradient.data_ptr()
        self._kernel(*self._before, self._factor, worker, self._num_workers)


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    """Return a dense tensor as a flat one, in the order of its memory."""
    if gradient.is_contiguous():
        return gradient.view(-1)
    return gradient.as_strided((gradient.numel(),), (1,))


def pieces_of(pieces: Sequence[Piece], num_workers: int) -> CompiledPieces | TorchPieces:
    """Return the fastest implementation for these pieces."""
    if _KERNEL is not None and all(piece.total.dtype == torch.float32 for piece in pieces):
        return CompiledPieces(_KERNEL, pieces, num_workers)
    return TorchPieces(pieces, num_workers)


def load() -> Callable[..., None] | None:
    """Return the compiled function; None if there is none."""
    found = find_spec(LIBRARY)
    if found is None or found.origin is None:
        return None
    kernel: Any = ctypes.CDLL(found.origin).elastrace_take
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    kernel.argtypes = [pointer, number, pointer, ctypes.c_float, number, number]
    kernel.restype = None
    return kernel  # type: ignore[no-any-return]


_KERNEL = load()
