"""Wide: a network with any amount of state, to measure the cost of moving it."""

from __future__ import annotations

from workloads.toy import Toy

BYTES_PER_UNIT = 2 * 4 * 75
"""Bytes of a hidden unit: 64 weights, a bias, 10 outgoing weights; each a float with a momentum."""


class Wide(Toy):
    """The toy network made wide: its parameters and momentum are ``state_bytes`` large.

    A step computes and reduces in proportion to the state, as in large models. With a small batch
    the activations stay small compared with it.
    """

    name = "wide"

    def __init__(
        self,
        *,
        state_bytes: int = 10_000_000,
        size: str = "tiny",
        evaluation_samples: int | None = 32,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            state_bytes: bytes of parameters and optimizer state together, rounded down to units.
            size: ``tiny``, the only one.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: an option is out of range.
            DataError: scikit-learn's digits are not in their usual place.
        """
        hidden = int(state_bytes) // BYTES_PER_UNIT
        if hidden < 1:
            raise ValueError(
                f"state_bytes is {state_bytes}; a network has at least {BYTES_PER_UNIT}"
            )
        # A wider network sums more terms and needs smaller steps to stay stable.
        super().__init__(
            size=size,
            hidden=hidden,
            learning_rate=min(0.05, 50.0 / hidden),
            evaluation_samples=evaluation_samples,
        )
