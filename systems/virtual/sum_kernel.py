"""One worker's gradients: scaled, and added to sums or kept for later.

In C (``sum_kernel.c``) this is one pass over memory and one call for many gradients; in torch it is
a pass for every operation and a call for every block of elements, which makes a tenth of a step of
small models and 2 to 4 % of one of large models. Both give the same bits. The C code is compiled
when the project is installed; where no compiler was there, and for gradients that are not float32,
torch does it.
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
    """Elements of a gradient that are added up in one order."""

    gradient: int
    """Which of the gradients that are taken together."""
    start: int
    stop: int
    """Its elements, in the order of the memory."""
    first: int
    """The worker whose term the sum begins with."""
    total: torch.Tensor
    """Where the sum goes, flat."""
    kept: torch.Tensor
    """Memory for the terms of the workers above ``first``: a row each, the last worker's first."""


class TorchPieces:
    """Pieces that are taken by operations of torch."""

    def __init__(self, pieces: Sequence[Piece], num_workers: int) -> None:
        """Args: what to take in every worker's turn, and how many workers there are."""
        self._pieces = pieces
        self._num_workers = num_workers
        longest = max((piece.stop - piece.start for piece in pieces), default=0)
        dtype = pieces[0].total.dtype if pieces else torch.float32
        self._scratch = torch.empty(min(longest, BLOCK_ELEMENTS), dtype=dtype)

    def take(self, gradients: Sequence[torch.Tensor], worker: int) -> None:
        """Add a worker's gradients to the sums, or keep them; turns go down to worker 0.

        Args:
            gradients: dense; pieces are of their memory, in its order.
            worker: whose they are.
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
            scale(own, self._num_workers, scaled)
            total.add_(scaled)
        if worker == 0:
            for later in piece.kept:
                total.add_(later[block])


class CompiledPieces:
    """The same in one call."""

    def __init__(
        self, kernel: Callable[..., None], pieces: Sequence[Piece], num_workers: int
    ) -> None:
        """Args: ``elastrace_take`` of the library, and as for ``TorchPieces``; float32 alone."""
        self._kernel = kernel
        self._memory = [(piece.total, piece.kept) for piece in pieces]
        """What the table points to."""
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
        # What a call needs is made beforehand: it comes amid a backward pass, with cold caches.
        self._before = (self._table.ctypes.data, len(self._table), self._pointers)
        self._factor = 1.0 / num_workers
        self._num_workers = num_workers

    def take(self, gradients: Sequence[torch.Tensor], worker: int) -> None:
        """See ``TorchPieces``."""
        for number, gradient in enumerate(gradients):
            self._pointers[number] = gradient.data_ptr()
        self._kernel(*self._before, self._factor, worker, self._num_workers)


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    """A dense tensor in the order of its memory."""
    if gradient.is_contiguous():
        return gradient.view(-1)
    return gradient.as_strided((gradient.numel(),), (1,))


def pieces_of(pieces: Sequence[Piece], num_workers: int) -> CompiledPieces | TorchPieces:
    """The fastest way there is to take these."""
    if _KERNEL is not None and all(piece.total.dtype == torch.float32 for piece in pieces):
        return CompiledPieces(_KERNEL, pieces, num_workers)
    return TorchPieces(pieces, num_workers)


def load() -> Callable[..., None] | None:
    """The compiled function; None where there is none."""
    found = find_spec(LIBRARY)
    if found is None or found.origin is None:
        return None
    kernel: Any = ctypes.CDLL(found.origin).elastrace_take
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    kernel.argtypes = [pointer, number, pointer, ctypes.c_float, number, number]
    kernel.restype = None
    return kernel  # type: ignore[no-any-return]


_KERNEL = load()
