"""The driver's loop: all jobs of a backend, their workers' messages and exits. One thread.

Backends whose workers are stopped and started as a whole are thin faces of this class.
"""

from __future__ import annotations

import secrets
import signal
import time
from pathlib import Path

from harness.cluster import Cluster
from harness.contracts.engine import Change, ChangeKind
from harness.contracts.launcher import Launcher, ProcessSpec
from harness.contracts.training import Report, ReportKind, TrainingOrder
from systems.runtime.control import Message
from systems.runtime.control_server import Connection, ControlServer
from systems.runtime.generation import Generation
from systems.runtime.job_group import JobGroup, Phase, Timeouts
from systems.runtime.options import RuntimeOptions
from systems.runtime.processes import process_spec, worker_orders

CLOSE_TIMEOUT_S = 20.0
IDLE_TICK_S = 0.25
"""How often exits are asked for when nothing hints at one. A worker that dies while it is
connected is noticed at once, by the end of its connection."""
STARTING_TICK_S = 0.05
LOSING_TICK_S = 0.005


class RuntimeSetupError(Exception):
    """The runtime cannot be made ready; the text says why and what can be done."""


class Driver:
    """See the module's text. Requests return at once; ``poll`` does the work."""

    def __init__(self, options: RuntimeOptions, cluster: Cluster, launcher: Launcher) -> None:
        """Listen, and make the launcher import what it pre-imports, if it is to.

        Raises:
            RuntimeSetupError: no such address here, or the pre-import failed.
        """
        self._options = options
        self._cluster = cluster
        self._launcher = launcher
        self._jobs: dict[str, JobGroup] = {}
        self._owners: dict[int, tuple[JobGroup, Generation, int]] = {}
        self._reports: list[Report] = []
        self._is_closed = False
        try:
            self._server = ControlServer(
                options.bind, self._token_of, self._on_message, lambda connection: None
            )
        except OSError as error:
            raise RuntimeSetupError(
                f"cannot listen on bind={options.bind!r}: {error}; give an address of this machine"
            ) from None
        if options.start == "preimported":
            try:
                self._warm_up()
            except BaseException:
                self._server.close()
                raise

    # Requests.

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start from scratch; what the job wrote before, if anything, no longer counts."""
        job = self._jobs.get(order.job_id)
        if job is not None and (job.change is not None or job.generation is not None):
            self._answer(change, ReportKind.RETRY, "the job still has workers")
            return
        if (problem := self._problem(change)) is not None:
            self._answer(change, ReportKind.FAILED, problem)
            return
        order.job_dir.mkdir(parents=True, exist_ok=True)
        begun = job.num_generations if job is not None else 0
        job = JobGroup(
            order,
            secrets.token_hex(32),
            Timeouts(self._options.start_timeout_s, self._options.stop_timeout_s),
            self._make_generation,
            self._reports.append,
        )
        job.num_generations = begun
        self._jobs[order.job_id] = job
        job.begin(change)
        self._adopt(job)

    def resume(self, change: Change) -> None:
        """Start from the last checkpoint, or from scratch where there is none."""
        job = self._free_job(change)
        if job is None:
            return
        if job.phase is not Phase.IDLE:
            self._answer(change, ReportKind.FAILED, "the job runs; only a stopped one resumes")
        elif (problem := self._problem(change)) is not None:
            self._answer(change, ReportKind.FAILED, problem)
        else:
            job.begin(change)
            self._adopt(job)

    def stop_and_save(self, change: Change) -> None:
        """RESCALE, MIGRATE or SUSPEND by way of a checkpoint."""
        job = self._free_job(change)
        if job is None:
            return
        problem = None if change.kind is ChangeKind.SUSPEND else self._problem(change)
        if job.phase is Phase.IDLE:
            problem = "the job has no workers; start or resume it first"
        if problem is not None:
            self._answer(change, ReportKind.FAILED, problem)
        else:
            job.stop_and_save(change)

    def stop(self, change: Change) -> None:
        """Kill a job, whatever it is doing."""
        job = self._jobs.get(change.job.job_id)
        if job is None:
            self._answer(change, ReportKind.FAILED, "no such job was started")
        elif job.change is not None and job.change.kind is ChangeKind.STOP:
            self._answer(change, ReportKind.RETRY, "it is being stopped already")
        else:
            job.stop(change)

    def refuse(self, change: Change, reason: str) -> None:
        """Answer a change that this backend cannot make."""
        self._answer(change, ReportKind.FAILED, reason)

    def hold(self, job_id: str, target_step: int) -> None:
        """Move a job's target; for one that is not known this means nothing."""
        if job_id in self._jobs:
            self._jobs[job_id].hold(target_step)

    # The loop.

    def poll(self, timeout_s: float) -> list[Report]:
        """Reports since the last call; waits up to ``timeout_s`` for the first."""
        deadline = time.monotonic() + timeout_s
        wait_s = 0.0
        while True:
            self._pump(wait_s)
            now = time.monotonic()
            if self._reports or now >= deadline:
                break
            wait_s = min(deadline - now, self._tick_s(now))
        reports = self._reports[:]
        self._reports.clear()
        return reports

    def close(self) -> None:
        """Kill every worker and wait until they are gone; safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        for _, generation, _ in list(self._owners.values()):
            generation.kill()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self._owners and time.monotonic() < deadline:
            self._server.wait(LOSING_TICK_S)
            for end in self._launcher.ended():
                self._owners.pop(end.handle, None)
        self._server.close()

    def _pump(self, wait_s: float) -> None:
        """One round: messages, exits, what is overdue."""
        self._server.wait(wait_s)
        for end in self._launcher.ended():
            owner = self._owners.pop(end.handle, None)
            if owner is not None:
                owner[0].exited(owner[2], end)
                self._adopt(owner[0])
        for job in self._jobs.values():
            job.check()
            self._adopt(job)

    def _tick_s(self, now: float) -> float:
        tick_s = IDLE_TICK_S
        for job in self._jobs.values():
            if job.generation is None:
                continue
            if job.next_check_s is not None:
                tick_s = min(tick_s, max(0.0, job.next_check_s - now))
            if job.generation.is_losing or job.phase is Phase.ENDING:
                tick_s = min(tick_s, LOSING_TICK_S)
            elif job.phase is Phase.STARTING:
                tick_s = min(tick_s, STARTING_TICK_S)
        return tick_s

    def _adopt(self, job: JobGroup) -> None:
        """Note which job the processes of a new generation belong to."""
        generation = job.generation
        if generation is not None and not generation.is_adopted:
            generation.is_adopted = True
            for rank, handle in generation.handles.items():
                self._owners[handle] = (job, generation, rank)

    def _token_of(self, job_id: str) -> str | None:
        job = self._jobs.get(job_id)
        return job.token if job is not None else None

    def _on_message(self, connection: Connection, message: Message) -> None:
        greeting = connection.greeting
        assert greeting is not None
        job = self._jobs[greeting["job_id"]]
        generation = job.generation
        if generation is None or greeting["generation"] != generation.number:
            self._server.close_connection(connection)  # of workers that are being killed
        elif message is greeting:
            if not job.connected(connection, greeting["rank"]):
                self._server.close_connection(connection)
        else:
            job.message(greeting["rank"], message)

    def _free_job(self, change: Change) -> JobGroup | None:
        """The job of a change that may begin now; otherwise the change is answered here."""
        job = self._jobs.get(change.job.job_id)
        if job is None:
            self._answer(change, ReportKind.FAILED, "no such job was started")
        elif job.change is not None:
            reason = f"a {job.change.kind.value} of the job is in flight"
            self._answer(change, ReportKind.RETRY, reason)
            job = None
        return job

    def _problem(self, change: Change) -> str | None:
        """Why a job cannot train on these slots, or None."""
        count = len(change.slots)
        unknown = [slot for slot in change.slots if not 0 <= slot < self._cluster.num_slots]
        if count == 0:
            return "no slots were given"
        if unknown:
            return (
                f"slots {unknown} are not in cluster {self._cluster.name!r},"
                f" which has slots 0 to {self._cluster.num_slots - 1}"
            )
        if len(set(change.slots)) < count:
            return f"slots {list(change.slots)} name a slot twice"
        if count > change.global_batch:
            return (
                f"{count} slots cannot share a global batch of {change.global_batch}:"
                " every worker needs at least 1 sample; use fewer slots or a larger batch"
            )
        return None

    def _answer(self, change: Change, kind: ReportKind, reason: str) -> None:
        """Answer a change that does not begin; the job is as it was."""
        job = self._jobs.get(change.job.job_id)
        self._reports.append(
            Report(
                kind=kind,
                job_id=change.job.job_id,
                at_s=time.monotonic(),
                change_id=change.change_id,
                step=job.step if job is not None else 0,
                samples=job.samples if job is not None else 0,
                reason=reason,
            )
        )

    # Processes.

    def _make_generation(self, job: JobGroup, change: Change) -> Generation:
        orders = worker_orders(job, change, self._cluster, self._options)
        specs = [
            process_spec(
                order,
                self._cluster.slots[slot],
                token=job.token,
                control=self._server.address,
                preimported=self._options.start == "preimported",
            )
            for order, slot in zip(orders, change.slots, strict=True)
        ]
        return Generation(orders, specs, self._server, self._launcher)

    def _warm_up(self) -> None:
        """Have a process forked on every host, so that the pre-import is over when jobs come."""
        addresses = sorted({host.address for host in self._cluster.hosts})
        handles = {}
        for address in addresses:
            spec = ProcessSpec(
                name=f"warm-up-{address}",
                entry="systems.runtime.worker:warm_up",
                argv=(),
                env={},
                host=address,
                cores=(),
                log_path=Path("/dev/null"),
                preimported=True,
            )
            handles[self._launcher.start(spec)] = address
        deadline = time.monotonic() + self._options.start_timeout_s
        while handles:
            for end in self._launcher.ended():
                address = handles.pop(end.handle)
                if end.returncode != 0:
                    raise RuntimeSetupError(f"pre-import on {address} failed: {end.reason}")
            if time.monotonic() > deadline:
                for handle in handles:
                    self._launcher.signal(handle, signal.SIGKILL)
                raise RuntimeSetupError(
                    f"pre-import on {', '.join(sorted(handles.values()))} took longer than"
                    f" {self._options.start_timeout_s} s; raise start_timeout_s"
                )
            self._server.wait(LOSING_TICK_S)
