"""State machine of one job under torchft, to which the driver's loop supplies events.

The driver starts and ends replicas; torchft does everything else. It notices that replicas have
come or gone, makes a quorum of them, and gives newcomers the state. A change is done when a step
has ended in which exactly the wanted replicas train, with the wanted batch.

If a replica dies, the others go on. A change that is requested meanwhile is answered with RETRY
once they do. If a replica dies during a change, the change has failed: new replicas are removed,
and those that already left are lost like the dead one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from harness.cluster import Cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.beats import DRIVER, Beats, after_silence, write_accusation
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
    JobReport,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    Warned,
)
from systems.runtime.wire.protocol import ControlError, JsonObject, Message, kind_of
from systems.runtime.wire.step_log import LineWriter
from systems.torchft.messages import (
    CHANNELS,
    GenerationBegun,
    LighthouseGreeting,
    LighthouseListens,
    ReplicaGreeting,
    ReplicaLeft,
    ReplicaReady,
    TargetObeyed,
    TargetReached,
)
from systems.torchft.options import TorchftOptions
from systems.torchft.order import Target
from systems.torchft.processes import TorchftProcesses
from systems.torchft.replicas import Replica, Replicas
from systems.torchft.rescale import Rescale, crowd_problem


class TorchftJob:
    """State of one job; implements ``DrivenJob``."""

    def __init__(
        self,
        options: TorchftOptions,
        cluster: Cluster,
        order: TrainingOrder,
        services: JobServices,
        serial: int,
    ) -> None:
        self.order = order
        self.services = services
        self.status = JobStatus(order, services.report, serial)
        self._options = options
        self._replicas = Replicas(TorchftProcesses(order, services, options, cluster))
        self._num_targets = 0
        self._wanted: tuple[int, ...] = ()
        """Numbers of the replicas that train, but for a change in flight."""
        self._global_batch = 0
        self._rescale: Rescale | None = None
        self._lost: dict[int, str] = {}
        """Slots of replicas that died or were removed, with the reasons, until the others have gone
        on."""
        self._trained: tuple[tuple[int, ...], dict[str, float]] = ((), {})
        """Numbers of the replicas of the last quorum in which all train, and its phases."""
        self._asked_too_early: Change | None = None
        """Change that waits until the others have gone on without a dead replica."""
        self._finisher: int | None = None
        """Number of the replica that evaluates or saves the job, once it has said so."""
        self._ending: Ending | None = None
        self._beats = Beats(options.runtime.hang_timeout_s, services.send)
        self._accusations = LineWriter(order.job_dir / "accusations.jsonl")
        self._deadline: float | None = None

    # Requests. The driver has checked that no change is in flight, except for stop.

    @property
    def is_alive(self) -> bool:
        """True while the job has processes."""
        return self._replicas.has_processes

    def begin(self, change: Change) -> None:
        """Start a lighthouse and a replica on each slot, for START or RESUME."""
        self._accept(change, Phase.STARTING)
        self._ending = self._finisher = self._rescale = None
        self._trained = ((), {})
        self.status.go_back()
        self._global_batch = change.global_batch
        self._wanted = tuple(range(len(change.slots)))
        self.status.serial += 1
        try:
            # Fail here rather than when a replica asks for its order.
            JsonObject(self.order.workload.options).text()
            self._replicas.begin(self.status.serial, change.slots, self.status.checkpoint)
        except Exception as error:  # a launcher may raise anything
            self._end(not_started("replicas", error, f"logs: {self.order.job_dir}"))

    def alter(self, change: Change) -> None:
        """Start and end replicas for RESCALE and MIGRATE; save and stop for SUSPEND."""
        if self._asked_too_early is not None:
            self.status.answer(change, ReportKind.RETRY, "another one waits")
        elif self._lost:
            self._asked_too_early = change
        elif self.status.phase is not Phase.RUNNING:
            # it is ending already, and that end overtakes the change
            self._accept(change, self.status.phase)
        elif change.kind is ChangeKind.SUSPEND:
            self._accept(change, Phase.STOPPING)
            self._deadline = time.monotonic() + self._options.runtime.stop_timeout_s
            self._replicas.tell(Stop())
        else:
            self._begin_rescale(change)

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
        """Move the target step; replicas that are still starting get it later."""
        self.status.target_step = target_step
        self._replicas.tell(SetTarget(target_step=target_step))

    # Events from the driver.

    @property
    def channels(self) -> Channels:
        """Greetings and messages that the job accepts from its processes."""
        return CHANNELS

    def greeted(self, connection: Connection) -> bool:
        """Accept the lighthouse or a replica that sent the right token."""
        if self._ending is not None or not self.is_alive:
            return False
        batch, target_step = self._global_batch, self.status.target_step
        return self._replicas.greeted(connection, global_batch=batch, target_step=target_step)

    def heard(self, connection: Connection, message: Message) -> None:
        """Handle a message of one of its processes."""
        greeting = connection.greeting
        assert isinstance(greeting, LighthouseGreeting | ReplicaGreeting)
        if greeting.run != self._replicas.run:
            return
        if isinstance(greeting, LighthouseGreeting):
            if self._ending is None:
                self._heard_lighthouse(message)
            return
        if isinstance(message, Checkpoint):
            self.status.checkpoint = Saved.of(message)
        replica = self._replicas.by_number.get(greeting.number)
        if replica is None:
            return
        if isinstance(message, ReplicaLeft):
            replica.has_left = True
            if self._ending is not None:
                self._replicas.let_go()
        if self._ending is None:
            self._heard_replica(replica, message)

    def disconnected(self, connection: Connection) -> None:
        """Do nothing: the end of the process says what it means."""

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a process, after reading what the replicas still had sent."""
        self._replicas.drain()
        self._replicas.exited(handle, end)

    def check(self) -> None:
        """Check whether something is overdue, has failed, or is complete, and act on it."""
        now = time.monotonic()
        if self._ending is None and self.status.phase is not Phase.IDLE:
            self._judge(now)
        if self._ending is None:
            self._look_for_silence(now)
            self._go_on()
        elif self._deadline is not None and now > self._deadline:
            self._deadline = None
            reason = tell_late_exit(self.order.job_id, self._replicas.alive())
            self._ending = replace(self._ending, reason=reason)
            self._replicas.kill()
        if self._ending is None or not self._replicas.have_ended:
            return
        if self._replicas.has_processes:
            self._replicas.kill_lighthouse()
        else:
            self._gone()

    def wait_s(self, now: float) -> float:
        """Return the longest time until ``check`` must be called and ended processes must be looked
        for."""
        wait_s = IDLE_WAIT_S if self.status.change is None else STARTING_WAIT_S
        rescale = self._rescale
        if self._ending is not None or (rescale is not None and rescale.has_arrived):
            wait_s = LOSING_WAIT_S
        if self._deadline is not None:
            wait_s = min(wait_s, self._deadline - now)
        return max(0.0, wait_s)

    # Messages of the lighthouse and of replicas.

    def _heard_lighthouse(self, message: Message) -> None:
        match message:
            case LighthouseListens():
                self._replicas.found_lighthouse(message.address)
            case Failed():
                self._lose(f"lighthouse: {message.reason}", of_machine=True)
            case Beat():
                pass  # a sign of life
            case _:
                raise ControlError(f"a lighthouse sent {kind_of(message)!r}")

    def _heard_replica(self, replica: Replica, message: Message) -> None:
        if isinstance(message, JobReport) and message.progress.step >= self.status.step:
            # An earlier first replica may still have been heard later than its successor.
            self.status.stand(message.progress)
        match message:
            case Failed():
                self._heard_failure(replica, message)
            case ReplicaReady():
                replica.phases_s = message.phases_s
                self._admit()
            case GenerationBegun():
                self._replicas.let_go(only_leaving=True)
                if message.is_whole:
                    self._whole_quorum(message.members, message.phases_s)
            case TargetObeyed():
                if self._rescale is not None:
                    self._rescale.obeyed(message.target)
            case TargetReached():
                if self._rescale is not None and self._rescale.arrived(message.target):
                    self._tell_next(self._rescale)
            case StepsDone():
                if self.status.change is None and not self._lost:
                    self.status.say(ReportKind.PROGRESS)
            case ReplicaLeft():
                self._heard_leave(replica, message)
            case StoppedAtCheckpoint():
                self.status.saved(message)
                self._end(Ending(Fate.SUSPENDED), kill=False)
            case Finished():
                results = self.status.results(message)
                self._end(Ending(Fate.FINISHED, results=results), kill=False)
            case Beat() | CheckpointWritten() | Warned():
                pass  # a sign of life, or handled by ``heard`` or the driver
            case _:
                raise ControlError(f"a replica sent {kind_of(message)!r}")

    def _heard_failure(self, replica: Replica, message: Failed) -> None:
        reason = f"worker {replica.number}: {message.reason}"
        if message.of_machine:
            self._lose(reason, of_machine=True)
        elif not message.collective:
            self._end(Ending(Fate.FAILED, f"{reason}; logs: {self.order.job_dir}"))
        # otherwise the end of its process is judged

    def _heard_leave(self, replica: Replica, message: ReplicaLeft) -> None:
        if not message.is_first:
            return
        self.status.overruns += message.overruns
        self._finisher = replica.number
        if message.finished:
            self.status.phase = Phase.FINISHING
            self._deadline = None

    def _whole_quorum(self, members: tuple[int, ...], phases_s: Mapping[str, float]) -> None:
        """Record the first step of a quorum in which all its replicas train."""
        self._trained = (members, dict(phases_s))
        for number in members:
            self._replicas.by_number[number].trains = True
        for phase, seconds in phases_s.items():
            before_s = 0.0 if phase == "first_step" else self.status.phases_s.get(phase, 0.0)
            self.status.phases_s[phase] = before_s + seconds
        if set(members) != set(self._wanted) or self._rescale is not None:
            return
        if self.status.is_starting:
            self.status.phase = Phase.RUNNING
            self._deadline = None
            first_step_s = self.status.phases_s["first_step"]
            prepared_s = self._replicas.preparation_s(members)
            self.status.phases_s = {**prepared_s, "first_step": first_step_s}
            self.status.done()
        elif self._lost:
            self._shrunk()

    def _shrunk(self) -> None:
        if self.status.phase is not Phase.RUNNING:
            return
        self._deadline = None
        lost, self._lost = self._lost, {}
        if (early := self._asked_too_early) is not None:
            self._asked_too_early = None
            self.status.answer(early, ReportKind.RETRY, "a replica had died")
        self.status.say(
            ReportKind.SHRUNK,
            slots=self._replicas.slots_of(self._wanted),
            lost_slots=tuple(lost),
            reason="; ".join(dict.fromkeys(lost.values())),
            phases_s=dict(self.status.phases_s),
            stopping_time_s=self._stopping_time_s(),
        )

    # Changes of a running job.

    def _begin_rescale(self, change: Change) -> None:
        held = {self._replicas.by_number[n].slot.slot_id: n for n in self._wanted}
        if (reason := crowd_problem(held, change.slots, self._global_batch)) is not None:
            self.status.answer(change, ReportKind.FAILED, reason)
            return
        self._accept(change, self.status.phase)
        self._deadline = time.monotonic() + self._options.runtime.start_timeout_s
        try:
            new = self._replicas.add([slot for slot in change.slots if slot not in held])
        except Exception as error:
            self._lose(f"no replicas: {error}", of_machine=isinstance(error, OSError))
            return
        held |= {replica.slot.slot_id: replica.number for replica in new}
        self.status.phases_s = {"quorum": 0.0}
        self._rescale = Rescale(
            before=self._wanted,
            new=tuple(replica.number for replica in new),
            final=tuple(held[slot] for slot in change.slots),
            batch_before=self._global_batch,
            final_batch=change.global_batch,
        )
        self._admit()

    def _admit(self) -> None:
        """Let new replicas go on once all are ready."""
        if not self._replicas.are_ready():
            return
        if self.status.phase is Phase.STARTING:
            self._replicas.go(self.status.target_step)
        elif self._rescale is not None and self._rescale.target is None:
            self._tell_next(self._rescale)

    def _tell_next(self, rescale: Rescale) -> None:
        self._num_targets += 1
        self._replicas.tell(rescale.next_target(self._num_targets))
        for number in rescale.told_to_leave:
            self._replicas.by_number[number].is_leaving = True

    def _go_on(self) -> None:
        """Let newcomers join once those that leave are out; end a change that is complete."""
        rescale = self._rescale
        if rescale is None or rescale.target is None:
            return
        leaving = [self._replicas.by_number[number] for number in rescale.leaving]
        are_out = not rescale.is_final or all(each.has_left or not each.lives for each in leaving)
        if rescale.is_obeyed and are_out and self._replicas.new:
            self._replicas.go(self.status.target_step)
            self._replicas.tell(rescale.target)
        if rescale.has_arrived and not any(each.lives for each in leaving):
            assert self.status.change is not None
            self._wanted, self._rescale = rescale.final, None
            self._global_batch = self.status.change.global_batch
            self._deadline = None
            prepared_s = self._replicas.preparation_s(rescale.new)
            self.status.phases_s = {**prepared_s, **self.status.phases_s}
            self.status.done(self._stopping_time_s())

    def _fail_rescale(self, rescale: Rescale, reason: str) -> None:
        """Give a change up: remove new replicas, and those of which it is not known whether they
        have left already."""
        self.status.say(ReportKind.FAILED, reason=reason)
        self.status.change = self._rescale = None
        self._deadline = None
        self.status.phases_s = {}
        table = self._replicas.by_number
        out = rescale.told_to_leave
        self._replicas.dismiss([table[number] for number in (*rescale.new, *out)])
        for number in out:
            self._lost[table[number].slot.slot_id] = f"it was leaving when {reason}"
        self._wanted = tuple(number for number in rescale.before if number not in out)
        if not self._wanted:
            self._lose(f"no replica is left: {reason}")
        elif rescale.target is not None:
            self._num_targets += 1
            self._replicas.tell(
                Target(
                    number=self._num_targets,
                    members=self._wanted,
                    global_batch=self._global_batch,
                )
            )
            if self._lost:
                self._wait_for_others()

    def _stopping_time_s(self) -> float:
        return self.status.phases_s.get("quorum", 0.0) + self.status.phases_s.get("heal", 0.0)

    # Ends of processes.

    def _judge(self, now: float) -> None:
        """Handle processes that have ended, and end a job that cannot go on."""
        if (end := self._replicas.lighthouse_end) is not None:
            self._lose(f"lighthouse: {end.reason}")
        for dead, end in self._replicas.ends():
            if self._ending is None and not dead.is_leaving:
                self._replica_lost(dead, end)
        if self._ending is None and self._deadline is not None and now > self._deadline:
            self._lose("no step of all replicas together in time")

    def _replica_lost(self, dead: Replica, end: Exit) -> None:
        """Handle a replica that should not have ended: the others go on, if there are any."""
        dead.is_leaving = True
        reason = f"worker {dead.number}: {after_silence(end.reason, dead.silent_s)}"
        if self.status.phase is Phase.FINISHING and dead.number != self._finisher:
            return  # it has no part in what is left to do
        if self.status.phase is not Phase.RUNNING:
            self._lose(reason)
            return
        if self._rescale is not None:
            self._fail_rescale(self._rescale, reason)
        if self._ending is not None or dead.number not in self._wanted:
            return
        self._wanted = tuple(number for number in self._wanted if number != dead.number)
        self._lost[dead.slot.slot_id] = reason
        if not self._wanted:
            self._lose(f"the last replica has ended: {reason}")
        else:
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        """Report that the job has shrunk once the others have gone on."""
        members, phases_s = self._trained
        if set(members) == set(self._wanted):
            # A survivor may be heard before the launcher knows of the death.
            self.status.phases_s = phases_s
            self._shrunk()
        else:
            self.status.phases_s = {}
            self._deadline = time.monotonic() + self._options.runtime.start_timeout_s

    def _look_for_silence(self, now: float) -> None:
        """Kill processes that have stopped without ending."""
        if self.status.phase not in (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING):
            return

        def needed() -> dict[str, Connection]:
            return self._replicas.needed(only=self._finisher)

        for name, silent_s in self._beats.silent(now, needed).items():
            self._replicas.kill_silent(name, silent_s)
            write_accusation(self._accusations, now, name, DRIVER, silent_s)

    def _lose(self, reason: str, *, of_machine: bool = False) -> None:
        reason = f"{reason}; logs: {self.order.job_dir}"
        self._end(Ending(Fate.LOST, reason, of_machine=of_machine))

    def _end(self, ending: Ending, *, kill: bool = True) -> None:
        self._ending = ending
        self.status.phase = Phase.ENDING
        self._deadline = None
        if kill:
            self._replicas.kill()
            return
        wait_s = min(EXIT_TIMEOUT_S, self._options.runtime.stop_timeout_s)
        self._deadline = time.monotonic() + wait_s
        self._replicas.let_go()
        # Replicas that never trained would wait for a quorum in vain.
        table = self._replicas.by_number.values()
        self._replicas.dismiss([each for each in table if each.lives and not each.trains])

    def _gone(self) -> None:
        """Act on the ``Ending`` once every process has ended."""
        ending = self._ending
        assert ending is not None
        self._ending = self._deadline = self._asked_too_early = None
        self._rescale = self._finisher = None
        self._lost = {}
        was_killed = self._replicas.is_killed_from_outside
        self._replicas.forget()
        self.status.gone()
        self.status.close(ending, of_machine=ending.of_machine or was_killed)

    def _accept(self, change: Change, phase: Phase) -> None:
        self.status.accept(change)
        self.status.phase = phase
        if phase is Phase.STARTING:
            self._deadline = time.monotonic() + self._options.runtime.start_timeout_s
