"""Live engine: real worker processes, the wall clock, and two ways to save time.

*Fast-forward*: once every running job has been steady for some steps, with no change in flight, the
clock jumps to just before the next known event. The skipped steps are credited instead of executed.
Steps executed and steps credited are counted separately; data, learning rate and digests follow the
executed steps. Steps credited since the last checkpoint are lost with the workers, unless the
backend would have written checkpoints in the meantime.

*Paced mode* (``pace: profile``): every step is padded to the profile's curve times ``dilation``
(wall-clock seconds per second of the engine's clock). So a few cores stand in for many
accelerators. The run is marked as emulated.

Idle time, when no job has a slot, is skipped too. Nothing is skipped while used spares are being
replaced.

When the trace takes slots down, the engine kills their workers, and every worker that starts there
before the slots are up again. Processes that only serve a job (the store of its leader election, a
rendezvous) survive. The engine reports that a slot went down once the backends have reported the
fate of its jobs. ``Breakdowns`` handles programs that crash or fail.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.contracts.abilities import Abilities
from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.event import Event, EventKind
from harness.engines.live.crashes import FAILED, Breakdowns
from harness.engines.live.job import LiveJob, samples_per_s, step_floors, training_order
from harness.engines.live.machine_failures import MachineFailures
from harness.engines.live.memory_estimate import workload_modules
from harness.engines.live.observations import SystemSampler, collect
from harness.engines.live.silent_jobs import EngineError, SilentJobs
from harness.engines.live.slot_outages import WatchedLauncher
from harness.engines.live.spares import LiveSpares, steps_to_execute
from harness.engines.setup import EngineSetup
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEventKind

if TYPE_CHECKING:
    from harness.engines.live.settings import LiveSettings

_TRAINING_AFTER = frozenset({EventKind.CHANGE_DONE, EventKind.GRANT_SHRUNK})


class LiveEngine:
    """Engine that trains for real; the module's docstring describes it. One object serves one run.

    Call ``close`` in a ``finally``.
    """

    def __init__(self, options: LiveSettings, setup: EngineSetup) -> None:
        self._processes: WatchedLauncher | None = None
        if setup.events:
            self._processes = WatchedLauncher(setup.launcher)
            setup = replace(setup, launcher=self._processes)
        self._breakdowns = Breakdowns(self._processes)
        self._machine_failures = MachineFailures()
        self._due = deque(setup.events)
        """Events of the trace that are still to come."""
        self._untold: list[Event] = []
        """Slots that went down or up again under a job whose backend has not noticed yet."""
        self._hosts_down: dict[str, float] = {}
        """Hosts that the launcher has lost, and when, on ``time.monotonic``."""
        self._cancelling: dict[str, int] = {}
        """Jobs that are being stopped for good, with the id of the change that stops each."""
        self._stalled: dict[str, str] = {}
        """The jobs in ``_cancelling`` that are stopped because they gave no sign of life, with the
        reason."""
        self._silent = SilentJobs(options.stall_timeout_s)
        self._options = options
        self._setup = setup
        self._backend = setup.backend
        self._jobs: dict[str, LiveJob] = {}
        self._ended: list[LiveJob] = []
        self._later: list[Event] = []
        """Events that had to wait for the next instant."""
        self._skipped_s = 0.0
        self._idle_skipped_s = 0.0
        self._started: float | None = None
        self._sampler = SystemSampler()
        self._spares = LiveSpares(setup, options.stall_timeout_s)
        setup.run_dir.mkdir(parents=True, exist_ok=True)
        try:
            setup.launcher.open(workload_modules(setup))
            self._backend.open(setup.cluster, setup.launcher)
        # Also after Ctrl-C: processes that the launcher has started must not stay behind.
        except BaseException:
            self.close()
            raise

    @property
    def abilities(self) -> Abilities:
        """Abilities of the configured backend."""
        return self._backend.abilities

    def now(self) -> float:
        """Return seconds since the start of the run: wall clock over dilation, plus skips."""
        if self._started is None:
            return 0.0
        wall_s = time.monotonic() - self._started
        return wall_s / self._options.dilation + self._skipped_s

    def wait(self, until_s: float) -> list[Event]:
        """Wait for workers until ``until_s``, and skip time that need not be executed."""
        options = self._options
        if self._started is None:
            # The clock begins here: to open launcher and backend takes no time of the run.
            self._started = time.monotonic()
        while True:
            if self._later:
                # Events that had to wait are older than anything that a poll can return.
                return self._one_instant([])
            due_s = self._due[0].time_s if self._due else math.inf
            if due_s <= min(until_s, self.now()):
                if events := self._one_instant(self._happen()):
                    return events
                continue
            next_s = min(until_s, due_s)
            self._skip(next_s)
            left_s = (next_s - self.now()) * options.dilation
            if left_s <= 0:
                # The trace's events of this time are carried out before the replay goes on.
                if due_s <= until_s:
                    continue
                return []
            # Silent jobs must be looked for twice a second; ``HELD_UP_S`` relies on this bound.
            reports = self._backend.poll(min(left_s, 0.5))
            self._sampler.sample(self._started)
            self._note_hosts()
            events = [event for report in reports for event in self._translate(report)]
            self._stop_silent()
            if events := self._one_instant(events):
                return events

    @property
    def is_idle(self) -> bool:
        """True if no job has workers or a change in flight and all events have been reported."""
        return not (self._due or self._later or self._untold or self._occupied())

    def _one_instant(self, events: list[Event]) -> list[Event]:
        """Return events of one instant in the documented order, and keep the rest for the next
        instant.

        An event waits if its order would put it before an earlier event of the same job. All later
        events wait with it.

        GRANT_SHRUNK never waits, because a scheduler that has not seen it could change a grant that
        is gone. Progress of the same job before it is dropped, because GRANT_SHRUNK reports that
        too.
        """
        events, self._later = self._later + events, []
        shrunk = {e.job_id: i for i, e in enumerate(events) if e.kind is EventKind.GRANT_SHRUNK}
        events = [
            event
            for index, event in enumerate(events)
            if event.kind is not EventKind.PROGRESS or index > shrunk.get(event.job_id, -1)
        ]
        last: dict[str, EventKind] = {}
        for index, event in enumerate(events):
            if event.kind < last.get(event.job_id, event.kind):
                events, self._later = events[:index], events[index:]
                break
            last[event.job_id] = event.kind
        if not self._later:
            # A slot is reported down in the instant in which the loss of its jobs is known, as in
            # simulation.
            events = events + self._tell()
        # One time for all: the replay handles what it gets at once as one instant.
        now_s = self.now()
        events = [replace(event, time_s=now_s) for event in events]
        return sorted(events, key=lambda event: event.kind)

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Hand the changes to the backend. Return no event, because a live change takes time."""
        for change in changes:
            job_id = change.job.job_id
            if job_id in self._cancelling:
                continue  # the job is being stopped, so the change is void
            if change.kind is ChangeKind.START:
                # A job that was lost before its first step starts again; its losses stay counted.
                every = self._backend.checkpoint_every
                self._jobs.setdefault(job_id, LiveJob(change.job, change.global_batch, every))
            job = self._jobs[job_id]
            job.begin(change, time.monotonic())
            # Before the backend starts a worker: on a slot that is down the launcher kills it at
            # once.
            self._breakdowns.widen(job)
            if change.kind is ChangeKind.START:
                order = training_order(job, self._setup, self._floors(job), self._options)
                self._backend.start(change, order)
            elif change.kind is ChangeKind.SUSPEND:
                self._backend.suspend(change)
            elif change.kind is ChangeKind.STOP:
                self._backend.stop(change)
            else:
                if change.kind is ChangeKind.RESUME:
                    self._backend.resume(change)
                else:
                    self._backend.rescale(change)
                # The change may bring a smaller batch, which moves the last step (``target_step``).
                self._backend.set_target_step(job_id, job.target_step)
        return []

    def observe(self, records: RunRecords) -> None:
        """Add executed steps, evaluations, system samples and the facts of this run."""
        assert self._started is not None
        collect(records, self._ended, self._setup, self._started)
        records.system.extend(self._sampler.samples)
        records.facts["idle_skipped_s"] = self._idle_skipped_s
        records.facts["fast_forwarded_s"] = self._skipped_s - self._idle_skipped_s
        records.facts["dilation"] = self._options.dilation
        if self._machine_failures.total:
            records.facts["machine_failures"] = float(self._machine_failures.total)
        records.facts |= self._spares.facts()

    def close(self) -> None:
        """End every worker and close the launcher."""
        try:
            self._backend.close()
        finally:
            # Whatever the backend raises: the launcher kills the processes that are left.
            self._setup.launcher.close()

    def _floors(self, job: LiveJob) -> dict[int, float]:
        if self._options.pace == "none":
            return {}
        return step_floors(job.spec, self._setup, self._options.dilation)

    def _translate(self, report: Report) -> list[Event]:
        """Return the events on this engine's clock that a backend's report means."""
        job = self._jobs.get(report.job_id)
        if job is None:
            return []
        now_s = self.now()
        # Before the report is noted: a loss sends the job back to its checkpoint, and failures of
        # the machine are judged by the furthest point that the job had reached.
        samples_done = job.samples_done
        is_broken = report.job_id in self._breakdowns
        job.note(report, is_outage=is_broken or job.may_run_on(self._untold_down()))
        has_failed = self._breakdowns.settle(job, report)
        # A job that ended before it could be stopped has finished.
        if report.job_id in self._cancelling and report.kind is not ReportKind.FINISHED:
            return self._cancelled(job, report)
        if report.kind in (ReportKind.DONE, ReportKind.SHRUNK) or job.in_flight:
            # Steps executed in the meantime may have had another batch, which moves the last step.
            self._backend.set_target_step(job.spec.job_id, job.target_step)
        # The folder differs from run to run, and records must not.
        reason = report.reason.replace(f"{self._setup.run_dir}/", "")
        if report.of_machine:
            self._machine_failures.note(job, samples_done, reason)
        match report.kind:
            case ReportKind.PROGRESS:
                return [
                    Event(
                        now_s,
                        EventKind.PROGRESS,
                        job.spec.job_id,
                        samples_done=job.samples_done,
                        samples_per_s=self._rate(job),
                    )
                ]
            case ReportKind.ACCEPTED:
                kind = EventKind.CHANGE_ACCEPTED
            case ReportKind.RETRY:
                kind = EventKind.CHANGE_RETRY
            case ReportKind.DONE:
                kind = EventKind.CHANGE_DONE
            case ReportKind.FAILED:
                # Without a change of its own, or without workers to go on with, the job is over.
                goes_on = report.change_id is not None and job.is_alive
                kind = EventKind.CHANGE_FAILED if goes_on else EventKind.JOB_FAILED
            case ReportKind.LOST:
                # After three losses in a row without a finished change, the program is at fault.
                is_over = has_failed or job.num_losses >= 3
                kind = EventKind.JOB_FAILED if is_over else EventKind.GRANT_LOST
            case ReportKind.SHRUNK:
                kind = EventKind.GRANT_SHRUNK
            case ReportKind.FINISHED:
                kind = EventKind.JOB_FINISHED
        if kind in (EventKind.JOB_FINISHED, EventKind.JOB_FAILED):
            self._ended.append(self._jobs.pop(report.job_id))
        return [
            Event(
                now_s,
                kind,
                job.spec.job_id,
                change_id=report.change_id,
                samples_done=job.samples_done,
                samples_per_s=self._rate(job) if kind in _TRAINING_AFTER else 0.0,
                stopping_time_s=report.stopping_time_s,
                phases_s=dict(report.phases_s),
                reason=FAILED if has_failed else reason,
                slots=report.slots,
                num_stragglers=len(report.stragglers),
            )
        ]

    def _happen(self) -> list[Event]:
        """Carry out the trace's next events, all of one time, and return the events to report.

        Later events are reported separately even if they are due, so that no decision rests on an
        outdated state. ``_tell`` reports events of slots.
        """
        assert self._processes is not None
        now_s = self.now()
        at_s = self._due[0].time_s
        events: list[Event] = []
        while self._due and self._due[0].time_s == at_s:
            event = self._due.popleft()
            if event.kind is TraceEventKind.CANCEL:
                events += self._cancel(event.job_id)
            elif event.kind.is_of_job:
                job = self._jobs.get(event.job_id)
                if job is not None and event.job_id not in self._cancelling:
                    self._breakdowns.begin(job, is_fatal=event.kind is TraceEventKind.FAIL)
            elif event.kind is TraceEventKind.SLOTS_DOWN:
                self._processes.take_down(event.slots)
                self._go_down(event.slots)
            else:
                self._processes.bring_up(event.slots)
                self._untold += [Event(now_s, EventKind.SLOT_UP, slot=slot) for slot in event.slots]
        return events

    def _note_hosts(self) -> None:
        """Note hosts that the launcher has lost, or that are back, as the fate of their slots."""
        for event in self._setup.launcher.host_events():
            slots = tuple(
                slot
                for host in self._setup.cluster.hosts
                if host.address == event.address
                for slot in host.slots
            )
            if event.is_up:
                self._hosts_down.pop(event.address, None)
                now_s = self.now()
                self._untold += [Event(now_s, EventKind.SLOT_UP, slot=slot) for slot in slots]
            else:
                self._hosts_down[event.address] = time.monotonic()
                self._go_down(slots)

    def _go_down(self, slots: tuple[int, ...]) -> None:
        """Note slots that went down. An unreported SLOT_UP of such a slot is dropped."""
        # A slot that fails again before its repair was reported has never been up for the
        # scheduler.
        before = self._untold_down()
        self._untold = [
            event
            for event in self._untold
            if event.kind is EventKind.SLOT_DOWN or event.slot not in slots
        ]
        self._untold += [
            Event(self.now(), EventKind.SLOT_DOWN, slot=slot)
            for slot in slots
            if slot not in before
        ]

    def _untold_down(self) -> set[int]:
        down = [event.slot for event in self._untold if event.kind is EventKind.SLOT_DOWN]
        return {slot for slot in down if slot is not None}

    def _tell(self) -> list[Event]:
        """Return the pending slot events of slots on which no job has workers or is about to have
        them.

        So no view shows a job that holds a slot which is down.
        """
        known: list[Event] = []
        unknown: list[Event] = []
        for event in self._untold:
            assert event.slot is not None
            is_held = any(job.may_run_on((event.slot,)) for job in self._jobs.values())
            (unknown if is_held else known).append(event)
        self._untold = unknown
        return known

    def _cancel(self, job_id: str) -> list[Event]:
        """Stop a job for good; a job that never started ends at once."""
        job = self._jobs.get(job_id)
        if job is None:
            return [Event(self.now(), EventKind.JOB_CANCELLED, job_id)]
        self._stalled.pop(job_id, None)  # a cancellation by the owner overrides the stall
        if job_id not in self._cancelling:
            self._stop(job)
        return []

    def _stop(self, job: LiveJob) -> None:
        number = -1 - len(self._cancelling)  # negative: the replay's own ids count from 1
        self._cancelling[job.spec.job_id] = number
        batch = job.global_batch
        self._backend.stop(Change(number, ChangeKind.STOP, job.spec, (), (), batch))

    def _stop_silent(self) -> None:
        """Stop jobs that give no sign of life; each job has failed once its processes are gone.

        Raises:
            EngineError: processes of a job that was stopped earlier still do not end.
        """
        for job_id, reason in self._silent.look(self._jobs.values(), time.monotonic()).items():
            if job_id in self._cancelling:
                raise EngineError(f"job {job_id} was killed, and does not end: {reason}")
            self._stalled[job_id] = reason
            self._stop(self._jobs[job_id])

    def _cancelled(self, job: LiveJob, report: Report) -> list[Event]:
        """Return the end of a job that is being stopped; its other reports have no effect."""
        job_id = job.spec.job_id
        if report.change_id != self._cancelling[job_id]:
            return []
        self._ended.append(self._jobs.pop(job_id))
        reason = self._stalled.pop(job_id, "")
        kind = EventKind.JOB_FAILED if reason else EventKind.JOB_CANCELLED
        return [Event(self.now(), kind, job_id, samples_done=job.samples_done, reason=reason)]

    def _rate(self, job: LiveJob) -> float:
        return samples_per_s(job, self._setup, is_paced=self._options.pace == "profile")

    def _occupied(self) -> list[LiveJob]:
        """Return the jobs that have workers, or a change or an end in flight."""
        return [
            job
            for job in self._jobs.values()
            if job.num_workers or job.in_flight or job.spec.job_id in self._cancelling
        ]

    def _skip(self, until_s: float) -> None:
        """Jump over idle time, or over steady training, to just before the next event."""
        running = self._occupied()
        now_s = self.now()
        if not running:
            # A lost host may come back, for which jobs wait as long as for a sign of life.
            lost_at = max(self._hosts_down.values(), default=-math.inf)
            if time.monotonic() - lost_at < self._options.stall_timeout_s:
                return
            if math.isinf(until_s):
                # The replay catches exactly this type, and names the jobs that wait.
                raise RuntimeError("no job has a slot and nothing is due")
            # No spare is replaced in skipped time: later changes would find none.
            if self._spares.are_awaited():
                return
            self._skipped_s += max(0.0, until_s - now_s)
            self._idle_skipped_s += max(0.0, until_s - now_s)
            return
        options = self._options
        if (
            not options.fast_forward
            or self._spares.are_awaited()
            or self._untold
            or self._breakdowns
            or any(
                job.in_flight
                or job.steady_steps < steps_to_execute(self._setup, options.steady_steps)
                or job.steps_executed < options.first_steps
                or job.is_ending
                or job.spec.job_id in self._cancelling
                for job in running
            )
        ):
            return
        rates = {job.spec.job_id: self._rate(job) for job in running}
        # The steps of a jump are credited by speed, so every speed has to be known.
        if not all(rates.values()):
            return
        slowest_step_s = max(job.global_batch / rates[job.spec.job_id] for job in running)
        horizon_s = until_s - slowest_step_s
        for job in running:
            rate = rates[job.spec.job_id]
            margin = options.margin_steps * job.global_batch
            horizon_s = min(horizon_s, now_s + (job.samples_left - margin) / rate)
        jump_s = horizon_s - now_s
        if jump_s <= slowest_step_s:
            return
        self._skipped_s += jump_s
        for job in running:
            job.credit(rates[job.spec.job_id] * jump_s)
            self._backend.set_target_step(job.spec.job_id, job.target_step)
