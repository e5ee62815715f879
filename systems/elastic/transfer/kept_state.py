"""A worker's own training state, kept while another's is written over it.

Whose state is taken may die before all of it is here. Half of it is no state; the own one, a step
behind, is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from systems.elastic.transfer.training_state import TrainingState


@contextmanager
def kept(state: TrainingState) -> Iterator[None]:
    """Put everything back as it was, bit by bit, where the body raises.

    Costs a copy of the state in host memory meanwhile.
    """
    optimizer = state.optimizer
    tensors = [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in state.tensors]
    entries = {parameter: dict(entry) for parameter, entry in optimizer.state.items()}
    values = state.values()
    try:
        yield
    except BaseException:
        optimizer.state.clear()
        optimizer.state.update(entries)
        with torch.no_grad():
            for tensor, copy in tensors:
                tensor.copy_(copy)
        state.load_values(values)
        raise
