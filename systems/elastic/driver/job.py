"""Driver's state machine of one elastic job.

The job's workers change while it trains, die without ending it, and elect a leader among
themselves (``job_members.py``). The driver starts and ends processes, tells workers of deaths, and
asks the leader for changes. The job's ``Ending`` is recorded when it becomes clear, and carried out
when the last process is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from systems.elastic.driver.job_members import JobMembers
from systems.elastic.driver.launch import STORE, ElasticProcesses
from systems.elastic.driver.pending_change import Verdict
from systems.elastic.driver.processes import Process, ProcessTable
from systems.elastic.wire.messages import (
    DRIVER_CHANNELS,
    AdjustFailed,
    AdjustKept,
    AdjustRetry,
    Deposed,
    Leads,
    LeadsNot,
    Recovered,
    Recovering,
    RecoveryFailed,
    Straggler,
    Suspect,
    Switched,
)
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
    MayExit,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    StoreReady,
    Warned,
)
from systems.runtime.wire.protocol import ControlError, Message, kind_of

STORE_ATTEMPTS = 3
"""Number of store processes that may fail in a row before one serves; then the job is lost."""


class ElasticJob:
    """State of one elastic job, as the driver sees it; a ``DrivenJob``."""

    def __init__(self, processes: ElasticProcesses, serial: int) -> None:
        self.status = JobStatus(processes.order, processes.services.report, serial)
        self._processes = processes
        self._options = processes.options
        self._work: JobMembers | None = None
        self._ending: Ending | None = None
        self._deadline: float | None = None
        self._failed_at: float | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether the job has processes."""
        return self._work is not None

    # Requests. Except for ``stop``, the driver has checked that no change is in flight.

    def begin(self, change: Change) -> None:
        """Start the founders and the store; DONE is reported at the end of the first step."""
        self.status.accept(change)
        self.status.phase = Phase.STARTING
        self.status.go_back()
        self._ending = self._failed_at = None
        self._deadline = time.monotonic() + self._options.runtime.start_timeout_s
        self._work = JobMembers(self._processes, self.status, change, self._end)
        try:
            self._work.found()
        except Exception as error:  # a launcher may fail in any way it likes
            self._end_with(not_started("workers", error, self._processes.where))

    def alter(self, change: Change) -> None:
        """Ask the workers to save and leave, or ask the leader for other workers.

        While the driver removes stragglers, the change waits and is then answered with RETRY.
        """
        adjusting = self._present.adjusting
        if adjusting is not None and adjusting.removal is not None:
            self.status.change = change
            return
        self.status.accept(change)
        if self.status.phase is not Phase.RUNNING:
            return  # the job is about to end, which overtakes the change
        if change.kind is ChangeKind.SUSPEND:
            self.status.phase = Phase.STOPPING
            self._deadline = time.monotonic() + self._options.runtime.stop_timeout_s
            self._present.process_table.tell_all(Stop())
        else:
            self._present.adjust(change)

    def stop(self, change: Change) -> None:
        """Kill the job in any phase; a change in flight is reported as failed."""
        if self.status.change is not None:
            self.status.say(ReportKind.FAILED, reason="overtaken by a stop")
        self.status.accept(change)
        if self._work is None:
            self.status.done()
        else:
            self._end(Fate.STOPPED)

    def set_target_step(self, target_step: int) -> None:
        """Set another target step; workers without an order learn it from their order."""
        self.status.target_step = target_step
        if self._work is not None:
            self._work.process_table.tell_all(SetTarget(target_step=target_step))

    # Events from the driver.

    def greeted(self, connection: Connection) -> bool:
        """Accept a process that greeted with the right token. Return whether it was awaited."""
        return self._work is not None and self._work.process_table.greeted(connection)

    def heard(self, connection: Connection, message: Message) -> None:
        """Handle a process's message."""
        work, process = self._work, self._speaker(connection)
        if work is None or process is None:
            return  # a process of an earlier start
        if process.name == STORE:
            self._heard_store(work, message)
            return
        if isinstance(message, Checkpoint):
            self.status.checkpoint = Saved.of(message)  # also from one that has died since
        if self.status.phase is Phase.ENDING and not isinstance(message, Left | Failed):
            return
        if isinstance(message, JobReport):
            # The worker that has finished is the first, also if the driver does not know that yet.
            is_first = process.name in work.firsts or isinstance(message, Finished)
            if is_first and message.progress.step >= self.status.step:
                self.status.stand(message.progress)
        kind = type(message)
        if kind in OF_JOB:
            OF_JOB[kind](self, process, message)
        elif kind in OF_MEMBERS:
            OF_MEMBERS[kind](work, process, message)
        elif kind not in HANDLED_ELSEWHERE:
            raise ControlError(f"a worker sent {kind_of(message)!r}")

    def disconnected(self, connection: Connection) -> None:
        """Record that a connection has ended.

        A worker that has not left in order counts as dead, and the other workers hear so at once.
        """
        work, process = self._work, self._speaker(connection)
        if work is None or process is None or process.end is not None:
            return
        process.vanished_at = time.monotonic()
        if process.name != STORE and process.left is None and not process.failure:
            work.died(process)

    def exited(self, handle: int, end: Exit) -> None:
        """Record the end of a process."""
        work = self._work
        process = work.process_table.of_handle(handle) if work is not None else None
        if work is None or process is None:
            return  # a store that has been replaced
        work.process_table.exited(process, end)
        if process.name == STORE:
            self._store_ended(end)
        elif not process.has_left and not process.failure:
            work.died(process)
        elif process.left is not None and work.is_wanted(process):
            work.died(process)  # it left unasked
        work.recovery.deposed(process.name)  # no effect unless it led the recovery

    def check(self) -> None:
        """Act on what is overdue, has failed, or is complete."""
        work = self._work
        if work is None:
            return
        process_table = work.process_table
        now = time.monotonic()
        process_table.fence(now)
        if self._ending is None:
            if work.has_state:  # a start has its own time-out: no answers during imports
                process_table.look_for_silence(now, work.survivors)
            self._judge(work, now)
        elif self._deadline is not None and now > self._deadline:
            self._deadline = None
            workers = [f"worker {p.name}" for p in process_table.workers.values() if p.end is None]
            if workers:
                reason = tell_late_exit(self._processes.order.job_id, workers)
                self._ending = replace(self._ending, reason=reason)
            process_table.kill(process_table.all())
        if self._ending is None:
            work.settle()
        if self._ending is not None and process_table.are_gone(process_table.workers):
            if process_table.store is not None and process_table.store.end is None:
                process_table.kill([process_table.store])
            else:
                self._gone(self._ending)

    @property
    def channels(self) -> Channels:
        """Greetings and messages that the job accepts from its processes."""
        return DRIVER_CHANNELS

    def wait_s(self, now: float) -> float:
        """Return the longest time until ``check`` must be called and process ends looked for."""
        if self._work is None:
            return IDLE_WAIT_S
        process_table, adjusting = self._work.process_table, self._work.adjusting
        dues = [self._deadline, self._work.recover_by]
        if adjusting is not None:
            dues.append(adjusting.deadline)
        if self._failed_at is not None:
            dues.append(self._failed_at + FAILURE_GRACE_S)
        wait_s = min([IDLE_WAIT_S, *(due - now for due in dues if due is not None)])
        is_awaiting = adjusting is not None and adjusting.verdict is not Verdict.OPEN
        if (
            process_table.is_losing
            or self.status.phase is Phase.ENDING
            or self._work.recover_by
            or is_awaiting
        ):
            wait_s = min(wait_s, LOSING_WAIT_S)
        elif self.status.phase is Phase.STARTING or adjusting is not None:
            wait_s = min(wait_s, STARTING_WAIT_S)
        return max(0.0, wait_s)

    # Messages, by class.

    def _heard_store(self, work: JobMembers, message: Message) -> None:
        match message:
            case StoreReady():
                work.process_table.store_ready(message.address, message.port)
            case Beat():
                work.process_table.store_lives()
            case Failed():
                pass  # the end of the process follows
            case _:
                raise ControlError(f"the store sent {kind_of(message)!r}")

    def _on_first_step(self, process: Process, message: FirstStep) -> None:
        if self.status.phase is not Phase.STARTING or self._failed_at is not None:
            return  # a founder has failed, and the start with it
        self.status.phase = Phase.RUNNING
        self._deadline = None
        spawn_s = process.ordered_at - process.spawned_at
        self.status.phases_s = {"spawn": spawn_s, **message.phases_s}
        self.status.done()

    def _on_steps_done(self, process: Process, message: StepsDone) -> None:
        work = self._present
        if self.status.phase is not Phase.RUNNING or message.progress.step != self.status.step:
            return
        has_switched = work.adjusting is not None and work.adjusting.switched
        if work.recover_by is None and not has_switched:
            self.status.say(ReportKind.PROGRESS, about_change=False)

    def _on_left(self, process: Process, message: Left) -> None:
        process.left = message
        self._present.left(process)
        self.status.overruns += message.overruns
        if message.finished and self.status.phase in (Phase.STARTING, Phase.RUNNING):
            self.status.phase = Phase.FINISHING
            self._deadline = None

    def _on_stopped(self, process: Process, message: StoppedAtCheckpoint) -> None:
        # Perhaps below its last progress, after a rollback.
        self.status.stand(message.progress)
        self.status.saved(message)
        self._end(Fate.SUSPENDED, kill=False)

    def _on_finished(self, process: Process, message: Finished) -> None:
        self._end(Fate.FINISHED, results=self.status.results(message), kill=False)

    def _on_failed(self, process: Process, message: Failed) -> None:
        process.failure = message.reason
        process.is_collective = message.collective
        process.has_failed_of_machine = message.of_machine
        work = self._present
        others = [worker for worker in work.survivors() if worker != process.name]
        is_survived = (
            process.is_collective or process.has_failed_of_machine or (message.of_thread and others)
        )
        # A difference between workers ends the job, also if a newcomer reports it. The others may
        # miss the difference: their last sum fails if the newcomer ends before they have it.
        if message.is_of_all:
            self._failed_at = self._failed_at or time.monotonic()
        elif work.is_joining(process) or (is_survived and work.can_recover):
            work.died(process)
        elif work.is_wanted(process) and (process.name in work.firsts or not work.is_over):
            self._failed_at = self._failed_at or time.monotonic()

    def _store_ended(self, end: Exit) -> None:
        """Start another store: the job trains on without one, but cannot change its workers."""
        work = self._present
        process_table = work.process_table
        if self._ending is not None:
            return
        if self.status.phase is Phase.STARTING or process_table.num_stores >= STORE_ATTEMPTS:
            self._end(Fate.LOST, f"the job's store: {end.reason}; {self._processes.where}")
            return
        slot = process_table.workers[next(iter(work.survivors()), work.members[0])].slot
        try:
            process_table.spawn_store(self.status.next_number(), slot)
        except Exception as error:  # a launcher may fail in any way it likes
            ending = not_started("store", error, self._processes.where)
            self._end_with(replace(ending, fate=Fate.LOST))

    # What follows.

    def _judge(self, work: JobMembers, now: float) -> None:
        """End the job if it cannot go on; ``Fate.LOST`` if it may be resumed."""
        process_table = work.process_table
        if self._failed_at is not None and (
            now > self._failed_at + FAILURE_GRACE_S or not process_table.living()
        ):
            self._end(*self._failure(process_table))
        elif self._deadline is not None and now > self._deadline:
            action = "start" if self.status.phase is Phase.STARTING else "save and stop"
            reason = f"no {action} in time: {process_table.missing()}; {self._processes.where}"
            self._end(Fate.LOST, reason)
        else:
            work.overdue(now)

    def _failure(self, process_table: ProcessTable) -> tuple[Fate, str]:
        """Return the job's fate after the failures that workers reported, and the reason."""
        failed = [process for process in process_table.workers.values() if process.failure]
        own = [process for process in failed if not process.is_collective]
        first = (own or failed)[0]
        fate = Fate.FAILED if own and not process_table.is_of_machine else Fate.LOST
        return fate, f"worker {first.name}: {first.failure}; {self._processes.where}"

    def _end(
        self,
        fate: Fate,
        reason: str = "",
        *,
        results: Mapping[str, float | str] | None = None,
        kill: bool = True,
    ) -> None:
        if fate is Fate.LOST and self._failed_at is not None:
            # A worker has reported its own error, and only now another's death is known. The error
            # would end the job again if it were resumed, so it decides the fate.
            told, why = self._failure(self._present.process_table)
            if told is Fate.FAILED:
                fate, reason = told, why
        self._end_with(Ending(fate, reason, results or {}), kill=kill)

    def _end_with(self, ending: Ending, *, kill: bool = True) -> None:
        process_table, adjusting = self._present.process_table, self._present.adjusting
        self._ending = ending
        self.status.phase = Phase.ENDING
        if kill:
            self._deadline = None
            process_table.kill(process_table.all())
        else:
            wait_s = min(EXIT_TIMEOUT_S, self._options.runtime.stop_timeout_s)
            self._deadline = time.monotonic() + wait_s
            if adjusting is not None and not adjusting.switched:
                process_table.dismiss(adjusting.joiners)
            process_table.tell_all(MayExit())  # their state is no longer needed

    def _gone(self, ending: Ending) -> None:
        """Carry out the job's ending, now that every process has ended."""
        process_table = self._present.process_table
        deaths = process_table.deaths()
        of_machine = (
            ending.of_machine or process_table.is_of_machine or process_table.is_killed_from_outside
        )
        self._work = self._ending = self._deadline = self._failed_at = None
        self.status.gone()
        if ending.fate is Fate.LOST and not ending.reason:
            ending = replace(ending, reason=deaths)
        self.status.close(ending, of_machine=of_machine)

    # Small things.

    @property
    def _present(self) -> JobMembers:
        assert self._work is not None
        return self._work

    def _speaker(self, connection: Connection) -> Process | None:
        """Return the present process that has this connection, if any."""
        if self._work is None:
            return None
        found = (p for p in self._work.process_table.all() if p.connection is connection)
        return next(found, None)


OF_JOB: dict[type[Message], Callable[[ElasticJob, Process, Any], None]] = {
    FirstStep: ElasticJob._on_first_step,
    StepsDone: ElasticJob._on_steps_done,
    Left: ElasticJob._on_left,
    StoppedAtCheckpoint: ElasticJob._on_stopped,
    Finished: ElasticJob._on_finished,
    Failed: ElasticJob._on_failed,
}
"""Messages of workers that the job itself handles."""
OF_MEMBERS: dict[type[Message], Callable[[JobMembers, Process, Any], None]] = {
    Leads: JobMembers.on_leads,
    LeadsNot: JobMembers.on_leads_not,
    Suspect: JobMembers.on_suspect,
    Switched: JobMembers.on_switched,
    AdjustFailed: JobMembers.on_adjust_failed,
    AdjustKept: JobMembers.on_adjust_kept,
    AdjustRetry: JobMembers.on_adjust_retry,
    Recovering: JobMembers.on_recovering,
    Deposed: JobMembers.on_deposed,
    Recovered: JobMembers.on_recovered,
    RecoveryFailed: JobMembers.on_recovery_failed,
    Straggler: JobMembers.on_straggler,
}
"""Messages of workers about the membership."""
HANDLED_ELSEWHERE = (Beat, CheckpointWritten, Warned)
"""Signs of life, and messages that ``heard`` or the driver handles."""
