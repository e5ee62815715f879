"""Broadcast of the whole state from one member of a group to all others, as EDL does it.

Source: EDL, section 4.2 (papers/systems.md, 1.4, step 6): one worker broadcasts model and optimizer
to the new ones while all others wait.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from systems.elastic.transfer.receiver import Received
from systems.elastic.transfer.training_state import TrainingState
from systems.runtime.tensors.memory import as_bytes, split

PACK_BYTES = 8 << 20
"""Smaller tensors are packed; a pack is sent once it has reached this size."""


class Pending(Protocol):
    """An operation under way."""

    def wait(self) -> None:
        """Wait for the operation's end."""


class Group(Protocol):
    """The part of ``systems.runtime.wire.groups.Group`` that a broadcast uses."""

    @property
    def rank(self) -> int:
        """Rank of this member."""

    def broadcast(self, tensor: torch.Tensor, root: int) -> Pending:
        """Broadcast the tensor from ``root`` to all, in place."""


def broadcast_state(
    group: Group, state: TrainingState, root: int, step: int, values: Mapping[str, Any]
) -> Received:
    """Give all members the root's state; all members call it between two steps.

    Args:
        group: group of the members.
        state: read at the root, filled everywhere else.
        root: rank of the member whose state it is.
        step: number of steps executed; only the root's counts.
        values: other values that all must know, in the form that JSON can hold; only the root's
            count.

    Returns:
        The root's step and values.

    Raises:
        StateMismatch: the states do not fit.
        GroupLost: the group was given up.
    """
    is_root = group.rank == root
    words = {
        "step": step,
        "values": dict(values),
        "optimizer": state.values(),
        "description": state.describe(),
    }
    text = json.dumps(words if is_root else None).encode()
    # The length first: only the root knows how much the others have to receive.
    length = torch.tensor([len(text)], dtype=torch.int64)
    group.broadcast(length, root).wait()
    message = torch.zeros(int(length), dtype=torch.uint8)
    if is_root:
        message.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    group.broadcast(message, root).wait()
    words = json.loads(bytes(message.numpy()))
    if not is_root:
        # Before any tensor: members cut the same packs only if their optimizers keep the same
        # tensors.
        state.prepare_like(words["description"])
    _broadcast_tensors(group, state, root, is_root)
    if not is_root:
        state.load_values(words["optimizer"])
    return Received(words["step"], words["values"])


def _broadcast_tensors(group: Group, state: TrainingState, root: int, is_root: bool) -> None:
    """Broadcast large tensors as they are, and small tensors packed, one message at a time."""
    pack: list[torch.Tensor] = []

    def send_pack() -> None:
        if not pack:
            return
        packed = (  # in the host's memory, wherever the tensors are
            torch.cat([memory.cpu() for memory in pack])
            if is_root
            else torch.empty(sum(map(torch.numel, pack)), dtype=torch.uint8)
        )
        group.broadcast(packed, root).wait()
        if not is_root:
            torch._foreach_copy_(pack, split(packed, pack))
        pack.clear()

    for tensor in state.tensors:
        memory = as_bytes(tensor)
        if memory.numel() >= PACK_BYTES:
            group.broadcast(memory, root).wait()
            continue
        pack.append(memory)
        if sum(map(torch.numel, pack)) >= PACK_BYTES:
            send_pack()
    send_pack()
