"""Processes that a driver starts for a job under torchft: its lighthouse and its replicas."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from harness.cluster import Slot
from harness.contracts.process import Exit
from systems.runtime.driver.job_status import Saved
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.messages import MayExit, SetTarget
from systems.runtime.wire.protocol import Message
from systems.torchft.messages import Go, LighthouseAt, LighthouseGreeting, ReplicaGreeting
from systems.torchft.processes import TorchftProcesses


@dataclass(slots=True)
class Replica:
    """Replica on a slot. Times are on ``time.monotonic``."""

    number: int
    slot: Slot
    handle: int
    launched_at: float
    connection: Connection | None = None
    greeted_at: float = 0.0
    has_address: bool = False
    """True if it was told where the lighthouse listens."""
    phases_s: Mapping[str, float] | None = None
    """Phases of its preparation, once it is ready."""
    has_gone: bool = False
    """True if it was told to ask for quorums."""
    trains: bool = False
    """True if a whole quorum with it has ended a step."""
    is_leaving: bool = False
    """True if it was told to leave, or killed because the job does not want it."""
    has_left: bool = False
    """True if it has ended its last step."""
    end: Exit | None = None
    is_judged: bool = False
    """True if the job has acted on its end."""
    silent_s: float = 0.0
    """Seconds of silence if it was killed for its silence, otherwise 0."""

    @property
    def lives(self) -> bool:
        """True until its process has ended."""
        return self.end is None


class Replicas:
    """Table of a job's processes. It starts, admits and ends them; the job judges their ends."""

    def __init__(self, processes: TorchftProcesses) -> None:
        self.by_number: dict[int, Replica] = {}
        """Replicas of the present run of the job, including those that have ended."""
        self.run = 0
        """Number of the job's present run, from one start or resumption to its end."""
        self.lighthouse_connection: Connection | None = None
        self.lighthouse_end: Exit | None = None
        """End of the lighthouse, unless the driver has killed it."""
        self.is_killed_from_outside = False
        """True if a process was killed neither by the driver nor by a fault that the run
        injected."""
        self._processes = processes
        self._services = processes.services
        self._slots = processes.cluster.slots
        self._lighthouse: int | None = None
        self._lighthouse_slot: Slot | None = None
        self._address = ""
        self._base_generation = 0
        self._founders: tuple[int, ...] = ()
        self._checkpoint: Saved | None = None
        self._is_killing_lighthouse = False

    @property
    def has_processes(self) -> bool:
        """True if a process is left."""
        return self._lighthouse is not None or not self.have_ended

    @property
    def have_ended(self) -> bool:
        """True if every replica has ended."""
        return not any(replica.lives for replica in self.by_number.values())

    @property
    def staying(self) -> list[Replica]:
        """Replicas that live and were not told to leave."""
        return [r for r in self.by_number.values() if r.lives and not r.is_leaving]

    @property
    def new(self) -> list[Replica]:
        """Replicas that live and do not ask for quorums yet."""
        return [r for r in self.staying if not r.has_gone]

    def slots_of(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Return the slots of replicas."""
        return tuple(self.by_number[number].slot.slot_id for number in numbers)

    def begin(self, run: int, slots: tuple[int, ...], checkpoint: Saved | None) -> None:
        """Start the lighthouse and the first replicas of a run."""
        self.run, self._checkpoint = run, checkpoint
        self._address, self.lighthouse_end = "", None
        self._is_killing_lighthouse = False
        self._base_generation = self._processes.last_generation()
        self._founders = tuple(range(len(slots)))
        self._lighthouse_slot = self._slots[slots[0]]
        spec = self._processes.lighthouse_spec(run, self._lighthouse_slot)
        self._lighthouse = self._services.launch(spec)
        self.add(slots)

    def add(self, slots: Iterable[int]) -> list[Replica]:
        """Start a replica on each of these slots and return them."""
        added = []
        for slot_id in slots:
            number, slot = len(self.by_number), self._slots[slot_id]
            spec = self._processes.replica_spec(self.run, number, slot)
            replica = Replica(number, slot, self._services.launch(spec), time.monotonic())
            self.by_number[number] = replica
            added.append(replica)
        return added

    def greeted(self, connection: Connection, *, global_batch: int, target_step: int) -> bool:
        """Send a process its order; return False if it is not expected."""
        greeting = connection.greeting
        assert isinstance(greeting, LighthouseGreeting | ReplicaGreeting)
        if greeting.run != self.run:
            return False
        if isinstance(greeting, LighthouseGreeting):
            if self._lighthouse is None or self._lighthouse_slot is None:
                return False
            self.lighthouse_connection = connection
            order = self._processes.lighthouse_order(self._lighthouse_slot)
            self._services.send(connection, order)
            return True
        number = greeting.number
        replica = self.by_number.get(number)
        if replica is None or not replica.lives or replica.connection is not None:
            return False
        replica.connection, replica.greeted_at = connection, time.monotonic()
        is_founder = number in self._founders
        own = self._processes.replica_order(
            self.run,
            number,
            replica.slot,
            founders=self._founders if is_founder else (),
            base_generation=self._base_generation,
            global_batch=global_batch,
            target_step=target_step,
            checkpoint=self._checkpoint,
        )
        self._services.send(connection, own)
        self._introduce()
        return True

    def found_lighthouse(self, address: str) -> None:
        """Tell all replicas where the lighthouse listens."""
        self._address = address
        self._introduce()

    def _introduce(self) -> None:
        for replica in self.by_number.values():
            connection = replica.connection
            if self._address and connection is not None and not replica.has_address:
                replica.has_address = True
                self._services.send(connection, LighthouseAt(address=self._address))

    def are_ready(self) -> bool:
        """Return whether all new replicas are ready, so that they can join together."""
        return all(replica.phases_s is not None for replica in self.new)

    def go(self, target_step: int) -> None:
        """Let all new replicas ask for a quorum, and tell them the present last step."""
        for replica in self.new:
            assert replica.connection is not None
            replica.has_gone = True
            self._services.send(replica.connection, Go())
            self._services.send(replica.connection, SetTarget(target_step=target_step))

    def preparation_s(self, numbers: Collection[int]) -> dict[str, float]:
        """Return the longest duration of each phase of the preparation of these replicas."""
        found: dict[str, float] = {}
        for number in numbers:
            replica = self.by_number[number]
            spawn_s = replica.greeted_at - replica.launched_at
            for phase, seconds in {"spawn": spawn_s, **(replica.phases_s or {})}.items():
                found[phase] = max(seconds, found.get(phase, 0.0))
        return found

    def tell(self, message: Message) -> None:
        """Send a message to all replicas that ask for quorums, the first one first."""
        for replica in self.by_number.values():
            if replica.has_gone and replica.lives and replica.connection is not None:
                self._services.send(replica.connection, message)

    def let_go(self, *, only_leaving: bool = False) -> None:
        """Permit replicas that have ended their last step to exit."""
        for replica in self.by_number.values():
            is_meant = replica.has_left and (replica.is_leaving or not only_leaving)
            if is_meant and replica.connection is not None:
                self._services.send(replica.connection, MayExit())

    def drain(self) -> None:
        """Read all that the replicas have sent so far."""
        for replica in list(self.by_number.values()):
            if replica.connection is not None:
                self._services.server.drain(replica.connection)

    def dismiss(self, replicas: Iterable[Replica]) -> None:
        """Kill replicas that the job does not want any more."""
        for replica in replicas:
            replica.is_leaving = True
            if replica.lives:
                self._services.kill(replica.handle)

    def kill(self) -> None:
        """Kill all replicas."""
        self.dismiss([replica for replica in self.by_number.values() if replica.lives])

    def kill_lighthouse(self) -> None:
        """Kill the lighthouse."""
        if self._lighthouse is not None:
            self._is_killing_lighthouse = True
            self._services.kill(self._lighthouse)

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a process."""
        self.is_killed_from_outside |= end.is_kill_from_outside
        if handle == self._lighthouse:
            self._lighthouse = None
            self.lighthouse_connection = None
            if not self._is_killing_lighthouse:
                self.lighthouse_end = end
            return
        for replica in self.by_number.values():
            if replica.handle == handle:
                replica.end = end
                if replica.connection is not None:
                    self._services.server.close_connection(replica.connection)

    def needed(self, *, only: int | None) -> dict[str, Connection]:
        """Return the connections that must show signs of life, by name.

        ``only`` is the replica that evaluates or saves, of a job whose steps are over.
        """
        found = {
            f"worker.{self.run}.{replica.number}": replica.connection
            for replica in self.by_number.values()
            if replica.lives and replica.trains and replica.connection is not None
            if only is None or replica.number == only
        }
        if only is None and self.lighthouse_connection is not None:
            found[f"lighthouse.{self.run}"] = self.lighthouse_connection
        return {name: each for name, each in found.items() if each.is_open}

    def kill_silent(self, name: str, silent_s: float) -> None:
        """Kill a process that does not answer."""
        if name.startswith("lighthouse."):
            if self._lighthouse is not None:
                self._services.kill(self._lighthouse)
            return
        replica = self.by_number[int(name.rpartition(".")[2])]
        replica.silent_s = silent_s
        self._services.kill(replica.handle)

    def alive(self) -> list[str]:
        """Return the names of the replicas whose processes have not ended."""
        return [f"worker {r.number}" for r in self.by_number.values() if r.lives]

    def forget(self) -> None:
        """Forget all processes of a run that is over."""
        self.by_number.clear()
        self.is_killed_from_outside = False

    def ends(self) -> list[tuple[Replica, Exit]]:
        """Return the ends that the job has not acted on yet; it must act on them now."""
        found: list[tuple[Replica, Exit]] = []
        for replica in self.by_number.values():
            if replica.end is not None and not replica.is_judged:
                replica.is_judged = True
                found.append((replica, replica.end))
        return found
