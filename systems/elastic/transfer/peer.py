"""Transfer of the whole state over one connection between two steps, while no worker changes it.

A joiner gets its state this way at the switch (``transfer=peer``), and a survivor of a fault gets
it from another. It is right for every optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.donor import TIMEOUT_S
from systems.elastic.transfer.frame import Frame
from systems.elastic.transfer.links import Links
from systems.elastic.transfer.training_state import Part, TrainingState
from systems.runtime.tensors.memory import as_bytes

_PARTS_PER_FRAME = 64


def send_state(
    addresses: Sequence[tuple[str, int]],
    token: str,
    state: TrainingState,
    step: int,
    values: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    share_memory: bool = True,
) -> None:
    """Send the state to every receiver, straight from its memory; return when all have it.

    Args:
        addresses: where the receivers listen.
        token: token that the receivers expect.
        state: must not change meanwhile.
        step: number of steps executed.
        values: other values that receivers must know, in the form that JSON can hold.
        timeout_s: a receiver that does nothing for this time has failed.
        share_memory: let receivers on this host read this process's memory.

    Raises:
        TransferError: a receiver has failed; the others have the state.
    """
    links = Links(addresses, token, timeout_s, share_memory=share_memory)
    try:
        links.connect(Frame({"kind": "form", "description": state.describe()}))
        optimizer = state.values()
        links.send(Frame({"kind": "start", "values": optimizer}))
        parts = [Part(i, 0, tensor.numel()) for i, tensor in enumerate(state.parameters)]
        for first in range(0, len(parts), _PARTS_PER_FRAME):
            read = [state.read(part) for part in parts[first : first + _PARTS_PER_FRAME]]
            entries = [entry for entry, _ in read]
            payload = [as_bytes(view.cpu()) for _, views in read for view in views]
            links.send(Frame({"kind": "piece", "parts": entries}, payload))
        header = {"kind": "finish", "step": step, "values": dict(values), "optimizer": optimizer}
        links.send(Frame(header, [memory.cpu() for memory in state.buffer_memory]))
        links.wait(lambda link: not link.is_done)
    finally:
        links.close()
    for (host, port), error in links.failures.items():
        raise TransferError(f"the state did not reach {host}:{port}: {error}") from error
