"""What a donor says of its state, made before anyone asks and kept from transfer to transfer.

To list a state takes Python some microseconds for each tensor, milliseconds in all, and the
training thread waits for the interpreter as long as another thread has it, on whichever core
that runs. What is listed is where tensors lie and what they are, not what they hold, and so it
is seldom out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.frame import Frame
from systems.elastic.transfer.memory import as_bytes
from systems.elastic.transfer.pieces import Piece, bucket_names, cut
from systems.elastic.transfer.training_state import Held, TrainingState
from systems.runtime.bucket_layouts import described
from systems.runtime.reduction import BucketLayout

PIECE_BYTES = 4 << 20


class ListedPiece:
    """A piece and, once it was asked for, its frame."""

    def __init__(self, piece: Piece, state: TrainingState) -> None:
        self.buckets = piece.buckets
        """Whose parameters are in it."""
        self._parts = piece.parts
        self._state = state
        self._made: tuple[list[Held | None], Frame] | None = None

    def frame(self) -> Frame:
        """What is sent of it, with the live tensors as its payload: of this moment, so that it is
        of one version if no update came during the call."""
        held = [self._state.held(part.index) for part in self._parts]
        made = self._made
        if made is None or not all(map(_is_still, held, made[0])):
            entries, views = zip(*map(self._state.read, self._parts), strict=True)
            payload = [as_bytes(view) for own in views for view in own]
            self._made = made = (held, Frame({"kind": "piece", "parts": entries}, payload))
        return made[1]


class Listing:
    """The frames of a state, for any number of transfers."""

    def __init__(
        self,
        state: TrainingState,
        layout: Sequence[BucketLayout],
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """Args:
        state: the live state.
        layout: what the gradient buckets hold.
        piece_bytes: most that is copied while the training thread may have to wait.
        """
        self.state = state
        self.layout = tuple(layout)
        self._piece_bytes = piece_bytes
        self._pieces: list[ListedPiece] = []
        self._num_kept = -1

    @cached_property
    def form(self) -> Frame:
        """With which a transfer begins: what must agree. What the optimizer keeps is not in it.

        Raises:
            TypeError: the state cannot be given.
        """
        names = described(bucket_names(self.state, self.layout))
        return Frame({"kind": "form", "description": self.state.describe(), "layout": names})

    def pieces(self) -> list[ListedPiece]:
        """The whole state but for buffers."""
        num_kept = sum(map(len, self.state.optimizer.state.values()))
        if num_kept != self._num_kept:  # an optimizer makes its state at the first update
            pieces = cut(self.state, self.layout, self._piece_bytes)
            self._pieces = [ListedPiece(piece, self.state) for piece in pieces]
            self._num_kept = num_kept
        return self._pieces

    def make(self) -> None:
        """List everything, between two updates. What cannot be given fails when it is asked for."""
        with suppress(TypeError, TransferError):
            _ = self.form.pulled
            for piece in self.pieces():
                _ = piece.frame().pulled


def _is_still(now: Held | None, before: Held | None) -> bool:
    return now is not None and before is not None and now.is_still(before)
