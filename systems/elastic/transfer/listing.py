"""What a donor says of its state, made before anyone asks and kept from transfer to transfer.

To list a state takes Python some microseconds for each tensor, milliseconds in all, and the
training thread waits for the interpreter as long as another thread has it, on whichever core
that runs. What is listed is where tensors lie and what they are, not what they hold, and so it
is seldom out of date. No tensor is kept alive by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from systems.elastic.transfer.frame import Frame
from systems.elastic.transfer.memory import as_bytes
from systems.elastic.transfer.pieces import READ, STAGED, Limits, Piece, bucket_names, cut
from systems.elastic.transfer.training_state import Held, TrainingState
from systems.runtime.bucket_layouts import described
from systems.runtime.reduction import BucketLayout


class ListedPiece:
    """A piece and, once it was asked for, what is sent to those who read it themselves."""

    def __init__(self, piece: Piece, state: TrainingState) -> None:
        self.buckets = piece.buckets
        """Whose parameters are in it."""
        self._parts = piece.parts
        self._state = state
        self._made: tuple[list[Held | None], Frame] | None = None

    def read(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Its header, and the live tensors as bytes: of one version if no update came during the
        call.

        Raises:
            TypeError: they cannot be given.
        """
        entries, views = zip(*map(self._state.read, self._parts), strict=True)
        sources = [as_bytes(view) for own in views for view in own]
        return {"kind": "piece", "parts": entries}, sources

    def frame(self) -> Frame:
        """What is sent of it where it lies: of this moment, as ``read``, and raising as that."""
        parts = self._parts
        made = self._made
        if made is not None and all(
            held is not None and self._state.is_still(part.index, held)
            for part, held in zip(parts, made[0], strict=True)
        ):
            return made[1]
        held = [self._state.held(part.index) for part in parts]
        self._made = made = (held, Frame(*self.read()).in_place())
        return made[1]


class Listing:
    """What is said of a state, for any number of transfers."""

    def __init__(
        self,
        state: TrainingState,
        layout: Sequence[BucketLayout],
        read: Limits = READ,
        staged: Limits = STAGED,
    ) -> None:
        """Args:
        state: the live state.
        layout: what the gradient buckets hold.
        read: of pieces that receivers read where they lie.
        staged: of pieces that are copied while the training thread may have to wait.
        """
        self.state = state
        self.layout = tuple(layout)
        self._limits = {True: read, False: staged}
        self._form: tuple[list[Any], Frame] | None = None
        self._pieces: dict[bool, tuple[int, list[ListedPiece]]] = {}

    def form(self) -> Frame:
        """With which a transfer begins: what has to agree.

        Raises:
            TypeError: a tensor's elements lie in an order that cannot be given.
        """
        lie = [(each.data_ptr(), each.stride()) for each in self.state.parameters]
        if self._form is None or self._form[0] != lie:
            names = described(bucket_names(self.state, self.layout))
            description = self.state.describe()
            del description["optimizer"]  # comes with the pieces, as it is by then
            frame = Frame({"kind": "form", "description": description, "layout": names})
            self._form = (lie, frame)
        return self._form[1]

    def pieces(self, *, in_place: bool) -> list[ListedPiece]:
        """The whole state but for buffers.

        Args:
            in_place: cut for receivers that read it where it lies.
        """
        num_kept = sum(map(len, self.state.optimizer.state.values()))
        known = self._pieces.get(in_place)
        if known is None or known[0] != num_kept:  # an optimizer makes its state when it updates
            pieces = cut(self.state, self.layout, self._limits[in_place])
            known = (num_kept, [ListedPiece(piece, self.state) for piece in pieces])
            self._pieces[in_place] = known
        return known[1]

    def make(self) -> None:
        """List beforehand what can be, between two updates."""
        with suppress(Exception):  # whatever it is fails the transfers, which say it; not training
            _ = self.form().streamed
            if self.state.is_on_host:
                for piece in self.pieces(in_place=True):
                    piece.frame()
