"""Pieces of a state: each is copied at once, under the lock, and sent as one.

A piece has a limited number of bytes and of parts (``STAGED``). This bounds the wait of a thread
that needs the lock, for large tensors and for many small ones. Pieces come in the order of the
gradient buckets: the gradients of a bucket are not sent before its first piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from systems.elastic.transfer.training_state import Part, TrainingState
from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.tensors.memory import flat


class Limits(NamedTuple):
    """Most bytes and parts in a piece."""

    num_bytes: int
    num_parts: int
    """Most parts; a part costs some microseconds, however small it is."""


READ = Limits(4 << 20, 192)
"""Limits of a piece that receivers read in place, for which no thread waits.

Larger pieces need fewer messages, but a piece that an update tears is read again.
"""
STAGED = Limits(2 << 20, 48)
"""Limits of a piece that is copied under the lock."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Parts that are copied at one instant."""

    parts: tuple[Part, ...]
    buckets: frozenset[int]
    """Numbers of the buckets whose parameters are in the piece."""


def cut(state: TrainingState, layout: Sequence[BucketLayout], limits: Limits) -> list[Piece]:
    """Return the pieces of the whole state except buffers, bucket by bucket.

    Parameters that are in no bucket come last.
    """
    pieces: list[Piece] = []
    parts: list[Part] = []
    buckets: set[int] = set()
    room = limits.num_bytes

    def close() -> None:
        nonlocal room
        if parts:
            pieces.append(Piece(tuple(parts), frozenset(buckets)))
        parts.clear()
        buckets.clear()
        room = limits.num_bytes

    bucketed = {index for bucket in layout for index in bucket.parameters}
    rest = [index for index in range(len(state.parameters)) if index not in bucketed]
    for number, indices in [
        *((number, bucket.parameters) for number, bucket in enumerate(layout)),
        (None, rest),
    ]:
        for index in indices:
            numel = state.parameters[index].numel()
            width = max(1, _bytes_an_element(state, index))
            start = 0
            # A parameter without elements has one part, too: the first part carries the counters.
            while start < numel or (start == 0 and numel == 0):
                count = min(numel - start, room // width)
                if (count == 0 and numel) or len(parts) == limits.num_parts:
                    close()
                    count = min(numel - start, max(1, room // width))
                parts.append(Part(index, start, start + count))
                if number is not None:
                    buckets.add(number)
                room -= count * width
                start += max(1, count)
    close()
    return pieces


def _bytes_an_element(state: TrainingState, index: int) -> int:
    """Return the bytes per element of a parameter and of optimizer state in its shape."""
    parameter = state.parameters[index]
    if index >= state.num_owned:
        return parameter.element_size()
    return parameter.element_size() + sum(
        value.element_size()
        for value in list(state.optimizer.state.get(parameter, {}).values())
        if isinstance(value, torch.Tensor) and value.shape == parameter.shape
    )


def bucket_names(state: TrainingState, layout: Sequence[BucketLayout]) -> list[list[str]]:
    """Return the names of the parameters of each bucket."""
    return [[state.names[index] for index in bucket.parameters] for bucket in layout]


def gradient_views(
    state: TrainingState, layout: Sequence[BucketLayout], buckets: Sequence[torch.Tensor]
) -> dict[int, torch.Tensor]:
    """Return every parameter's gradient as a view into its bucket, with the parameter's strides."""
    views: dict[int, torch.Tensor] = {}
    for bucket, memory in zip(layout, buckets, strict=True):
        at = 0
        for index in bucket.parameters:
            parameter = state.parameters[index]
            here = flat(memory)[at : at + parameter.numel()]
            views[index] = here.as_strided(parameter.shape, parameter.stride())
            at += parameter.numel()
    return views
