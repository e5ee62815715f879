"""What goes to all receivers at once, encoded when it is first sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from systems.elastic.transfer.channel import encode
from systems.elastic.transfer.memory import regions


class Frame:
    """A header, and the memory of byte tensors."""

    def __init__(self, header: Mapping[str, Any], payload: Sequence[torch.Tensor] = ()) -> None:
        self.header = header
        self.payload = payload
        self.has_payload = bool(payload)

    @cached_property
    def streamed(self) -> bytes:
        """The header for a receiver whom the payload is sent to.

        Raises:
            TransferError: it is too long, or holds something that JSON cannot say.
        """
        return encode(self.header)

    @cached_property
    def pulled(self) -> bytes:
        """The header for one that reads the payload itself; raises as ``streamed``."""
        if not self.payload:
            return self.streamed
        return encode({**self.header, "memory": regions(self.payload)})

    def in_place(self) -> Frame:
        """The same for receivers that all read the payload, which it does not keep alive; raises
        as ``streamed``."""
        frame = Frame(self.header)
        frame.pulled, frame.has_payload = self.pulled, self.has_payload
        return frame
