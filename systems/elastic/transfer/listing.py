"""A donor's description of its state, made in advance and kept from transfer to transfer.

Python takes some microseconds to list each tensor, milliseconds in all. Meanwhile the training
thread waits for the interpreter lock, whichever core the listing runs on. A listing says where
tensors lie and what they are, not what they hold, so it is seldom out of date. It keeps no tensor
alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from systems.elastic.transfer.frame import Frame
from systems.elastic.transfer.pieces import READ, STAGED, Limits, Piece, bucket_names, cut
from systems.elastic.transfer.training_state import Held, TrainingState
from systems.runtime.reduction.bucket_layouts import described
from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.tensors.memory import as_bytes


class ListedPiece:
    """A piece and, once asked for, its frame for receivers that read memory themselves."""

    def __init__(self, piece: Piece, state: TrainingState) -> None:
        self.buckets = piece.buckets
        """Numbers of the buckets whose parameters are in the piece."""
        self._parts = piece.parts
        self._state = state
        self._made: tuple[list[Held | None], Frame] | None = None

    def read(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Return the piece's header, and its live tensors as bytes.

        They are of one version if no update came during the call.

        Raises:
            TypeError: the elements of a tensor lie in an order that cannot be sent.
        """
        entries, views = zip(*map(self._state.read, self._parts), strict=True)
        sources = [as_bytes(view) for own in views for view in own]
        return {"kind": "piece", "parts": entries}, sources

    def frame(self) -> Frame:
        """Return the frame of the piece in place; the last one if nothing has moved since.

        Raises:
            TypeError: as for ``read``.
        """
        parts = self._parts
        made = self._made
        if made is not None and all(
            held is not None and self._state.is_still(part.index, held)
            for part, held in zip(parts, made[0], strict=True)
        ):
            return made[1]
        # Before the tensors are read: one that moves in between is found at the next look.
        held = [self._state.held(part.index) for part in parts]
        self._made = made = (held, Frame(*self.read()).in_place())
        return made[1]


class Listing:
    """Description of a state, for any number of transfers."""

    def __init__(
        self,
        state: TrainingState,
        layout: Sequence[BucketLayout],
        read: Limits = READ,
        staged: Limits = STAGED,
    ) -> None:
        """Prepare to list.

        Args:
            state: the live state.
            layout: parameters in each gradient bucket.
            read: limits of pieces that receivers read in place.
            staged: limits of pieces that are copied while the training thread may have to wait.
        """
        self.state = state
        self.layout = tuple(layout)
        self._limits = {True: read, False: staged}
        self._form: tuple[list[Any], Frame] | None = None
        self._pieces: dict[bool, tuple[int, list[ListedPiece]]] = {}

    def form(self) -> Frame:
        """Return the frame with which a transfer begins: what must be the same on both sides.

        Raises:
            TypeError: a tensor's elements lie in an order that cannot be sent.
        """
        lie = [(each.data_ptr(), each.stride()) for each in self.state.parameters]
        if self._form is None or self._form[0] != lie:
            names = described(bucket_names(self.state, self.layout))
            description = self.state.describe()
            del description["optimizer"]  # each piece describes it, since it may change until then
            frame = Frame({"kind": "form", "description": description, "layout": names})
            self._form = (lie, frame)
        return self._form[1]

    def pieces(self, *, in_place: bool) -> list[ListedPiece]:
        """Return the pieces of the whole state except buffers.

        Args:
            in_place: whether they are cut for receivers that read them in place.
        """
        num_kept = sum(map(len, self.state.optimizer.state.values()))
        known = self._pieces.get(in_place)
        if known is None or known[0] != num_kept:  # an optimizer makes its state when it updates
            pieces = cut(self.state, self.layout, self._limits[in_place])
            known = (num_kept, [ListedPiece(piece, self.state) for piece in pieces])
            self._pieces[in_place] = known
        return known[1]

    def make(self) -> None:
        """List in advance, between two updates."""
        with suppress(Exception):  # must not fail training; the transfer meets the error again
            _ = self.form().streamed
            if self.state.is_on_host:
                for piece in self.pieces(in_place=True):
                    piece.frame()
