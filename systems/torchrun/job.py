"""State machine of one job under TorchElastic, to which the driver's loop supplies events.

The driver starts and ends agents; TorchElastic does everything else. It notices that agents have
come or gone, stops the workers, holds a rendezvous, and starts workers again. It may need several
rounds until all wanted agents are in one. A change is done when the first step of such a round has
ended.

If a worker dies, its agent starts it again, in a new round of the same size. If an agent dies, the
others go on without it. A change that is requested meanwhile is answered with RETRY once they do;
an earlier answer would only cause repeated requests. If an agent dies while a change is in flight,
the job is lost, and can be resumed.
"""

from __future__ import annotations

import time
from dataclasses import replace

from harness.cluster import Cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.beats import DRIVER, Beats, write_accusation
from systems.runtime.driver.ending import (
    EXIT_TIMEOUT_S,
    Ending,
    Fate,
    Phase,
    not_started,
    tell_late_exit,
)
from systems.runtime.driver.job_protocol import (
    IDLE_WAIT_S,
    LOSING_WAIT_S,
    STARTING_WAIT_S,
    JobServices,
)
from systems.runtime.driver.job_status import JobStatus, Saved
from systems.runtime.wire.control_server import Channels, Connection
from systems.runtime.wire.messages import (
    Beat,
    Checkpoint,
    CheckpointWritten,
    Failed,
    Finished,
    FirstStep,
    JobReport,
    Left,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    StoreGreeting,
    Warned,
)
from systems.runtime.wire.protocol import ControlError, JsonObject, Message, kind_of
from systems.runtime.wire.step_log import LineWriter
from systems.torchrun.agents import Agents, end_of
from systems.torchrun.membership import Agent, Round
from systems.torchrun.messages import CHANNELS, AgentGreeting, RoundGreeting
from systems.torchrun.options import TorchrunOptions
from systems.torchrun.phases import phases_of, stopping_time_s
from systems.torchrun.processes import TorchrunProcesses
from systems.torchrun.rounds import Rounds


class TorchrunJob:
    """State of one job; implements ``DrivenJob``."""

    def __init__(
        self,
        options: TorchrunOptions,
        cluster: Cluster,
        order: TrainingOrder,
        services: JobServices,
        serial: int,
    ) -> None:
        self.order = order
        self.services = services
        self.status = JobStatus(order, services.report, serial)
        self._options = options
        processes = TorchrunProcesses(order, services, options, cluster)
        self._agents = Agents(processes)
        self._rounds = Rounds(processes)
        self._wanted: tuple[int, ...] = ()
        """Slots on which the job is to train."""
        self._global_batch = 0
        self._asked_too_early: Change | None = None
        """Change that waits until the others have gone on without an agent that died."""
        self._ending: Ending | None = None
        self._beats = Beats(options.runtime.hang_timeout_s, services.send)
        self._accusations = LineWriter(order.job_dir / "accusations.jsonl")
        self._deadline: float | None = None
        self._began = 0.0
        """Time at which the change was requested, or the first agent died."""

    # Requests. The driver has checked that no change is in flight, except for stop.

    @property
    def is_alive(self) -> bool:
        """True while the job has processes."""
        return self._agents.has_processes

    def begin(self, change: Change) -> None:
        """Start a store and an agent for each slot, for START or RESUME."""
        self._accept(change, Phase.STARTING)
        self._rounds.present = self._ending = None
        self.status.go_back()
        self._global_batch = change.global_batch
        self._wanted = change.slots
        try:
            # Fail here rather than when a worker asks for its order.
            JsonObject(self.order.workload.options).text()
            self._agents.start_store(self.status.next_number(), change.slots[0])
            self._agents.start(self.status.next_number, change.slots)
        except Exception as error:  # a launcher may raise anything
            self._end(not_started("agents", error, f"logs: {self.order.job_dir}"))

    def alter(self, change: Change) -> None:
        """Start and end agents for RESCALE and MIGRATE; save and stop for SUSPEND."""
        suspends = change.kind is ChangeKind.SUSPEND
        if self._asked_too_early is not None:
            self.status.answer(change, ReportKind.RETRY, "another one waits")
            return
        if self._agents.lost:
            self._asked_too_early = change
            return
        if not suspends and set(change.slots) == set(self._wanted):
            reason = "torchrun restarts its workers only where agents come or go; change the slots"
            self.status.answer(change, ReportKind.FAILED, reason)
            return
        # it is ending already, and that end overtakes the change
        if self.status.phase is not Phase.RUNNING:
            self._accept(change, self.status.phase)
        elif suspends:
            self._accept(change, Phase.STOPPING)
            self._deadline = self._began + self._options.runtime.stop_timeout_s
            self._rounds.tell(Stop())
        else:
            self._accept(change, Phase.STARTING)
            self._wanted = change.slots
            try:
                self._agents.start(self.status.next_number, change.slots)
                self._agents.admit(self._wanted)
            except Exception as error:
                self._lose(f"no agents: {error}", of_machine=isinstance(error, OSError))

    def stop(self, change: Change) -> None:
        """Kill the job, whatever it is doing; report a change in flight as failed."""
        if (other := self.status.change or self._asked_too_early) is not None:
            self.status.answer(other, ReportKind.FAILED, "overtaken by a stop")
        self._asked_too_early = None
        self.status.accept(change)
        if self.is_alive:
            self._end(Ending(Fate.STOPPED))
        else:
            self.status.done()

    def set_target_step(self, target_step: int) -> None:
        """Move the target step; workers that are still starting get it in their order."""
        self.status.target_step = target_step
        self._rounds.tell(SetTarget(target_step=target_step))

    # Events from the driver.

    def greeted(self, connection: Connection) -> bool:
        """Accept the store, an agent or a worker that sent the right token."""
        greeting = connection.greeting
        if self._ending is not None or not self.is_alive:
            return False
        if isinstance(greeting, StoreGreeting | AgentGreeting):
            return self._agents.greeted(connection, greeting)
        assert isinstance(greeting, RoundGreeting)
        agent = self._agents.by_number.get(greeting.agent)
        if agent is None or agent.is_gone:
            return False
        self._rounds.drain()  # a checkpoint of the previous round may still be unread
        rank = greeting.rank
        if not self._rounds.awaits(rank, greeting.store):
            self._begin_round(greeting.store, greeting.num_workers)
        target, own = self.status.target_step, self._agents.own_device
        self._rounds.enter(rank, agent, connection, target_step=target, own_device=own)
        if rank == 0 and self.status.phase is Phase.STOPPING:
            self._rounds.tell(Stop())
        return True

    def heard(self, connection: Connection, message: Message) -> None:
        """Handle a message of one of its processes."""
        greeting = connection.greeting
        if isinstance(greeting, StoreGreeting | AgentGreeting):
            news = self._agents.heard(greeting, message)
            if news and self._ending is None and self.status.phase is not Phase.FINISHING:
                self._agents.admit(self._wanted)
            return
        assert isinstance(greeting, RoundGreeting)
        if isinstance(message, Checkpoint):
            self.status.checkpoint = Saved.of(message)  # also from a round that is over
        speaks = self._rounds.speaker(connection, greeting.rank) is not None
        if speaks and self._ending is None:
            assert self._rounds.present is not None
            self._heard_worker(self._rounds.present, greeting.rank, message)

    def disconnected(self, connection: Connection) -> None:
        """Set a time limit after a worker has gone without permission, since its agent must start
        it again."""
        if (present := self._rounds.present) and present.is_broken and self._deadline is None:
            self._deadline = time.monotonic() + self._options.runtime.start_timeout_s

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a process, after reading what the workers still had sent."""
        self._rounds.drain()
        if (reason := self._agents.exited(handle, end)) is not None and self._ending is None:
            self._lose(reason)

    def check(self) -> None:
        """Check whether something is overdue, has failed, or is complete, and act on it."""
        now = time.monotonic()
        if self._ending is None:
            self._judge(now)
            self._look_for_silence(now)
        elif self._deadline is not None:
            is_late = now > self._deadline
            in_vain = self._rounds.is_gone and self._agents.wait_in_vain(self._rounds.agents)
            if is_late or in_vain:
                self._deadline = None
                if is_late:
                    reason = tell_late_exit(self.order.job_id, self._agents.alive())
                    self._ending = replace(self._ending, reason=reason)
                self._agents.kill()
        if self._ending is None or not (self._agents.have_ended and self._rounds.is_gone):
            return
        if self._agents.has_processes:
            self._agents.kill_store()
        else:
            self._gone()

    @property
    def channels(self) -> Channels:
        """Greetings and messages that the job accepts from its processes."""
        return CHANNELS

    def wait_s(self, now: float) -> float:
        """Return the longest time until ``check`` must be called and ended processes must be looked
        for."""
        wait_s = IDLE_WAIT_S if self.status.change is None else STARTING_WAIT_S
        if self._ending is not None:
            wait_s = LOSING_WAIT_S
        if self._deadline is not None:
            wait_s = min(wait_s, self._deadline - now)
        return max(0.0, wait_s)

    # Rounds and workers.

    def _begin_round(self, store: str, num_workers: int) -> None:
        """Begin a round on which TorchElastic has agreed; all its workers start from the last
        checkpoint."""
        if self.status.change is not None and num_workers == len(self._wanted):
            self._global_batch = self.status.change.global_batch
        if self.status.phase is Phase.FINISHING:  # TorchElastic has started the workers once more
            self.status.phase = Phase.STARTING if self.status.change is not None else Phase.RUNNING
            self._agents.admit(self._wanted)
        number, checkpoint = self.status.next_number(), self.status.checkpoint
        self._rounds.begin(number, store, num_workers, self._global_batch, checkpoint)
        self.status.go_back()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._options.runtime.start_timeout_s

    def _heard_worker(self, round_: Round, rank: int, message: Message) -> None:
        if isinstance(message, Failed):
            self._worker_failed(rank, message)
            return
        if isinstance(message, Left):
            round_.workers[rank].has_left = True
            if all(worker.has_left for worker in round_.workers.values()):
                self._rounds.let_go()
        if rank != 0:
            return
        if isinstance(message, JobReport):
            self.status.stand(message.progress)
        match message:
            case FirstStep():
                self._first_step(round_, message)
            case StepsDone():
                if self.status.change is None and not self._agents.lost:
                    self.status.say(ReportKind.PROGRESS)
            case Left():
                self.status.overruns += message.overruns
                if message.finished:
                    self.status.phase = Phase.FINISHING
                    self._deadline = None
            case StoppedAtCheckpoint():
                self.status.saved(message)
                self._end(Ending(Fate.SUSPENDED), kill=False)
            case Finished():
                results = self.status.results(message)
                self._end(Ending(Fate.FINISHED, results=results), kill=False)
            case Beat() | CheckpointWritten() | Warned():
                pass  # a sign of life, or handled by ``heard`` or the driver
            case _:
                raise ControlError(f"a worker sent {kind_of(message)!r}")

    def _worker_failed(self, rank: int, message: Failed) -> None:
        """End the job if a worker reports an error that starting it again would not mend."""
        if message.of_machine:
            self._lose(f"worker {rank}: {message.reason}", of_machine=True)
        elif not message.collective:
            # TorchElastic would start it again until max_restarts, with the same result.
            reason = f"worker {rank}: {message.reason}; logs: {self.order.job_dir}"
            self._end(Ending(Fate.FAILED, reason))

    def _first_step(self, round_: Round, message: FirstStep) -> None:
        """Record that a round trains. If it is not the wanted one, TorchElastic will make
        another."""
        round_.has_begun = True
        ranks = sorted(round_.workers)
        slots = tuple(self._agents.slot_of(round_.workers[rank].agent) for rank in ranks)
        if self.status.phase is not Phase.STOPPING and set(slots) == set(self._wanted):
            self.status.phase = Phase.RUNNING
            self._deadline = None
        change = self.status.change
        if self.status.phase is not Phase.RUNNING or (change is None and not self._agents.lost):
            return
        starts = self.status.is_starting
        staying = self._agents.staying
        self.status.phases_s = phases_of(message, staying, round_.workers[0], self._began, starts)
        stopped_s = None
        if not starts:
            job_dir, started = self.order.job_dir, message.started
            stopped_s = stopping_time_s(job_dir, round_.number, self._began, started)
        if change is not None:
            self.status.done(stopped_s)
            return
        if (early := self._asked_too_early) is not None:
            self._asked_too_early = None
            self.status.answer(early, ReportKind.RETRY, "an agent had died")
        self.status.say(
            ReportKind.SHRUNK,
            slots=slots,
            phases_s=dict(self.status.phases_s),
            stopping_time_s=stopped_s,
            **self._agents.forget_lost(),
        )

    # Consequences of events.

    def _judge(self, now: float) -> None:
        """Handle agents that have ended, and end a job that cannot go on."""
        for agent, end in self._agents.unexpected_ends():
            if self._ending is None:
                self._agent_lost(agent, end)
        if self._ending is not None:
            return
        first = self._rounds.first_agent
        if self.status.phase is Phase.FINISHING and self._agents.by_number[first].is_gone:
            self._lose(f"agent {first}: it left before its worker had told the results")
        if self._deadline is not None and now > self._deadline:
            self._lose("no step of all agents together in time")

    def _look_for_silence(self, now: float) -> None:
        """Kill agents and workers that have stopped without ending.

        A worker is killed by its agent, which starts it again as after any death of a worker.
        """
        if self._ending is not None or self.status.phase is Phase.STARTING:
            return

        def needed() -> dict[str, Connection]:
            workers = self._rounds.needed().items()
            return {name: one.connection for name, one in workers} | self._agents.needed()

        for name, silent_s in self._beats.silent(now, needed).items():
            self._agents.kill_silent(name, self._rounds.needed().get(name), silent_s)
            write_accusation(self._accusations, now, name, DRIVER, silent_s)

    def _agent_lost(self, agent: Agent, end: Exit) -> None:
        """Handle an agent that should not have ended: the others go on, if there are any."""
        if self.status.phase is Phase.FINISHING and self._rounds.first_agent != agent.number:
            agent.is_leaving = True  # its worker has no part in what is left to do
        elif (
            self.status.change is not None
            or self.status.phase is not Phase.RUNNING
            or 0 <= end.returncode < 128
        ):
            # An agent that no signal ended has given up, and has closed the rendezvous.
            self._lose(end_of(agent, end))
        elif not self._agents.staying:
            self._lose(f"the last agent has ended: {end_of(agent, end)}")
        else:
            if not self._agents.lost:
                self._began = time.monotonic()
            self._agents.lost.append(agent)
            self._wanted = tuple(slot for slot in self._wanted if slot != agent.slot.slot_id)
            self._deadline = time.monotonic() + self._options.runtime.start_timeout_s

    def _lose(self, reason: str, *, of_machine: bool = False) -> None:
        reason = f"{reason}; logs: {self.order.job_dir}"
        self._end(Ending(Fate.LOST, reason, of_machine=of_machine))

    def _end(self, ending: Ending, *, kill: bool = True) -> None:
        self._ending = ending
        self.status.phase = Phase.ENDING
        self._deadline = None
        if kill or self._rounds.present is None:
            self._agents.kill()
            return
        wait_s = min(EXIT_TIMEOUT_S, self._options.runtime.stop_timeout_s)
        self._deadline = time.monotonic() + wait_s
        self._rounds.let_go()
        # An agent that is not in the round yet would wait in vain for other agents.
        self._agents.kill(but=self._rounds.agents)

    def _gone(self) -> None:
        """Act on the ``Ending`` once every process has ended."""
        ending = self._ending
        assert ending is not None
        self._ending = self._deadline = self._rounds.present = self._asked_too_early = None
        was_killed = self._agents.is_killed_from_outside
        self._agents.forget()
        self.status.gone()
        self.status.close(ending, of_machine=ending.of_machine or was_killed)

    def _accept(self, change: Change, phase: Phase) -> None:
        self.status.accept(change)
        self._began = time.monotonic()
        self.status.phase = phase
        if phase is Phase.STARTING:
            self._deadline = self._began + self._options.runtime.start_timeout_s
