"""The driver's loop over all jobs of a backend: messages and exits of their processes, on one
thread.

Backends on this runtime are thin wrappers of ``Driver``. Each job's state machine (``driven_job``)
decides what the job does with an event.
"""

from __future__ import annotations

import secrets
import signal
import sys
import time
from functools import partial

from harness.cluster import Cluster
from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.launcher import Launcher
from harness.contracts.process import ProcessSpec
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.job_protocol import (
    IDLE_WAIT_S,
    LOSING_WAIT_S,
    DrivenJob,
    JobServices,
    MakeJob,
)
from systems.runtime.driver.slots_check import slots_problem
from systems.runtime.driver.warm_pool import RuntimeSetupError, WarmPool
from systems.runtime.wire.control_server import Admission, Connection, ControlServer
from systems.runtime.wire.messages import Checkpoint, CheckpointKnown, Warned
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.protocol import Message

# Bounded, since a killed process may still wait for a disk that does not answer.
CLOSE_TIMEOUT_S = 20.0


class Driver:
    """Owner of all jobs' processes and connections. Requests return at once; ``poll`` does the
    work."""

    def __init__(
        self, options: RuntimeOptions, cluster: Cluster, launcher: Launcher, make_job: MakeJob
    ) -> None:
        """Open the control server and prepare warm processes as ``options`` ask.

        Raises:
            RuntimeSetupError: the host lacks the address, or warm processes could not be prepared.
        """
        self._cluster = cluster
        self._launcher = launcher
        self._make_job = make_job
        self._jobs: dict[str, DrivenJob] = {}
        self._admissions: dict[str, Admission] = {}
        self._owners: dict[int, DrivenJob] = {}
        """Job of each process, by handle."""
        self._speakers: dict[Connection, DrivenJob] = {}
        self._reports: list[Report] = []
        self._is_closed = False
        self._virtual = options.virtual
        try:
            self._server = ControlServer(
                options.bind, self._admissions.get, self._on_message, self._on_closed
            )
        except OSError as error:
            raise RuntimeSetupError(
                f"cannot listen on bind={options.bind!r}: {error}; give an address of this machine"
            ) from None
        self._warming = WarmPool(options, cluster, launcher, self._server.wait)
        try:
            self._warming.open()
        except BaseException:
            self._server.close()
            raise

    def _slots_problem(self, change: Change) -> str | None:
        return slots_problem(change, self._cluster, virtual=self._virtual)

    # Requests from the backend.

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job from scratch; ignore anything that it wrote before."""
        before = self._jobs.get(order.job_id)
        if before is not None and (before.status.change is not None or before.is_alive):
            self._answer(change, ReportKind.RETRY, "the job still has workers")
            return
        if (problem := self._slots_problem(change)) is not None:
            self._answer(change, ReportKind.FAILED, problem)
            return
        order.job_dir.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(32)
        services = JobServices(
            token=token,
            report=self._reports.append,
            launch=partial(self._launch, order.job_id),
            server=self._server,
            launcher=self._launcher,
        )
        job = self._make_job(order, services, before.status.serial if before is not None else 0)
        self._jobs[order.job_id] = job
        self._admissions[order.job_id] = Admission(token, job.channels)
        self._warming.begins(order, change)
        # Last: ``begin`` launches processes, which need the job's entries in both dictionaries.
        job.begin(change)

    def resume(self, change: Change) -> None:
        """Start workers from the last checkpoint, or from scratch if there is none."""
        job = self._free_job(change)
        if job is None:
            return
        if job.is_alive:
            self._answer(change, ReportKind.FAILED, "the job runs; only a stopped one resumes")
        elif (problem := self._slots_problem(change)) is not None:
            self._answer(change, ReportKind.FAILED, problem)
        else:
            job.begin(change)

    def alter(self, change: Change) -> None:
        """Change a running job's workers, for RESCALE, MIGRATE or SUSPEND."""
        job = self._free_job(change)
        if job is None:
            return
        suspends = change.kind is ChangeKind.SUSPEND
        problem = None if suspends else self._slots_problem(change)
        if not job.is_alive:
            problem = "the job has no workers; start or resume it first"
        if problem is not None:
            self._answer(change, ReportKind.FAILED, problem)
        else:
            job.alter(change)

    def stop(self, change: Change) -> None:
        """Kill a job, whatever it is doing."""
        job = self._jobs.get(change.job.job_id)
        if job is None:
            self._answer(change, ReportKind.FAILED, "no such job was started")
        elif job.status.change is not None and job.status.change.kind is ChangeKind.STOP:
            self._answer(change, ReportKind.RETRY, "it is being stopped already")
        else:
            job.stop(change)

    def refuse(self, change: Change, reason: str) -> None:
        """Answer a change that this backend cannot make."""
        self._answer(change, ReportKind.FAILED, reason)

    def set_target_step(self, job_id: str, target_step: int) -> None:
        """Move a job's target step; do nothing if the job is unknown."""
        if job_id in self._jobs:
            self._jobs[job_id].set_target_step(target_step)

    # The loop.

    def poll(self, timeout_s: float) -> list[Report]:
        """Return the reports since the last call; wait up to ``timeout_s`` for the first."""
        deadline = time.monotonic() + timeout_s
        wait_s = 0.0
        while True:
            self._pump(wait_s)
            now = time.monotonic()
            if self._reports or now >= deadline:
                break
            due_s = [job.wait_s(now) for job in self._jobs.values()]
            wait_s = min([deadline - now, IDLE_WAIT_S, *due_s])
        reports = self._reports[:]
        self._reports.clear()
        return reports

    def close(self) -> None:
        """Kill every worker and wait until all have ended, for at most ``CLOSE_TIMEOUT_S``; safe to
        call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        for handle in list(self._owners):
            self._launcher.signal(handle, signal.SIGKILL)
        self._warming.close()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while time.monotonic() < deadline and (self._owners or not self._warming.are_gone()):
            self._server.wait(LOSING_WAIT_S)
            for end in self._launcher.ended():
                self._owners.pop(end.handle, None)  # no job is told any more
        self._server.close()

    def _pump(self, wait_s: float) -> None:
        """Run one round: handle messages, then exits, then whatever is overdue."""
        self._server.wait(wait_s)
        for end in self._launcher.ended():
            job = self._owners.pop(end.handle, None)
            if job is not None:
                job.exited(end.handle, end)
        # Only after all exits: a job judges its workers' ends together.
        for job in self._jobs.values():
            job.check()
        self._warming.check(self._jobs)

    def _launch(self, job_id: str, spec: ProcessSpec) -> int:
        handle = self._launcher.start(spec)
        self._owners[handle] = self._jobs[job_id]
        return handle

    def _on_message(self, connection: Connection, message: Message) -> None:
        greeting = connection.greeting
        job_id = greeting.job_id
        if message is greeting:
            job = self._jobs[job_id]
            if job.greeted(connection):
                self._speakers[connection] = job
            else:  # a worker that is being killed
                self._server.close_connection(connection)
        elif connection in self._speakers:
            self._speakers[connection].heard(connection, message)
            if isinstance(message, Checkpoint):
                # The worker may remove the checkpoint before it only now: a host that is cut off
                # goes on for a while, and the job resumes from the last checkpoint known here.
                self._server.send(connection, CheckpointKnown(path=message.path))
            if isinstance(message, Warned):
                print(f"warning: job {job_id}: {message.text}", file=sys.stderr)

    def _on_closed(self, connection: Connection) -> None:
        job = self._speakers.pop(connection, None)
        if job is not None:
            job.disconnected(connection)

    def _free_job(self, change: Change) -> DrivenJob | None:
        """Return the job of a change that may begin now; otherwise answer the change and return
        None."""
        job = self._jobs.get(change.job.job_id)
        if job is None:
            self._answer(change, ReportKind.FAILED, "no such job was started")
        elif job.status.change is not None:
            reason = f"a {job.status.change.kind.value} of the job is in flight"
            self._answer(change, ReportKind.RETRY, reason)
            job = None
        return job

    def _answer(self, change: Change, kind: ReportKind, reason: str) -> None:
        """Answer a change that does not begin; the job stays as it was."""
        job = self._jobs.get(change.job.job_id)
        self._reports.append(
            Report(
                kind=kind,
                job_id=change.job.job_id,
                at_s=time.monotonic(),
                change_id=change.change_id,
                step=job.status.step if job is not None else 0,
                samples=job.status.samples if job is not None else 0,
                reason=reason,
            )
        )
