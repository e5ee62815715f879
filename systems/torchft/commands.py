"""Commands of the driver to a replica, and those among them that all replicas obey."""

from __future__ import annotations

from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import SetTarget, Stop
from systems.runtime.wire.protocol import Message
from systems.torchft.membership import Quorum
from systems.torchft.order import Target
from systems.torchft.step_words import Words

TARGET_TIMEOUT_S = 60.0
"""Longest wait for a target that the driver has sent to another replica already."""


class Commands:
    """Commands that have arrived, and those that are in force.

    The driver sends every command to all replicas. The first replica's words say which of them are
    in force, so all replicas obey a command after the same step.
    """

    def __init__(self, client: ControlClient, target_step: int) -> None:
        self.stop = False
        """True if the driver wants the job to end now."""
        self.target_step = target_step
        """Last step of the job, as this replica knows it."""
        self.newest = 0
        """Number of the newest target that has arrived."""
        self.obeyed = 0
        """Number of the target in force; 0: none."""
        self.target: Target | None = None
        """Target in force; None if there is none, or if it did not concern this replica."""
        self._client = client
        self._targets: dict[int, Target] = {}

    def hear(self) -> None:
        """Take the messages that have arrived."""
        for message in self._client.arrived():
            self._take(message)

    def obey(self, words: Words) -> bool:
        """Put the commands of a step's words into force; return whether there is a new target.

        Raises:
            ControlError: a target that the words name does not arrive.
        """
        self.target_step = words.target_step
        is_new = words.target > self.obeyed
        if is_new:
            # The driver has sent it to all replicas at once, but to the first one first.
            while words.target not in self._targets:
                self._take(self._client.next_message(TARGET_TIMEOUT_S))
            self.adopt(words.target)
        return is_new

    def adopt(self, number: int) -> None:
        """Put a target into force that another replica obeys."""
        self.obeyed = number
        self.target = self._targets.get(number)
        self._targets = {key: value for key, value in self._targets.items() if key >= number}

    def batch(self, quorum: Quorum, before: int) -> int:
        """Return the batch of a quorum's step; ``before`` is that of the last step.

        A target's batch holds once exactly its members train. It also holds if more replicas than
        the last batch has samples train already, because not all of the members came together.
        """
        target = self.target
        if target is None:
            return before
        is_there = quorum.is_whole and set(quorum.members) == set(target.members)
        return target.global_batch if is_there or quorum.num_workers > before else before

    @property
    def leaving(self) -> tuple[int, ...]:
        """Replicas that leave now."""
        return self.target.leaving if self.target is not None else ()

    def _take(self, message: Message) -> None:
        match message:
            case Stop():
                self.stop = True
            case SetTarget():
                self.target_step = message.target_step
            case Target():
                self._targets[message.number] = message
                self.newest = max(self.newest, message.number)
