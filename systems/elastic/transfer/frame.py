"""Message that goes to all receivers at once, encoded when it is first sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from systems.elastic.transfer.channel import encode
from systems.runtime.tensors.memory import regions


class Frame:
    """A header, and the memory of byte tensors."""

    def __init__(self, header: Mapping[str, Any], payload: Sequence[torch.Tensor] = ()) -> None:
        self.header = header
        self.payload = payload
        self.has_payload = bool(payload)

    @cached_property
    def streamed(self) -> bytes:
        """Header for a receiver that the payload is sent to.

        Raises:
            TransferError: it is too long, or holds something that JSON cannot hold.
        """
        return encode(self.header)

    @cached_property
    def pulled(self) -> bytes:
        """Header for a receiver that reads the payload from memory itself.

        Raises:
            TransferError: as for ``streamed``.
        """
        if not self.payload:
            return self.streamed
        return encode({**self.header, "memory": regions(self.payload)})

    def in_place(self) -> Frame:
        """Return this frame without its payload, for receivers that read the payload themselves.

        The new frame does not keep the payload alive.

        Raises:
            TransferError: as for ``streamed``.
        """
        frame = Frame(self.header)
        frame.pulled, frame.has_payload = self.pulled, self.has_payload
        return frame
