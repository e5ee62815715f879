"""Sending of a member's state to joiners and to workers that are behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.donor import Donor
from systems.elastic.transfer.listing import Listing
from systems.elastic.transfer.peer import send_state
from systems.elastic.transfer.training_state import TrainingState, is_elementwise
from systems.elastic.wire.order import ElasticOrder
from systems.runtime.reduction.ordered import OrderedReduction
from systems.runtime.wire.protocol import ControlError

END_TIMEOUT_S = 30.0
_LIST_AT = 20
"""Number of the worker's step before which its state is listed, which takes some milliseconds.

By then a change that brought the worker is over.
"""
Addresses = Sequence[tuple[str, int]]


class StateSender:
    """One worker's sending side, with at most one transfer at a time.

    ``connect`` and ``cancel`` may be called from any thread.
    """

    def __init__(
        self,
        state: TrainingState,
        reduction: OrderedReduction,
        token: str,
        order: ElasticOrder,
        on_failed: Callable[[int, str], None],
    ) -> None:
        """Make the sending side.

        Args:
            state: the state to give.
            reduction: reduction of the gradients, with their layout.
            token: secret that receivers expect.
            order: this worker's part in the job.
            on_failed: called on the training thread with the generation whose members did not all
                get the state, and with the reason.

        Raises:
            ControlError: ``transfer=background`` could give a wrong state with this optimizer.
        """
        if order.transfer == "background" and not is_elementwise(state.optimizer):
            raise ControlError(
                "transfer=background replays gradients on a state that is only partly there, and"
                f" {type(state.optimizer).__name__} is not known to allow that; use transfer=peer"
            )
        self._state = state
        self._reduction = reduction
        self._token = token
        self._timeout_s = order.recovery_timeout_s
        self._on_failed = on_failed
        self._listing: Listing | None = None
        self._num_steps = 0
        self._is_background = order.transfer == "background"
        self._wanted: Addresses = ()
        self._generation = 0
        """Generation for which the state is given."""
        self._is_cancelled = False
        self._keeps_gradients = True
        self.donor: Donor | None = None

    def connect(self, addresses: Addresses, generation: int) -> None:
        """Give the state to receivers from the next step boundary on, for a generation to come."""
        self._generation, self._wanted = generation, addresses
        self._is_cancelled = False  # last: else a cancelled transfer could be told as failed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe an update: whether it changes gradients in place, as clipping does.

        That decides how a donor may send them, and only the update itself shows it.
        """
        buckets = self._reduction.buckets
        before = [bucket._version for bucket in buckets]
        yield
        if [bucket._version for bucket in buckets] != before:
            self._keeps_gradients = False

    def present(self) -> Donor | None:
        """Return the transfer under way, if any, which must see every update.

        To be called once before each step. It also lists the state before one of the first steps.
        """
        self._num_steps += 1
        if self._num_steps == _LIST_AT and self._is_background:
            self._current_listing().make()
        if self._wanted:
            addresses, self._wanted = self._wanted, ()
            if self.donor is not None:
                self.donor.cancel()
            self.donor = Donor(
                addresses,
                self._token,
                self._current_listing(),
                timeout_s=self._timeout_s,
                keeps_gradients=self._keeps_gradients,
            )
        donor = self.donor
        if donor is not None and (donor.finished or donor.failed is not None):
            if donor.failed is not None and not self._is_cancelled:
                self._on_failed(self._generation, str(donor.failed))
            donor.cancel()  # also for joiners that have not failed: updates end here
            self.donor = donor = None
        return donor

    def _current_listing(self) -> Listing:
        listing = self._listing
        if listing is None or listing.layout != tuple(self._reduction.layout):
            self._listing = listing = Listing(self._state, self._reduction.layout)
        return listing

    def send(
        self, addresses: Addresses, generation: int, step: int, values: Mapping[str, Any]
    ) -> None:
        """Send the whole state at once, between two steps, for a generation.

        A failure is reported, since a receiver may still be waiting for the state.
        """
        try:
            send_state(addresses, self._token, self._state, step, values, timeout_s=self._timeout_s)
        except TransferError as error:
            self._on_failed(generation, str(error))

    def cancel(self) -> None:
        """Stop giving the state."""
        self._is_cancelled = True
        self._wanted = ()
        donor = self.donor
        if donor is not None:
            donor.cancel()

    def end(self) -> None:
        """Wait until the transfer under way has arrived, since this worker leaves."""
        if self.donor is not None:
            self.donor.join(END_TIMEOUT_S)
