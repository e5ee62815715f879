"""The side of a present member that gives its state to joiners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from systems.elastic.order import ElasticOrder
from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.donor import Donor
from systems.elastic.transfer.listing import Listing
from systems.elastic.transfer.peer import send_state
from systems.elastic.transfer.training_state import TrainingState, is_elementwise
from systems.runtime.control import ControlError
from systems.runtime.reduction import OrderedReduction

END_TIMEOUT_S = 30.0
_LIST_AT = 20
"""Before which of a worker's steps its state is listed, which takes some milliseconds: late enough
that a change which brought the worker is over."""
Addresses = Sequence[tuple[str, int]]


class Giving:
    """At most one transfer at a time. ``connect`` and ``cancel`` may come from any thread."""

    def __init__(
        self,
        state: TrainingState,
        reduction: OrderedReduction,
        token: str,
        order: ElasticOrder,
        on_failed: Callable[[int, str], None],
    ) -> None:
        """``on_failed``: called with the generation whose members did not all get the state, and
        the reason; on the training thread.

        Raises:
            ControlError: ``transfer=background`` would not give the right state.
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
        """For which the state is given."""
        self._is_cancelled = False
        self._keeps_gradients = True
        self.donor: Donor | None = None

    def connect(self, addresses: Addresses, generation: int) -> None:
        """Give the state to these receivers, from the next step boundary on, so that they can
        train in this generation."""
        self._generation, self._wanted = generation, addresses
        self._is_cancelled = False  # last: what was cancelled before has not failed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around an update. Whether it changes gradients in place, as one that clips them does,
        decides how a donor may send them; only the update itself shows it."""
        buckets = self._reduction.buckets
        before = [bucket._version for bucket in buckets]
        yield
        if [bucket._version for bucket in buckets] != before:
            self._keeps_gradients = False

    def present(self) -> Donor | None:
        """The transfer under way, which has to see every update. Call it once before each step: it
        also lists the state before one of the first."""
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
            donor.cancel()  # for joiners that have not failed: it sees no more updates
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
        """Give the whole state at once, between two steps, for this generation.

        Whom it did not reach may still be waiting for it, so the failure is told.
        """
        try:
            send_state(addresses, self._token, self._state, step, values, timeout_s=self._timeout_s)
        except TransferError as error:
            self._on_failed(generation, str(error))

    def cancel(self) -> None:
        """Give nothing any more."""
        self._is_cancelled = True
        self._wanted = ()
        donor = self.donor
        if donor is not None:
            donor.cancel()

    def end(self) -> None:
        """This worker leaves: wait until what it has begun to give has arrived."""
        if self.donor is not None:
            self.donor.join(END_TIMEOUT_S)
