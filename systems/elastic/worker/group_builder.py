"""Construction of the groups of future generations during training.

Source: EDL, section 4.2: the new topology is made while the old one goes on working.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from torch._C._distributed_c10d import TCPStore

from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.groups import Group, GroupLost, connect, meet

STORE_CONNECT_S = 2.0
STORE_RETRY_S = 0.02


class GroupBuilder:
    """Builder of groups, one thread each; the training thread takes a group when it is built."""

    def __init__(
        self,
        worker: str,
        store: Callable[[], tuple[str, int]],
        timeout_s: float,
        collective_timeout_s: float,
        prepare: Callable[[int, int, int], None],
        on_built: Callable[[int], None],
        on_failed: Callable[[int, str], None],
        *,
        on_devices: bool = False,
    ) -> None:
        """Prepare to build groups.

        Args:
            worker: name of this worker.
            store: returns the present address of the job's store.
            timeout_s: longest time until all members have met.
            collective_timeout_s: time-out of the collectives of the groups.
            prepare: called by the building thread before the group can be used, with its
                generation, this worker's rank and the number of members.
            on_built: called by the building thread with the generation.
            on_failed: called by the building thread with the generation and the reason.
            on_devices: whether groups connect the members' devices, too.
        """
        self._worker = worker
        self._store = store
        self._timeout_s = timeout_s
        self._collective_timeout_s = collective_timeout_s
        self._prepare = prepare
        self._on_built = on_built
        self._on_failed = on_failed
        self._on_devices = on_devices
        self._changed = threading.Condition()
        self._groups: dict[int, Group] = {}
        self._failures: dict[int, str] = {}
        self._wanted: set[int] = set()
        self.build_s: dict[int, float] = {}
        """Seconds that each group took to build, by generation."""

    def begin(
        self, generation: int, membership: Membership, timeout_s: float | None = None
    ) -> None:
        """Begin to build a generation's group; a worker that is no member has nothing to build.

        Args:
            generation: number of the generation.
            membership: the workers that are to meet.
            timeout_s: longest time for that; None: the usual time.
        """
        if self._worker not in membership.members:
            self._on_built(generation)
            return
        with self._changed:
            self._wanted.add(generation)
        until = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        threading.Thread(
            target=self._build, args=(generation, membership, until), name="regroup", daemon=True
        ).start()

    def cancel(self, generation: int) -> None:
        """Forget a group that will not be used; a thread that waits for it gets GroupLost."""
        with self._changed:
            self._wanted.discard(generation)
            group = self._groups.pop(generation, None)
            self._changed.notify_all()
        if group is not None:
            group.give_up()

    def cancel_all(self) -> None:
        """Forget every group that was not taken yet."""
        for generation in list(self._wanted):
            self.cancel(generation)

    def take(self, generation: int) -> Group:
        """Wait until a generation's group is built, and hand it over to the caller.

        Raises:
            GroupLost: the group could not be built, or was cancelled.
        """
        with self._changed:
            while generation not in self._groups:
                if generation in self._failures:
                    raise GroupLost(self._failures[generation])
                if generation not in self._wanted:
                    raise GroupLost(f"generation {generation} was cancelled")
                self._changed.wait()
            self._wanted.discard(generation)
            return self._groups.pop(generation)

    def _build(self, generation: int, membership: Membership, until: float) -> None:
        started = time.monotonic()
        members = membership.members
        try:
            group = self._meet(generation, members, until)
        except RuntimeError as error:
            with self._changed:
                self._failures[generation] = f"no group for generation {generation}: {error}"
                wanted = generation in self._wanted
                self._changed.notify_all()
            if wanted:
                self._on_failed(generation, str(error).splitlines()[0])
            return
        # Before the group is handed over, so that the first step finds everything prepared.
        self._prepare(generation, members.index(self._worker), len(members))
        with self._changed:
            wanted = generation in self._wanted
            if wanted:
                self._groups[generation] = group
                self.build_s[generation] = time.monotonic() - started
                self._changed.notify_all()
        if wanted:
            self._on_built(generation)
        else:
            group.give_up()

    def _meet(self, generation: int, members: tuple[str, ...], until: float) -> Group:
        rank, size = members.index(self._worker), len(members)
        if size == 1:
            return Group(generation, rank, size, None)
        store = self._living_store(generation, until)
        return meet(
            store,
            generation,
            rank,
            size,
            max(0.0, until - time.monotonic()),
            self._collective_timeout_s,
            on_devices=self._on_devices,
        )

    def _living_store(self, generation: int, until: float) -> TCPStore:
        """Return a client of the job's store.

        A store that has died is soon replaced by another. So each attempt is short: the store may
        have died just now, while its address still answers.

        Raises:
            RuntimeError: no store answered in time, or the group was cancelled.
        """
        while True:
            address, port = self._store()
            try:
                # Tried first, since TCPStore's own client retries and fills stderr meanwhile.
                socket.create_connection((address, port), STORE_CONNECT_S).close()
                return connect(address, port, STORE_CONNECT_S)
            except (OSError, RuntimeError) as error:
                problem = f"no store at {address}:{port}: {error}"
            with self._changed:
                given_up = generation not in self._wanted or time.monotonic() > until
                if given_up:
                    raise RuntimeError(problem)
                self._changed.wait(STORE_RETRY_S)
