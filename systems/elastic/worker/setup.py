"""Model, optimizer, data and reduction of one elastic worker, made ready before it has a group."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.receiver import Received
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.worker.step_report import StepReport
from systems.runtime.reduction.ordered import join_alone
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.data_order import share
from systems.runtime.wire.device_group import no_device_group
from systems.runtime.wire.groups import Group
from systems.runtime.wire.messages import CheckpointWritten
from systems.runtime.wire.step_log import samples_path
from systems.runtime.worker.checkpoint import keep_only, newest
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Program, Stopwatch, begin, load
from systems.runtime.worker.standby import program_for
from systems.runtime.worker.trainer import on_device
from systems.virtual.workers import ordered_reduction, trainer_of


class WorkerSetup:
    """Objects that one elastic worker trains with; each stage is timed as a phase."""

    def __init__(
        self,
        order: ElasticOrder,
        client: ControlClient,
        ordered_at: float,
        program: Program | None = None,
    ) -> None:
        """Import, build, and make warm-up passes, whose results are discarded.

        The passes fix the layout of the gradient buckets, and make the first real step fast.

        Args:
            order: this worker's part.
            client: the connection to the driver.
            ordered_at: when the order came, on ``time.monotonic``.
            program: parts that a script has built already; None: the order's workload is built.

        Raises:
            RuntimeError: NCCL was asked for, and is not available here.
        """
        self._order = order
        self.mark = PhaseMark(order.mark)
        self._watch = watch = Stopwatch(ordered_at)
        self.phases_s = watch.phases_s
        """Seconds of each phase of the present change; other objects add to it."""
        self._is_script = program is not None
        if program is None:
            takes_state = order.joining or order.checkpoint is not None
            program = program_for(order, watch, takes_state=takes_state)
        else:
            watch.done("build")
        problem = no_device_group(program.device) if order.collectives == "nccl" else None
        if problem is not None:
            raise RuntimeError(f"collectives is nccl: {problem}")
        join_alone()
        self.reduction = ordered_reduction(program, order.logical_workers)
        self.session = begin(order, program, self.reduction)
        self.trainer = trainer_of(self.session, self.mark, order)
        self.report = StepReport(order, client, self.session, self.phases_s, self.mark)
        if program.reduction is None:
            self.reduction.warm_up(self._dummy_loss)
        elif self._batch not in program.batches:
            self.reduction.warm_up(self._dummy_loss, rounds=1)
        self._initial = self.session.values()
        watch.done("warm_up")

    @property
    def _batch(self) -> int:
        """Number of samples in a step of this worker."""
        order = self._order
        start, stop = share(order.global_batch, order.logical_workers or order.num_workers, 0)
        return stop - start

    def _dummy_loss(self) -> torch.Tensor:
        """Return the loss of some samples for warm-up; which samples does not matter."""
        session = self.session
        ids = [index % session.workload.num_samples for index in range(self._batch)]
        batch = session.workload.samples(ids)
        if not self._is_script:  # a script's batch can be of any kind
            batch = on_device(batch, session.device)
        return session.workload.loss(self.reduction.parallel, batch)

    def prepare(self, generation: int, rank: int, num_workers: int) -> None:
        """Prepare what takes time when a generation begins; called from any thread.

        That is memory for the reduction, and the file of the samples that this worker consumes.
        """
        if num_workers > 1:
            self.reduction.reserve()
        with suppress(OSError):  # opening the file later reports the error
            samples_path(self.session.job_dir, generation, rank).touch()

    def load(self) -> None:
        """Go on from the order's checkpoint, if it names one.

        Raises:
            CheckpointError: it cannot be used.
        """
        order = self._order
        is_first = order.worker == order.members[0]
        load(self.session, order.checkpoint, verify=is_first)
        if is_first:  # else ``roll_back`` could find one of another job, or of a lost life
            kept = [] if order.checkpoint is None else [Path(order.checkpoint)]
            keep_only(self.session.job_dir / "checkpoints", *kept)
        self._watch.done("load")

    def settle(self, group: Group, state: TrainingState) -> None:
        """Give all founders of a script's job, which have met, the same state to begin with.

        A script may build another model in each worker: all take the first worker's. It is saved if
        a recovery could need it.
        """
        order = self._order
        if not self._is_script or order.checkpoint is not None:
            return
        if group.size > 1:
            broadcast_state(group, state, 0, self.session.step, self.values())
        if order.recovery == "consistent" and group.rank == 0:
            self.report.records.save(CheckpointWritten)

    def roll_back(self) -> None:
        """Go back to the newest checkpoint of the job, or to the very beginning.

        Raises:
            CheckpointError: there is one and it cannot be used.
        """
        session = self.session
        manifest = newest(session.job_dir / "checkpoints")
        if manifest is None and self._order.checkpoint is not None:
            manifest = Path(self._order.checkpoint)
        if manifest is not None:
            load(session, str(manifest), verify=False)
            return
        fresh = session.workload.build_model(session.seed).state_dict()
        session.model.load_state_dict(fresh)
        session.optimizer.state.clear()
        session.step = 0
        session.adopt(self._initial)

    def values(self) -> dict[str, Any]:
        """Return the part of the job's state that is neither a tensor nor the step."""
        return self.session.values()

    def adopt(self, received: Received) -> None:
        """Take the step and the ``values`` that came with another worker's tensors."""
        self.session.step = received.step
        self.session.adopt(received.values)
