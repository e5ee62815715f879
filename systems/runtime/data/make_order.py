"""Choice of a job's order of samples by its name."""

from __future__ import annotations

from systems.runtime.data.block_order import BlockOrder
from systems.runtime.data.position_order import PositionOrder
from systems.runtime.wire.data_order import DataOrder


def data_order(kind: str, seed: int, num_samples: int, block_samples: int) -> DataOrder:
    """Return the order called ``kind``.

    Args:
        kind: ``positions`` or ``blocks``.
        seed: seed of the job.
        num_samples: samples of an epoch.
        block_samples: samples of a block; only ``blocks`` needs it.

    Raises:
        ValueError: the kind is unknown, or the numbers are invalid.
    """
    if kind == PositionOrder.kind:
        return PositionOrder(seed, num_samples)
    if kind == BlockOrder.kind:
        return BlockOrder(seed, num_samples, block_samples)
    raise ValueError(f"data order {kind!r} is unknown; known: {PositionOrder.kind}, blocks")
