"""Processes that a driver starts for a job under TorchElastic: its store and its agents."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any

from harness.contracts.process import Exit
from systems.runtime.driver.beats import after_silence
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.messages import (
    Beat,
    Failed,
    ProcessGreeting,
    StoreGreeting,
    StoreOrder,
    StoreReady,
)
from systems.runtime.wire.protocol import ControlError, Message, kind_of
from systems.torchrun.membership import Agent, Span, Worker
from systems.torchrun.messages import AgentGreeting, KillWorker, Measured, Ready
from systems.torchrun.processes import TorchrunProcesses


class Agents:
    """Starter of a job's store and agents. It admits and ends them; the job judges their ends."""

    def __init__(self, processes: TorchrunProcesses) -> None:
        self.by_number: dict[int, Agent] = {}
        """Agents of the present run of the job by number, including those that have ended."""
        self.lost: list[Agent] = []
        """Agents that died, until the others have gone on without them."""
        self.is_killed_from_outside = False
        """True if the store or an agent of the present run was killed neither by the driver nor by
        a fault that the run injected."""
        self._processes = processes
        self._services = processes.services
        self._cluster = processes.cluster
        self._store: int | None = None
        self._store_host = ""
        self._endpoint = ""

    @property
    def has_processes(self) -> bool:
        """True if a process is left."""
        return self._store is not None or not self.have_ended

    @property
    def have_ended(self) -> bool:
        """True if every agent has ended."""
        return all(agent.is_gone for agent in self.by_number.values())

    @property
    def staying(self) -> list[Agent]:
        """Agents that run and were not told to end."""
        return [a for a in self.by_number.values() if not (a.is_gone or a.is_leaving)]

    @property
    def own_device(self) -> bool:
        """True if each of these agents has its own device."""
        staying = self.staying
        return len({(a.slot.host, a.slot.device) for a in staying}) == len(staying)

    def slot_of(self, number: int) -> int:
        """Return the slot of an agent."""
        return self.by_number[number].slot.slot_id

    def start_store(self, number: int, slot_id: int) -> None:
        """Start the rendezvous' store on a slot's host."""
        self._endpoint = ""
        slot = self._cluster.slots[slot_id]
        self._store_host = self._cluster.hosts[slot.host].address
        spec = self._processes.store_spec(number, slot)
        self._store = self._services.launch(spec)

    def start(self, count: Callable[[], int], slots: Iterable[int]) -> None:
        """Start agents on those of the slots that have none; they join once ``admit`` lets them.

        ``count`` returns the number of each.
        """
        held = {agent.slot.slot_id for agent in self.staying}
        for slot_id in slots:
            if slot_id not in held:
                number, slot = count(), self._cluster.slots[slot_id]
                spec = self._processes.agent_spec(number, slot)
                self.by_number[number] = Agent(number, slot, self._services.launch(spec))

    def greeted(self, connection: Connection, greeting: StoreGreeting | AgentGreeting) -> bool:
        """Accept the store or an agent; return False if it is not expected."""
        if isinstance(greeting, StoreGreeting):
            self._services.send(connection, StoreOrder(address=self._store_host))
            return self._store is not None
        agent = self.by_number.get(greeting.agent)
        if agent is None or agent.is_gone or agent.connection is not None:
            return False
        agent.connection = connection
        return True

    def heard(self, greeting: StoreGreeting | AgentGreeting, message: Message) -> bool:
        """Handle a message of the store or an agent; return False if it is only a beat.

        Raises:
            ControlError: such a process never sends such a message.
        """
        match message, greeting:
            case Beat(), _:
                return False
            case Failed(), _:
                pass  # the end of the process follows
            case StoreReady(), StoreGreeting():
                self._endpoint = f"{message.address}:{message.port}"
            case Ready(), AgentGreeting():
                self.by_number[greeting.agent].is_ready = True
            case Measured(), AgentGreeting():
                spans = self.by_number[greeting.agent].spans
                spans.setdefault(message.phase, []).append(Span(message.began, message.ended))
            case _:
                raise ControlError(f"it sent {kind_of(message)!r}")
        return True

    def admit(self, wanted: Iterable[int]) -> None:
        """Let new agents join once all are ready; end those on slots that are not wanted.

        Both happen together, so that a change of size takes no more rounds than necessary.
        """
        new = [agent for agent in self.staying if not agent.has_order]
        if not self._endpoint or not all(agent.is_ready for agent in new):
            return
        for agent in new:
            assert agent.connection is not None
            order = self._processes.agent_order(self._endpoint, agent.slot)
            self._services.send(agent.connection, order)
            agent.has_order = True
        for agent in self.staying:
            if agent.slot.slot_id not in wanted:
                agent.is_leaving = True
                self._services.launcher.signal(agent.handle, signal.SIGTERM)

    def exited(self, handle: int, end: Exit) -> str | None:
        """Record the end of a process; return the reason if it was the store, else None."""
        self.is_killed_from_outside |= end.is_kill_from_outside
        if handle == self._store:
            self._store = None
            return f"the store of the rendezvous: {end.reason}"
        for agent in self.by_number.values():
            if agent.handle == handle:
                if agent.connection is not None:
                    self._services.server.drain(agent.connection)
                agent.end = end
        return None

    def unexpected_ends(self) -> list[tuple[Agent, Exit]]:
        """Return the agents that ended without being told to, except those already known as
        lost."""
        return [
            (agent, agent.end)
            for agent in self.by_number.values()
            if agent.end is not None and not agent.is_leaving and agent not in self.lost
        ]

    def wait_in_vain(self, members: Iterable[int]) -> bool:
        """Return whether a finished round's agents would wait for one that was told to leave.

        TorchElastic's agents wait for each other at their end.
        """
        return any(self.by_number[number].is_leaving for number in members)

    def forget_lost(self) -> dict[str, Any]:
        """Forget the agents that died, once the others have gone on.

        Return their slots and the reasons of their ends, as a report's fields.
        """
        slots = tuple(agent.slot.slot_id for agent in self.lost)
        reason = "; ".join(end_of(agent, agent.end) for agent in self.lost if agent.end)
        for agent in self.lost:
            del self.by_number[agent.number]
        self.lost.clear()
        return {"lost_slots": slots, "reason": reason}

    def forget(self) -> None:
        """Forget all agents, once the job has ended or been suspended."""
        self.by_number.clear()
        self.lost.clear()
        self.is_killed_from_outside = False

    def kill(self, *, but: Iterable[int] = ()) -> None:
        """Kill all agents that have not ended, except those with these numbers. Workers die with
        their agents."""
        for agent in self.by_number.values():
            if not agent.is_gone and agent.number not in but:
                self._services.kill(agent.handle)

    def alive(self) -> list[str]:
        """Return the names of the agents that have not ended."""
        return [f"agent {a.number}" for a in self.by_number.values() if not a.is_gone]

    def needed(self) -> dict[str, Connection]:
        """Return the connections of agents with an order that are not to end, by name."""
        return {
            f"agent.{agent.number}": agent.connection
            for agent in self.staying
            if agent.has_order and agent.connection is not None and agent.connection.is_open
        }

    def kill_silent(self, name: str, worker: Worker | None, silent_s: float) -> None:
        """Kill a process that has been silent for this number of seconds.

        The process is ``worker`` or, if that is None, the agent of this name, whose worker dies
        with it.
        """
        if worker is None:
            agent = self.by_number[int(name.rpartition(".")[2])]
            agent.silent_s = silent_s
            self._services.kill(agent.handle)
            return
        its_agent, greeting = self.by_number.get(worker.agent), worker.connection.greeting
        # otherwise it dies with its agent
        if its_agent is not None and its_agent.connection is not None:
            assert isinstance(greeting, ProcessGreeting)
            self._services.send(its_agent.connection, KillWorker(pid=greeting.pid))

    def kill_store(self) -> None:
        """Kill the store; do nothing if it has ended."""
        if self._store is not None:
            self._services.kill(self._store)


def end_of(agent: Agent, end: Exit) -> str:
    """Return a text that says how an agent ended."""
    return f"agent {agent.number}: {after_silence(end.reason, agent.silent_s)}"
