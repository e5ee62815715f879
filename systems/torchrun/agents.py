"""The processes that a driver starts for a job under TorchElastic: its store and its agents."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.cluster import Cluster
from harness.contracts.launcher import Exit
from harness.contracts.training import TrainingOrder
from systems.runtime.beats import after_silence
from systems.runtime.control_server import Connection
from systems.runtime.driven_job import Hands
from systems.torchrun.membership import Agent, Span, Worker
from systems.torchrun.options import TorchrunOptions
from systems.torchrun.processes import agent_order, agent_spec, store_spec


class Agents:
    """Starts them, lets them join, ends them. What their ends mean is the job's business."""

    def __init__(
        self, order: TrainingOrder, hands: Hands, options: TorchrunOptions, cluster: Cluster
    ) -> None:
        self.by_number: dict[int, Agent] = {}
        """Those of the present run of the job, also those that have ended."""
        self.lost: list[Agent] = []
        """Those that died, until the others have gone on without them."""
        self.is_killed_from_outside = False
        """Whether the store or an agent of the present run was killed, neither by the driver nor by
        a fault that the run wanted."""
        self._order = order
        self._hands = hands
        self._options = options
        self._cluster = cluster
        self._store: int | None = None
        self._store_host = ""
        self._endpoint = ""

    @property
    def has_processes(self) -> bool:
        """Whether a process is left."""
        return self._store is not None or not self.have_ended

    @property
    def have_ended(self) -> bool:
        """Whether every agent has ended."""
        return all(agent.is_gone for agent in self.by_number.values())

    @property
    def staying(self) -> list[Agent]:
        """Agents that run and were not told to end."""
        return [a for a in self.by_number.values() if not (a.is_gone or a.is_leaving)]

    @property
    def own_device(self) -> bool:
        """Whether each of them has a device of its own."""
        staying = self.staying
        return len({(a.slot.host, a.slot.device) for a in staying}) == len(staying)

    def slot_of(self, number: int) -> int:
        """The slot of an agent."""
        return self.by_number[number].slot.slot_id

    def start_store(self, number: int, slot_id: int) -> None:
        """Start the store of the rendezvous on a slot's host."""
        self._endpoint = ""
        slot = self._cluster.slots[slot_id]
        self._store_host = self._cluster.hosts[slot.host].address
        spec = store_spec(self._order, self._hands, number, slot, self._store_host)
        self._store = self._hands.launch(spec)

    def start(self, count: Callable[[], int], slots: Iterable[int]) -> None:
        """Start agents on those slots that have none; they join once ``admit`` lets them.

        ``count`` gives each its number.
        """
        held = {agent.slot.slot_id for agent in self.staying}
        for slot_id in slots:
            if slot_id not in held:
                number, slot = count(), self._cluster.slots[slot_id]
                host = self._cluster.hosts[slot.host].address
                spec = agent_spec(self._order, self._hands, number, slot, host)
                self.by_number[number] = Agent(number, slot, self._hands.launch(spec))

    def greeted(self, connection: Connection, greeting: Mapping[str, Any]) -> bool:
        """The store or an agent has greeted."""
        if greeting["worker"] == "store":
            self._hands.send(connection, {"kind": "order", "address": self._store_host})
            return self._store is not None
        agent = self.by_number.get(greeting.get("agent", 0))
        if agent is None or agent.is_gone or agent.connection is not None:
            return False
        agent.connection = connection
        return True

    def heard(self, greeting: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
        """The store or an agent has said something; whether it is news, and no beat."""
        if message["kind"] == "store":
            self._endpoint = f"{message['address']}:{message['port']}"
        elif message["kind"] == "ready":
            self.by_number[greeting["agent"]].is_ready = True
        elif message["kind"] == "span":
            spans = self.by_number[greeting["agent"]].spans
            span = Span(message["began"], message["ended"])
            spans.setdefault(message["phase"], []).append(span)
        return bool(message["kind"] != "beat")

    def admit(self, wanted: Iterable[int]) -> None:
        """Once all new agents can, let them join, and end those on slots that are not wanted.

        Together, so that a change of size is not made in more rounds than it needs.
        """
        new = [agent for agent in self.staying if not agent.has_order]
        if not self._endpoint or not all(agent.is_ready for agent in new):
            return
        for agent in new:
            assert agent.connection is not None
            order = agent_order(
                self._order, self._options, self._cluster, self._endpoint, agent.slot
            )
            self._hands.send(agent.connection, order.message())
            agent.has_order = True
        for agent in self.staying:
            if agent.slot.slot_id not in wanted:
                agent.is_leaving = True
                self._hands.launcher.signal(agent.handle, signal.SIGTERM)

    def exited(self, handle: int, end: Exit) -> str | None:
        """A process has ended; the reason if it was the store."""
        self.is_killed_from_outside |= end.is_kill_from_outside
        if handle == self._store:
            self._store = None
            return f"the store of the rendezvous: {end.reason}"
        for agent in self.by_number.values():
            if agent.handle == handle:
                if agent.connection is not None:
                    self._hands.server.drain(agent.connection)
                agent.end = end
        return None

    def unexpected_ends(self) -> list[tuple[Agent, Exit]]:
        """Agents that have ended without being told to, but for those that are known as lost."""
        return [
            (agent, agent.end)
            for agent in self.by_number.values()
            if agent.end is not None and not agent.is_leaving and agent not in self.lost
        ]

    def wait_in_vain(self, members: Iterable[int]) -> bool:
        """Whether the agents of a round, once their workers are through, would wait as those of
        TorchElastic do at their end: for one of them that was told to leave before."""
        return any(self.by_number[number].is_leaving for number in members)

    def forget_lost(self) -> dict[str, Any]:
        """The others have gone on: the slots of those that died, and how they did, as a report
        has them."""
        slots = tuple(agent.slot.slot_id for agent in self.lost)
        reason = "; ".join(end_of(agent, agent.end) for agent in self.lost if agent.end)
        for agent in self.lost:
            del self.by_number[agent.number]
        self.lost.clear()
        return {"lost_slots": slots, "reason": reason}

    def forget(self) -> None:
        """The job has ended, or stands still."""
        self.by_number.clear()
        self.lost.clear()
        self.is_killed_from_outside = False

    def kill(self, *, but: Iterable[int] = ()) -> None:
        """Kill what is left, but for agents with these numbers; workers die with their agents."""
        for agent in self.by_number.values():
            if not agent.is_gone and agent.number not in but:
                self._hands.kill(agent.handle)

    def alive(self) -> list[str]:
        """For a person: the agents that have not ended."""
        return [f"agent {a.number}" for a in self.by_number.values() if not a.is_gone]

    def needed(self) -> dict[str, Connection]:
        """By name, the connections of agents that have their order and are not to end."""
        return {
            f"agent.{agent.number}": agent.connection
            for agent in self.staying
            if agent.has_order and agent.connection is not None and agent.connection.is_open
        }

    def kill_silent(self, name: str, worker: Worker | None, silent_s: float) -> None:
        """Kill a process that has been silent for so many seconds: a worker, or else the agent of
        this name, whose worker dies with it."""
        if worker is None:
            agent = self.by_number[int(name.rpartition(".")[2])]
            agent.silent_s = silent_s
            self._hands.kill(agent.handle)
            return
        its_agent, greeting = self.by_number.get(worker.agent), worker.connection.greeting
        if its_agent is not None and its_agent.connection is not None:  # else it dies with that
            assert greeting is not None
            self._hands.send(its_agent.connection, {"kind": "kill", "pid": greeting["pid"]})

    def kill_store(self) -> None:
        """Kill the store; nothing happens if it has ended."""
        if self._store is not None:
            self._hands.kill(self._store)


def end_of(agent: Agent, end: Exit) -> str:
    """For a person: how an agent ended."""
    return f"agent {agent.number}: {after_silence(end.reason, agent.silent_s)}"
