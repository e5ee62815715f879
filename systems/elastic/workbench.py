"""All that one elastic worker trains with, and how it is made ready before there is a group."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from harness.contracts.training import Workload
from systems.elastic.order import ElasticOrder
from systems.elastic.step_report import StepReport
from systems.runtime import checkpoint
from systems.runtime.control import ControlClient
from systems.runtime.data_order import data_order, share
from systems.runtime.reduction import OrderedReduction, join_alone
from systems.runtime.session import Session, choose_device, make_deterministic
from systems.runtime.state import digests
from systems.runtime.trainer import Trainer


class Workbench:
    """Model, optimizer, data and their reduction; each stage timed as a phase."""

    def __init__(self, order: ElasticOrder, client: ControlClient, ordered_at: float) -> None:
        """Import, build, and make passes that are forgotten.

        They fix the layout of the gradient buckets, and make the first real step a quick one.
        """
        self._order = order
        self._at = ordered_at
        self.phases_s: dict[str, float] = {}
        module_name, _, class_name = order.workload.rpartition(".")
        workload_class = getattr(importlib.import_module(module_name), class_name)
        # Torch imports a good part of itself only when the first optimizer is made.
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        self._done("import")
        torch.set_num_threads(order.num_threads)
        device = choose_device(order.device, order.device_type)
        make_deterministic(device, order.num_threads)
        workload = cast(Workload, workload_class(**order.options))
        model = workload.build_model(order.seed).to(device)
        optimizer = workload.build_optimizer(model)
        self._done("build")
        join_alone()
        self.reduction = OrderedReduction(model, optimizer, device)
        data = data_order(order.data_order, order.seed, workload.num_samples, order.block_samples)
        self.session = Session(
            job_dir=Path(order.job_dir),
            seed=order.seed,
            workload=workload,
            model=model,
            optimizer=optimizer,
            device=device,
            reduction=self.reduction,
            data=data,
            data_state=data.initial(),
            step=0,
        )
        self.trainer = Trainer(self.session)
        self.report = StepReport(order, client, self.session, self.phases_s)
        self.reduction.warm_up(self._dummy_loss)
        self._done("warm_up")

    def _done(self, phase: str) -> None:
        now = time.monotonic()
        self.phases_s[phase] = now - self._at
        self._at = now

    def _dummy_loss(self) -> torch.Tensor:
        """Of as many samples as a step of this worker's will have; which ones is all the same."""
        order, session = self._order, self.session
        start, stop = share(order.global_batch, order.num_workers, 0)
        ids = [index % session.workload.num_samples for index in range(start, stop)]
        batch = session.workload.samples(ids)
        on_device = {name: value.to(session.device) for name, value in batch.items()}
        return session.workload.loss(self.reduction.parallel, on_device)

    def load(self) -> None:
        """Go on from the order's checkpoint, if it names one.

        Raises:
            CheckpointError: it cannot be used.
        """
        order = self._order
        if order.checkpoint is not None:
            is_first = order.worker == order.members[0]
            self._load(Path(order.checkpoint), verify=is_first)
        self._done("load")

    def roll_back(self) -> None:
        """Go back to the newest checkpoint of the job, or to the very beginning.

        Raises:
            CheckpointError: there is one and it cannot be used.
        """
        session = self.session
        manifest = checkpoint.newest(session.job_dir / "checkpoints")
        if manifest is None and self._order.checkpoint is not None:
            manifest = Path(self._order.checkpoint)
        if manifest is not None:
            self._load(manifest, verify=False)
            return
        fresh = session.workload.build_model(session.seed).state_dict()
        session.model.load_state_dict(fresh)
        session.optimizer.state.clear()
        session.step, session.data_state = 0, session.data.initial()

    def _load(self, manifest: Path, *, verify: bool) -> None:
        session = self.session
        found = checkpoint.load(manifest, session.model, session.optimizer, verify=verify)
        session.step = found.step
        session.data_state = session.data.from_json(found.data_state)

    def values(self) -> dict[str, Any]:
        """What a worker must know beside the tensors to have the job's whole state."""
        return {"step": self.session.step, "data": self.session.data_state.to_json()}

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Take another worker's ``values``, with its tensors, as this one's."""
        self.session.step = values["step"]
        self.session.data_state = self.session.data.from_json(values["data"])

    def results(self) -> dict[str, Any]:
        """Digests of the state, and the workload's evaluation."""
        session = self.session
        found: dict[str, Any] = dict(digests(session.model, session.optimizer))
        metrics = session.workload.evaluate(session.model)
        return found | {name: float(value) for name, value in metrics.items()}
