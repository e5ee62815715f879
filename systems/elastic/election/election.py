"""Leader election among the workers of a job: compare-and-swap on one key that expires.

Source: EDL (Wu et al., TPDS 2022), section 4.1. The key holds ``address|candidate|count``; its
leader increments the count every ``refresh_s``. A candidate that sees the same text for
``expiry_s`` on its own clock may swap in its own. Clocks of two workers are never compared.

Promises while the store can be reached:

- A leader that died is replaced within ``expiry_s + refresh_s`` of its last refresh.
- A leader that resigned, or is dead for certain (``presume_dead``), is replaced at once.
- A leader that was replaced while it was stopped learns that at its next look, at most
  ``refresh_s`` after it runs again. For that long two workers may believe that they lead.

The loss of the store does not depose a leader: no other worker can take the key meanwhile. On a
new store, or on the old one without the key, the leader claims the key again. The others give it
``expiry_s`` to do so, unless it is known to be dead.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable

from systems.elastic.election.election_state import ElectionState
from systems.elastic.election.keystore import KeyStore, StoreLost

# EXPIRY_S is at least twice REFRESH_S: one late refresh must not cost the leader its key.
EXPIRY_S = 3.0
REFRESH_S = 1.0
RETRY_S = 0.1
"""Seconds between two attempts to reach a store."""

_log = logging.getLogger(__name__)


class Election:
    """One worker's part in the leader election, run on a thread of its own."""

    def __init__(
        self,
        make_store: Callable[[], KeyStore],
        key: str,
        me: str,
        expiry_s: float = EXPIRY_S,
        refresh_s: float = REFRESH_S,
        on_leader: Callable[[str], None] = lambda address: None,
        is_candidate: bool = True,
    ) -> None:
        """Begin to take part.

        Args:
            make_store: opens the store. It may raise ``StoreLost``, and is then called again.
            key: the store's key that holds the leader's address.
            me: this worker's address, ``host:port``; no other worker has it.
            expiry_s: longest time that the key may go without a refresh.
            refresh_s: time between two refreshes, and between two looks; at most half of
                ``expiry_s``.
            on_leader: called with the address of every new leader, this worker included, on the
                election's thread. It must be brief: the key is not refreshed meanwhile.
            is_candidate: whether this worker may lead; if not, it only follows until ``stand``.

        Raises:
            ValueError: the times or the address make no sense.
        """
        self._key = key
        self._on_leader = on_leader
        self._clock = time.monotonic
        self.began_at = self._clock()
        self.first_known: tuple[float, str] | None = None
        """Time at which a leader was first known, on ``time.monotonic``, and its address."""
        self._state = ElectionState(me, secrets.token_hex(4), expiry_s, refresh_s, is_candidate)
        # Re-entrant, as the lock of a ``Condition`` is by default: ``_wake`` is called with and
        # without it held.
        self._changed = threading.Condition()
        self._is_awake = False
        self._is_swapping = False
        self._is_lost = False
        """True if the last attempt to reach the store failed."""
        self._is_closed = False
        self._tenure: object = None
        self._told: tuple[str, str] | None = None
        # Last: the thread uses everything above.
        self._thread = self._start(make_store)

    @property
    def leader(self) -> str | None:
        """Address of the leader, as far as this worker knows."""
        with self._changed:
            return self._state.leader_address

    def presume_dead(self, address: str) -> None:
        """Record that the process at an address is dead for certain; if it led, take over now."""
        with self._changed:
            self._state.presume_dead(address, self._clock())
            self._wake()

    def stand(self) -> None:
        """Be a candidate for leader from now on."""
        if self._state.is_candidate:  # called at every switch: waking costs time
            return
        with self._changed:
            self._state.is_candidate = True
            self._wake()

    def resign(self, timeout_s: float = 5.0) -> bool:
        """Stop leading for good. Return whether this worker surely holds the key no longer.

        A lost store is not waited for: if this worker holds the key there, the key expires.
        """
        with self._changed:
            self._state.is_candidate = False
            self._wake()
            self._changed.wait_for(lambda: self._is_free or self._is_lost, timeout_s)
            return self._is_free

    def replace_store(self, make_store: Callable[[], KeyStore]) -> None:
        """Go on with a new and empty store in place of a lost one."""
        with self._changed:
            self._state.replaced(self._clock())
            # A new thread, since the old one may hang in a call to the stopped store.
            self._thread = self._start(make_store)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop taking part. A leader that has not resigned keeps the key until the key expires."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not threading.current_thread():
            thread.join(1.0)  # bounded: the thread may hang in a call to a stopped store

    @property
    def _is_free(self) -> bool:
        # A swap whose answer has not come may still win the key.
        return not self._state.is_leader and not self._is_swapping

    def _start(self, make_store: Callable[[], KeyStore]) -> threading.Thread:
        # Each store has a thread with a tenure of its own. A thread whose tenure is over changes
        # nothing: the election goes on with another store.
        self._tenure = tenure = object()
        thread = threading.Thread(
            target=self._run, args=(make_store, tenure), name="election", daemon=True
        )
        thread.start()
        return thread

    def _wake(self) -> None:
        with self._changed:
            self._is_awake = True
            self._changed.notify_all()

    def _is_over(self, tenure: object) -> bool:
        return self._is_closed or tenure is not self._tenure

    def _run(self, make_store: Callable[[], KeyStore], tenure: object) -> None:
        store: KeyStore | None = None
        while not self._is_over(tenure):
            try:
                if store is None:
                    store = make_store()
                    # Before the first read, so that no change between the two is missed.
                    store.watch(self._key, self._wake)
                pause_s = self._round(store, tenure)
            except StoreLost as error:
                _log.debug("election: %s", error)
                if store is not None:
                    store.close()
                store = None
                pause_s = RETRY_S
                # The watch of the lost store has set this. Left set, it would end the pause before
                # the next attempt at once.
                self._is_awake = False
                self._note_loss(tenure)
            with self._changed:
                self._changed.wait_for(lambda: self._is_awake or self._is_over(tenure), pause_s)
        if store is not None:
            store.close()

    def _note_loss(self, tenure: object) -> None:
        with self._changed:
            if not self._is_over(tenure):
                self._is_lost = True
                self._state.replaced(self._clock())
                self._changed.notify_all()

    def _round(self, store: KeyStore, tenure: object) -> float:
        """Read and swap the key until nothing is left to do. Return seconds to the next look."""
        # Once more after each swap, won or lost: only a read shows who leads now.
        while True:
            self._is_awake = False  # before the read, so that a change during it wakes again
            value = store.get(self._key)
            now = self._clock()
            with self._changed:
                if self._is_over(tenure):
                    return 0.0
                self._is_lost = False
                swap = self._state.look(value, now)
                pause_s = self._state.next_look_s(now)
                self._is_swapping = swap is not None
                self._changed.notify_all()
            self._tell(tenure)
            if swap is None:
                return pause_s
            if swap.desired is None:
                won = store.erase(self._key, swap.expected or "")
            else:
                quiet = swap.is_refresh
                won = store.compare_and_swap(self._key, swap.expected, swap.desired, quiet)
            with self._changed:
                if self._is_over(tenure):
                    # The store was replaced: its answer says nothing about the new one.
                    return 0.0
                if won:
                    # The time of the request, not of the answer: readers may count from it.
                    self._state.won(swap, now)
                self._is_swapping = False
                self._changed.notify_all()
            self._tell(tenure)

    def _tell(self, tenure: object) -> None:
        with self._changed:
            leader = self._state.leader
            if leader == self._told or self._is_over(tenure):
                return
            self._told = leader
        # Outside the lock: no other thread may have to wait for the callback.
        if leader is not None:
            if self.first_known is None:
                self.first_known = (self._clock(), leader[0])
            try:
                self._on_leader(leader[0])
            except Exception:
                _log.exception("election: on_leader(%r) failed", leader[0])
