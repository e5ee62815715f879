"""Words that all replicas exchange in each step: the first replica's commands, and the loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from systems.torchft.membership import Membership, Waiting

_NUM_WORDS = 5


@dataclass(frozen=True, slots=True)
class Words:
    """Facts that all replicas know at the end of a step."""

    stop: bool
    """True if the job must be saved and end now."""
    target_step: int
    target: int
    """Number of the membership that the driver wants, see ``Target``."""
    late: bool
    """True if the first replica's step was late, in a paced job."""
    loss: float
    """Mean loss over the global batch; in what is sent, this replica's part of it."""


class StepWords:
    """Exchange of words. All commands come from the first replica, so that all obey alike."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._tensor = torch.zeros(_NUM_WORDS, dtype=torch.float64)
        self._sum: Waiting | None = None

    def begin(self, words: Words, *, is_first: bool) -> None:
        """Send this replica's words; of other replicas than the first, only the loss counts."""
        commands = [float(words.stop), float(words.target_step), float(words.target)]
        own = [*commands, float(words.late)] if is_first else [0.0] * (_NUM_WORDS - 1)
        # New memory in each step, since a failed sum may still write to the old one.
        self._tensor = torch.tensor([*own, words.loss], dtype=torch.float64)
        self._sum = self._membership.sum(self._tensor)

    def end(self) -> Words:
        """Wait for the words of all replicas that train.

        Raises:
            GroupLost: the step has failed.
        """
        assert self._sum is not None
        work, self._sum = self._sum, None
        self._membership.wait([work])
        stop, target_step, target, late, loss = self._tensor.tolist()
        return Words(stop > 0, int(target_step), int(target), late > 0, loss)

    def drop(self) -> None:
        """Forget a sum that nothing will wait for."""
        self._sum = None
