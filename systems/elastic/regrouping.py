"""Groups of generations to come, built beside the training.

Source: EDL, section 4.2: the new topology is made while the old one goes on working.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch._C._distributed_c10d import TCPStore

from systems.elastic.groups import Group, GroupLost, connect, meet
from systems.elastic.recovery import Membership
from systems.runtime.control import Message

STORE_CONNECT_S = 2.0
STORE_RETRY_S = 0.02


@dataclass(frozen=True, slots=True)
class Topology:
    """Who will train in a generation to come, and who gives the state to whom."""

    generation: int
    change_id: int
    membership: Membership
    joiners: tuple[str, ...]
    donors: Mapping[str, tuple[tuple[str, int], ...]]
    """Addresses of the joiners that a present member gives the state to."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Members of the generation before that stay, by their new ranks."""
        return tuple(w for w in self.membership.members if w not in self.joiners)

    @classmethod
    def from_message(cls, message: Message) -> Topology:
        """The topology in a leader's message."""
        return cls(
            message["generation"],
            message["change_id"],
            Membership.from_message(message),
            tuple(message["joiners"]),
            {
                donor: tuple((str(address), int(port)) for address, port in takers)
                for donor, takers in message["donors"].items()
            },
        )


class Regrouping:
    """Builds groups in threads; the training thread takes them when they are there."""

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
        """Args:
        worker: this one.
        store: where the job's store is now.
        timeout_s: longest time for all members to meet.
        collective_timeout_s: of the groups that are built.
        prepare: called by the building thread before anyone can use a group, with its generation,
            this worker's rank and the number of members.
        on_built: called by the building thread with the generation.
        on_failed: as ``on_built``, with the reason as well.
        on_devices: groups connect the members' devices, too.
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
        """How long each group took to build."""

    def begin(
        self, generation: int, membership: Membership, timeout_s: float | None = None
    ) -> None:
        """Build the group of a generation; a worker that is not in it has nothing to build.

        Args:
            generation: of the group.
            membership: who is to meet.
            timeout_s: longest time for that; None: the usual one.
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
        """Forget a group that will not be used; who waits for it gets GroupLost."""
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
        """The group of a generation; waits until it is built. It is the caller's then.

        Raises:
            GroupLost: it could not be built, or was cancelled.
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
        """A client of the job's store. One that has died is soon replaced by another, so none
        is waited for long: it may have died just now, and its address still answer.

        Raises:
            RuntimeError: there was none in time, or nobody wants the group any more.
        """
        while True:
            address, port = self._store()
            try:
                # A store's client itself goes on trying, and fills stderr meanwhile.
                socket.create_connection((address, port), STORE_CONNECT_S).close()
                return connect(address, port, STORE_CONNECT_S)
            except (OSError, RuntimeError) as error:
                problem = f"no store at {address}:{port}: {error}"
            with self._changed:
                given_up = generation not in self._wanted or time.monotonic() > until
                if given_up:
                    raise RuntimeError(problem)
                self._changed.wait(STORE_RETRY_S)
