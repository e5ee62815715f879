"""Backup of a worker's own training state while another worker's is written over it.

The other worker may die before all of its state is here. A half-written state is useless, but the
own state, a step behind, is still good.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from systems.elastic.transfer.training_state import TrainingState


@contextmanager
def kept(state: TrainingState) -> Iterator[None]:
    """Restore the state, bit by bit, if the body raises.

    Costs a copy of the state in host memory meanwhile.
    """
    optimizer = state.optimizer
    tensors = [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in state.tensors]
    entries = {parameter: dict(entry) for parameter, entry in optimizer.state.items()}
    values = state.values()
    try:
        yield
    except BaseException:
        # First the tensors, since the transfer may have given the optimizer others; then their
        # values.
        optimizer.state.clear()
        optimizer.state.update(entries)
        with torch.no_grad():
            for tensor, copy in tensors:
                tensor.copy_(copy)
        state.load_values(values)
        raise
