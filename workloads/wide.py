"""Wide: as much state as one asks for, for measuring what moving it costs."""

from __future__ import annotations

from workloads.toy import Toy

BYTES_PER_UNIT = 2 * 4 * 75
"""A hidden unit has 64 weights, a bias and 10 outgoing weights, each a float with a momentum."""


class Wide(Toy):
    """The toy network made wide: its parameters and momentum are ``state_bytes`` large.

    A step computes and reduces in proportion to the state, as large models do; with a small
    batch the activations stay small beside it.
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
            state_bytes: of parameters and optimizer state together, rounded down to units.
            size: ``tiny``, the only one.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: options that cannot be.
            DataError: scikit-learn's digits are not where they should be.
        """
        hidden = int(state_bytes) // BYTES_PER_UNIT
        if hidden < 1:
            raise ValueError(
                f"state_bytes is {state_bytes}; a network has at least {BYTES_PER_UNIT}"
            )
        # The wider the network, the smaller the steps that its sums of many terms can bear.
        super().__init__(
            size=size,
            hidden=hidden,
            learning_rate=min(0.05, 50.0 / hidden),
            evaluation_samples=evaluation_samples,
        )
