"""The round of workers that trains a job under TorchElastic, and messages to its workers."""

from __future__ import annotations

import time

from systems.runtime.driver.job_status import Saved
from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.messages import MayExit
from systems.runtime.wire.protocol import Message
from systems.torchrun.membership import Agent, Round, Worker
from systems.torchrun.processes import TorchrunProcesses


class Rounds:
    """Keeper of the present round, which gives workers their orders when they greet."""

    def __init__(self, processes: TorchrunProcesses) -> None:
        self.present: Round | None = None
        self._processes = processes
        self._services = processes.services

    def awaits(self, rank: int, store: str) -> bool:
        """Return whether a worker belongs to the present round; otherwise a new one has begun."""
        present = self.present
        return present is not None and present.store == store and rank not in present.workers

    def begin(
        self,
        number: int,
        store: str,
        num_workers: int,
        global_batch: int,
        checkpoint: Saved | None,
    ) -> None:
        """Begin a round, when its first worker has greeted."""
        self.present = Round(number, store, num_workers, global_batch, checkpoint)

    def enter(
        self,
        rank: int,
        agent: Agent,
        connection: Connection,
        *,
        target_step: int,
        own_device: bool,
    ) -> None:
        """Send a worker of the present round its order."""
        assert self.present is not None
        self.present.workers[rank] = Worker(agent.number, connection, time.monotonic())
        order = self._processes.worker_order(
            self.present, rank, agent.slot, target_step, own_device
        )
        self._services.send(connection, order)

    def speaker(self, connection: Connection, rank: int) -> Worker | None:
        """Return the worker of the present round with this connection; None if its round is
        over."""
        worker = self.present.workers.get(rank) if self.present is not None else None
        return worker if worker is not None and worker.connection is connection else None

    def tell(self, message: Message) -> None:
        """Send a message to the first worker, if there is one."""
        if self.present is not None and 0 in self.present.workers:
            self._services.send(self.present.workers[0].connection, message)

    def let_go(self) -> None:
        """Permit all workers but the first to exit; the first exits by itself."""
        for rank, worker in self.present.workers.items() if self.present else ():
            if rank != 0:
                self._services.send(worker.connection, MayExit())

    def drain(self) -> None:
        """Read all that the workers have sent so far."""
        for worker in list(self.present.workers.values()) if self.present else ():
            self._services.server.drain(worker.connection)

    def needed(self) -> dict[str, Worker]:
        """Return the workers that the job needs, by name.

        No worker is needed before the first step. Once the first worker has made its last step,
        only it is needed: all others wait for permission to exit.
        """
        present = self.present
        if present is None or not present.has_begun:
            return {}
        is_over = present.workers[0].has_left
        return {
            f"worker.{present.number}.{rank}": worker
            for rank, worker in present.workers.items()
            if worker.connection.is_open and not (is_over and rank != 0)
        }

    @property
    def agents(self) -> set[int]:
        """Numbers of the agents of the present round."""
        workers = self.present.workers.values() if self.present else ()
        return {worker.agent for worker in workers}

    @property
    def first_agent(self) -> int:
        """Number of the first worker's agent; 0 if there is no such worker."""
        first = self.present.workers.get(0) if self.present else None
        return first.agent if first is not None else 0

    @property
    def is_gone(self) -> bool:
        """True if no worker is connected any more; each dies shortly after its agent."""
        workers = self.present.workers.values() if self.present else ()
        return not any(worker.connection.is_open for worker in workers)
