"""State machine of one job under a backend that stops and starts its workers.

A job has at most one generation of workers and at most one change in flight. An ``Ending`` records
what follows when the last process has ended; the job acts on it only then. The driver's loop
(``driver``) supplies the events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from harness.contracts.training_order import TrainingOrder
from systems.restart.generation import Generation, phases_of
from systems.runtime.driver.beats import DRIVER, Beats, write_accusation
from systems.runtime.driver.ending import (
    EXIT_TIMEOUT_S,
    FAILURE_GRACE_S,
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
from systems.runtime.driver.job_status import JobStatus
from systems.runtime.wire.control_server import Channels, Connection
from systems.runtime.wire.messages import (
    PROCESS_TO_DRIVER,
    STORE_TO_DRIVER,
    WORKER_TO_DRIVER,
    Beat,
    Checkpoint,
    CheckpointWritten,
    Failed,
    Finished,
    FirstStep,
    JobReport,
    Left,
    RankGreeting,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    StoreReady,
    Warned,
)
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.protocol import ControlError, Inbound, Message, kind_of
from systems.runtime.wire.step_log import LineWriter

Make: TypeAlias = Callable[["JobGroup", Change], Generation]
"""Makes the next generation of a job without starting its processes."""
CHANNELS = Channels(
    # The first worker also runs the store.
    {RankGreeting: Inbound(*PROCESS_TO_DRIVER, *STORE_TO_DRIVER, *WORKER_TO_DRIVER)}
)


class JobGroup:
    """State of one job; implements ``DrivenJob``."""

    def __init__(
        self,
        options: RuntimeOptions,
        make: Make,
        order: TrainingOrder,
        services: JobServices,
        serial: int,
    ) -> None:
        self.order = order
        self.services = services
        self.status = JobStatus(order, services.report, serial)
        self.generation: Generation | None = None
        self._options = options
        self._beats = Beats(options.hang_timeout_s, services.send)
        self._accusations = LineWriter(order.job_dir / "accusations.jsonl")
        self._make = make
        self._ending: Ending | None = None
        self._deadline: float | None = None
        self._last_step_ended: float | None = None
        self._stopping_began: float | None = None

    # Requests. The driver has checked that no change is in flight, except for stop.

    def begin(self, change: Change) -> None:
        """Start the first generation, or the next after a suspension or a loss."""
        self.status.accept(change)
        self._stopping_began = None
        self._start_generation(change)

    def alter(self, change: Change) -> None:
        """Ask a running job to save and leave, for RESCALE, MIGRATE and SUSPEND."""
        assert self.generation is not None
        self.status.accept(change)
        if self.status.phase is not Phase.RUNNING:
            return  # it is ending already, and that end, whatever it is, overtakes the change
        self.status.phase = Phase.STOPPING
        self._deadline = time.monotonic() + self._options.stop_timeout_s
        self.generation.tell(Stop())

    def stop(self, change: Change) -> None:
        """Kill the job, whatever it is doing; report a change in flight as failed."""
        if self.status.change is not None:
            self.status.say(ReportKind.FAILED, reason="overtaken by a stop")
        self.status.accept(change)
        if self.generation is None:
            self.status.done()
        else:
            self._end(Ending(Fate.STOPPED))

    def set_target_step(self, target_step: int) -> None:
        """Move the target step; a generation that is still starting gets the message later."""
        self.status.target_step = target_step
        if self.generation is not None:
            self.generation.tell(SetTarget(target_step=target_step))

    # Events from the driver.

    def greeted(self, connection: Connection) -> bool:
        """Accept a worker that sent the right token, if it belongs to the present generation."""
        greeting = connection.greeting
        assert isinstance(greeting, RankGreeting)
        generation = self.generation
        if generation is None or greeting.generation != generation.number:
            return False
        return generation.connected(greeting.rank, connection)

    def heard(self, connection: Connection, message: Message) -> None:
        """Handle a worker's message; only rank 0 moves the job on."""
        greeting, generation = connection.greeting, self.generation
        assert isinstance(greeting, RankGreeting)
        if generation is None or greeting.generation != generation.number:
            return  # from a worker that is being killed
        generation.note(greeting.rank, message)
        if isinstance(message, Checkpoint):
            self.status.checkpoint = generation.saved  # counts even if the worker has died since
        if greeting.rank != 0 or self.status.phase is Phase.ENDING:
            return
        if isinstance(message, JobReport):
            self.status.stand(message.progress)
        match message:
            case FirstStep():
                self._first_step(generation, message)
            case StepsDone():
                if self.status.change is None:
                    self.status.say(ReportKind.PROGRESS)
            case Left():
                self.status.overruns += message.overruns
                self._last_step_ended = message.progress.ended
                if message.finished:
                    self.status.phase = Phase.FINISHING
                    self._deadline = None
            case StoppedAtCheckpoint():
                self._saved(message)
            case Finished():
                results = self.status.results(message)
                self._end(Ending(Fate.FINISHED, results=results), kill=False)
            case Beat() | Failed() | CheckpointWritten() | StoreReady() | Warned():
                pass  # a sign of life, or handled by the generation or the driver
            case _:
                raise ControlError(f"a worker sent {kind_of(message)!r}")

    def disconnected(self, connection: Connection) -> None:
        """Do nothing: the end of the process says what it means."""

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a worker process."""
        generation = self.generation
        rank = generation.rank_of(handle) if generation is not None else None
        if generation is not None and rank is not None:
            generation.exited(rank, end)

    def check(self) -> None:
        """Check whether something is overdue, has failed, or is complete, and act on it."""
        generation = self.generation
        if generation is None:
            return
        if self._ending is None:
            self._judge(generation)
            self._look_for_silence(generation)
        elif self._deadline is not None and time.monotonic() > self._deadline:
            self._deadline = None
            workers = [f"worker {rank}" for rank in generation.alive()]
            reason = tell_late_exit(self.order.job_id, workers)
            self._ending = replace(self._ending, reason=reason)
            generation.kill()
        if self._ending is not None and generation.is_gone:
            self._gone(generation)

    @property
    def is_alive(self) -> bool:
        """True while the job has processes."""
        return self.generation is not None

    @property
    def channels(self) -> Channels:
        """Greetings and messages that the job accepts from its workers."""
        return CHANNELS

    def wait_s(self, now: float) -> float:
        """Return the longest time until ``check`` must be called and ended processes must be looked
        for."""
        generation = self.generation
        wait_s = IDLE_WAIT_S
        if generation is None:
            return wait_s
        if self._ending is None and generation.failures:
            wait_s = min(wait_s, generation.failed_at + FAILURE_GRACE_S - now)
        elif self._deadline is not None:
            wait_s = min(wait_s, self._deadline - now)
        if generation.is_losing or self.status.phase is Phase.ENDING:
            wait_s = min(wait_s, LOSING_WAIT_S)
        elif self.status.phase is Phase.STARTING:
            wait_s = min(wait_s, STARTING_WAIT_S)
        return max(0.0, wait_s)

    # Consequences of events.

    def _start_generation(self, change: Change) -> None:
        self.status.phase = Phase.STARTING
        self._ending = None
        self._deadline = time.monotonic() + self._options.start_timeout_s
        self.status.serial += 1
        self.status.go_back()
        self.generation = generation = self._make(self, change)
        try:
            generation.spawn()
        except Exception as error:  # a launcher may raise anything
            self._end(not_started("workers", error, f"logs: {self.order.job_dir}"))

    def _first_step(self, generation: Generation, message: FirstStep) -> None:
        self.status.phase = Phase.RUNNING
        self._deadline = None
        self.status.phases_s |= phases_of(message, generation.spawned_at, generation.greeted_at)
        stopping_time_s = None
        if self._stopping_began is not None:
            stopping_time_s = message.started - self._stopping_began
        self.status.done(stopping_time_s)

    def _saved(self, message: StoppedAtCheckpoint) -> None:
        self.status.saved(message)
        change = self.status.change
        suspends = change is not None and change.kind is ChangeKind.SUSPEND
        self._end(Ending(Fate.SUSPENDED if suspends else Fate.RELAUNCH), kill=False)

    def _judge(self, generation: Generation) -> None:
        """End a job that cannot go on: as LOST if it may be resumed, otherwise as FAILED."""
        where = f"logs: {self.order.job_dir}"
        unexplained = generation.unexplained_end()
        if unexplained is not None:
            self._end(Ending(Fate.LOST, f"{unexplained.reason}; {where}"))
        elif generation.failures:
            waited_s = time.monotonic() - generation.failed_at
            # Wait for other reports: a neighbour of a worker that fails may complain first.
            if waited_s < FAILURE_GRACE_S and not generation.is_gone:
                return
            own = [failure for failure in generation.failures if not failure.collective]
            first = min(own or generation.failures, key=lambda failure: failure.rank)
            is_own = own and not generation.is_of_machine
            fate = Fate.FAILED if is_own else Fate.LOST
            self._end(Ending(fate, f"worker {first.rank}: {first.reason}; {where}"))
        elif self._deadline is not None and time.monotonic() > self._deadline:
            action = "start" if self.status.phase is Phase.STARTING else "save and stop"
            reason = f"no {action} in time: {generation.missing()}; {where}"
            self._end(Ending(Fate.LOST, reason))

    def _look_for_silence(self, generation: Generation) -> None:
        """Kill workers that have stopped without ending; ``_judge`` then sees their deaths.

        A start has its own time-out instead, since workers may not answer while they import
        libraries.
        """
        if self.status.phase not in (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING):
            return
        now = time.monotonic()
        for worker, silent_s in self._beats.silent(now, generation.needed).items():
            rank = int(worker.partition(".")[2])
            generation.silent_s[rank] = silent_s
            self.services.kill(generation.handles[rank])
            write_accusation(self._accusations, now, worker, DRIVER, silent_s)

    def _end(self, ending: Ending, *, kill: bool = True) -> None:
        assert self.generation is not None
        self._ending = ending
        self.status.phase = Phase.ENDING
        if kill:
            self._deadline = None
            self.generation.kill()
        else:
            self._deadline = time.monotonic() + min(EXIT_TIMEOUT_S, self._options.stop_timeout_s)

    def _gone(self, generation: Generation) -> None:
        """Act on the ``Ending`` once every process has ended."""
        ending = self._ending
        assert ending is not None
        self.generation = self._ending = self._deadline = None
        self.status.gone()
        if ending.fate is Fate.RELAUNCH:
            assert self.status.change is not None
            self._stopping_began = self._last_step_ended
            self._start_generation(self.status.change)
            return
        # A kill from outside is the machine's fault, unless the program raised an exception itself.
        of_machine = generation.is_of_machine or generation.is_killed_from_outside
        self.status.close(ending, of_machine=ending.of_machine or of_machine)
