"""State machine of one job under a backend that stops and starts its workers.

A job has at most one generation of workers and at most one change in flight. An ``Ending`` records
what follows when the last process has ended; the job acts on it only then. The driver's loop
(``driver``) supplies the events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from harness.contracts.backend_reports import Report, ReportKind
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
    DrivenJob,
    JobServices,
    MakeJob,
    Saved,
    Timeouts,
)
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
from systems.runtime.wire.protocol import ControlError, Inbound, Message, kind_of
from systems.runtime.wire.step_log import LineWriter

Make: TypeAlias = Callable[["JobGroup", Change], Generation]
"""Makes the next generation of a job without starting its processes."""
CHANNELS = Channels(
    # The first worker also runs the store.
    {RankGreeting: Inbound(*PROCESS_TO_DRIVER, *STORE_TO_DRIVER, *WORKER_TO_DRIVER)}
)


def job_groups(timeouts: Timeouts, make: Make) -> MakeJob:
    """Return the function that makes a driver's jobs, for a backend that stops and starts
    workers."""

    def make_job(order: TrainingOrder, services: JobServices, before: DrivenJob | None) -> JobGroup:
        return JobGroup(order, services, timeouts, make, before.serial if before else 0)

    return make_job


class JobGroup:
    """State of one job; implements ``DrivenJob``."""

    def __init__(
        self,
        order: TrainingOrder,
        services: JobServices,
        timeouts: Timeouts,
        make: Make,
        serial: int = 0,
    ) -> None:
        self.order = order
        self.services = services
        self.target_step = order.target_step
        self.checkpoint: Saved | None = None
        """Last checkpoint on disk."""
        self.generation: Generation | None = None
        self.serial = serial
        """Number of the present generation, or of the last one."""
        self.phase = Phase.IDLE
        self.change: Change | None = None
        """Change in flight, or None."""
        self.step = 0
        self.samples = 0
        self._timeouts = timeouts
        self._beats = Beats(timeouts.hang_s, services.send)
        self._accusations = LineWriter(order.job_dir / "accusations.jsonl")
        self._make = make
        self._ending: Ending | None = None
        self._step_s = 0.0
        self._deadline: float | None = None
        self._last_step_ended: float | None = None
        self._stopping_began: float | None = None
        self._phases_s: dict[str, float] = {}
        self._overruns = 0

    # Requests. The driver has checked that no change is in flight, except for stop.

    def begin(self, change: Change) -> None:
        """Start the first generation, or the next after a suspension or a loss."""
        self.change = change
        self._phases_s = {}
        self._stopping_began = None
        self._say(ReportKind.ACCEPTED)
        self._start_generation(change)

    def alter(self, change: Change) -> None:
        """Ask a running job to save and leave, for RESCALE, MIGRATE and SUSPEND."""
        assert self.generation is not None
        self.change = change
        self._say(ReportKind.ACCEPTED)
        if self.phase is not Phase.RUNNING:
            return  # it is ending already, and that end, whatever it is, overtakes the change
        self.phase = Phase.STOPPING
        self._phases_s = {}
        self._deadline = time.monotonic() + self._timeouts.stop_s
        self.generation.tell(Stop())

    def stop(self, change: Change) -> None:
        """Kill the job, whatever it is doing; report a change in flight as failed."""
        if self.change is not None:
            self._say(ReportKind.FAILED, reason="overtaken by a stop")
        self.change = change
        self._say(ReportKind.ACCEPTED)
        if self.generation is None:
            self._done()
        else:
            self._end(Ending(Fate.STOPPED))

    def set_target_step(self, target_step: int) -> None:
        """Move the target step; a generation that is still starting gets the message later."""
        self.target_step = target_step
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
            self.checkpoint = generation.saved  # counts even if the worker has died since
        if greeting.rank != 0 or self.phase is Phase.ENDING:
            return
        if isinstance(message, JobReport):
            self.step, self.samples = message.progress.step, message.progress.samples
            self._step_s = message.progress.step_s
        match message:
            case FirstStep():
                self._first_step(generation, message)
            case StepsDone():
                if self.change is None:
                    self._say(ReportKind.PROGRESS)
            case Left():
                self._overruns += message.overruns
                self._last_step_ended = message.progress.ended
                if message.finished:
                    self.phase = Phase.FINISHING
                    self._deadline = None
            case StoppedAtCheckpoint():
                self._saved(message)
            case Finished():
                results = message.results
                if self.order.step_floor_s:
                    results["pace_overruns"] = float(self._overruns)
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
        if generation.is_losing or self.phase is Phase.ENDING:
            wait_s = min(wait_s, LOSING_WAIT_S)
        elif self.phase is Phase.STARTING:
            wait_s = min(wait_s, STARTING_WAIT_S)
        return max(0.0, wait_s)

    # Consequences of events.

    def _start_generation(self, change: Change) -> None:
        self.phase = Phase.STARTING
        self._ending = None
        self._deadline = time.monotonic() + self._timeouts.start_s
        self.serial += 1
        self.step = self.checkpoint.step if self.checkpoint else 0
        self.samples = self.checkpoint.samples if self.checkpoint else 0
        self._step_s = 0.0
        self.generation = generation = self._make(self, change)
        try:
            generation.spawn()
        except Exception as error:  # a launcher may raise anything
            self._end(not_started("workers", error, f"logs: {self.order.job_dir}"))

    def _first_step(self, generation: Generation, message: FirstStep) -> None:
        self.phase = Phase.RUNNING
        self._deadline = None
        self._phases_s |= phases_of(message, generation.spawned_at, generation.greeted_at)
        stopping_time_s = None
        if self._stopping_began is not None:
            stopping_time_s = message.started - self._stopping_began
        self._done(stopping_time_s)

    def _saved(self, message: StoppedAtCheckpoint) -> None:
        self._phases_s["save"] = message.save_s
        # negative until the end of the last process is added (``_gone``)
        self._phases_s["stop"] = -message.saved
        suspending = self.change is not None and self.change.kind is ChangeKind.SUSPEND
        self._end(Ending(Fate.SUSPENDED if suspending else Fate.RELAUNCH), kill=False)

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
            action = "start" if self.phase is Phase.STARTING else "save and stop"
            reason = f"no {action} in time: {generation.missing()}; {where}"
            self._end(Ending(Fate.LOST, reason))

    def _look_for_silence(self, generation: Generation) -> None:
        """Kill workers that have stopped without ending; ``_judge`` then sees their deaths.

        A start has its own time-out instead, since workers may not answer while they import
        libraries.
        """
        if self.phase not in (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING):
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
        self.phase = Phase.ENDING
        if kill:
            self._deadline = None
            self.generation.kill()
        else:
            self._deadline = time.monotonic() + min(EXIT_TIMEOUT_S, self._timeouts.stop_s)

    def _gone(self, generation: Generation) -> None:
        """Act on the ``Ending`` once every process has ended."""
        ending = self._ending
        assert ending is not None
        self.generation = self._ending = self._deadline = None
        self.phase = Phase.IDLE
        if "stop" in self._phases_s and self._phases_s["stop"] < 0:
            self._phases_s["stop"] += time.monotonic()
        if ending.fate is Fate.RELAUNCH:
            assert self.change is not None
            self._stopping_began = self._last_step_ended
            self._start_generation(self.change)
        elif ending.fate in (Fate.SUSPENDED, Fate.STOPPED):
            self._done()
        elif ending.fate is Fate.FINISHED:
            self.change = None
            self._say(ReportKind.FINISHED, results=ending.results, reason=ending.reason)
        else:
            of_machine = ending.of_machine or generation.is_of_machine
            # A kill from outside is the machine's fault, unless the program raised an exception
            # itself.
            if ending.fate is Fate.LOST:
                of_machine = of_machine or generation.is_killed_from_outside
            self._lost_or_failed(ending, of_machine)

    def _lost_or_failed(self, ending: Ending, of_machine: bool) -> None:
        self.step = self.checkpoint.step if self.checkpoint else 0
        self.samples = self.checkpoint.samples if self.checkpoint else 0
        self._step_s = 0.0
        if ending.fate is Fate.LOST:
            self._say(ReportKind.LOST, reason=ending.reason, of_machine=of_machine)
            self.change = None
            return
        starting = self.change is not None and self.change.kind in (
            ChangeKind.START,
            ChangeKind.RESUME,
        )
        if not starting:
            self.change = None  # the job has failed, not the change
        self._say(ReportKind.FAILED, reason=ending.reason)
        self.change = None

    def _done(self, stopping_time_s: float | None = None) -> None:
        self._say(ReportKind.DONE, stopping_time_s=stopping_time_s, phases_s=dict(self._phases_s))
        self.change = None

    def _say(self, kind: ReportKind, **details: Any) -> None:
        self.services.report(
            Report(
                kind=kind,
                job_id=self.order.job_id,
                at_s=time.monotonic(),
                change_id=self.change.change_id if self.change else None,
                step=self.step,
                samples=self.samples,
                step_s=self._step_s if self.phase is Phase.RUNNING else 0.0,
                **details,
            )
        )
