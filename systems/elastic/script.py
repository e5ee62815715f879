"""A worker of an elastic job whose program is a script of the user's.

The script has the loop; what ``ElasticLoop.run`` does around each step is done here, when the
script asks for a batch, calls its model, and updates. Nothing that happens to a group is seen
in the script: a step that is lost with a worker ends without an update, and its samples are
drawn again.
"""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from systems.elastic import api
from systems.elastic.elastic_loop import ElasticLoop
from systems.elastic.groups import GroupLost
from systems.elastic.leaving import Outcome, finish, leave
from systems.elastic.order import ElasticOrder
from systems.elastic.script_workload import BATCH, Feed, ScriptWorkload
from systems.elastic.transfer.training_state import is_elementwise
from systems.elastic.workbench import Workbench
from systems.runtime.control import ControlClient
from systems.runtime.data_order import Plan
from systems.runtime.determinism import make_deterministic
from systems.runtime.session import Program
from systems.runtime.trainer import seed_all


class ScriptError(Exception):
    """A script uses the calls in a way that cannot work; the text says what to change."""


class _Stage(Enum):
    """Where the script is in a step."""

    BETWEEN = "between"
    DRAWN = "drawn"
    FORWARD = "forward"
    COMMITTED = "committed"


def train(order: ElasticOrder, client: ControlClient, token: str, ordered_at: float) -> None:
    """Run the order's script as one worker, until it ends or this worker leaves.

    Raises:
        ScriptError: it used the calls wrongly, or ended with an exit code that is not 0.
    """
    run = ScriptRun(order, client, token, ordered_at)
    path = str(order.options["path"])
    sys.argv = [path, *order.options["arguments"]]
    sys.path.insert(0, str(Path(path).parent))
    torch.set_num_threads(order.num_threads)
    make_deterministic(torch.device("cpu"), order.num_threads)
    seed_all(order.seed, torch.device("cpu"))
    api.begin(run)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise ScriptError(f"the script ended with {end.code!r}") from None
    run.end()


class ScriptRun:
    """What ``api`` calls, for one process."""

    def __init__(
        self, order: ElasticOrder, client: ControlClient, token: str, ordered_at: float
    ) -> None:
        """Args: as for ``ElasticLoop``, and when the order came, on ``time.monotonic``."""
        self._order = order
        self._client = client
        self._token = token
        self._ordered_at = ordered_at
        self._model: torch.nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._before_update: Callable[[int], None] | None = None
        self._is_replayable = True
        self._feed: Feed | None = None
        self._workload: ScriptWorkload | None = None
        self._loop: ElasticLoop | None = None
        self._stage = _Stage.BETWEEN
        self._plan: Plan | None = None
        self._lost: GroupLost | None = None
        self._is_first: bool | None = None
        """Once this worker has left: whether it has the results to tell."""

    def adopt(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        before_update: Callable[[int], None] | None,
        *,
        changes_gradients: bool,
    ) -> None:
        """What the script trains."""
        self._model, self._optimizer = model, optimizer
        self._before_update = before_update
        self._is_replayable = is_elementwise(optimizer) and not changes_gradients

    def feed(self, feed: Feed) -> None:
        """The script's samples.

        Raises:
            ScriptError: there are some already.
        """
        if self._feed is not None:
            raise ScriptError("batches() was called twice; a script trains on one data set")
        self._feed = feed

    @property
    def is_training(self) -> bool:
        """Whether the model is about to be called for the gradients of a step."""
        return self._stage in (_Stage.DRAWN, _Stage.FORWARD) and torch.is_grad_enabled()

    @property
    def step(self) -> int:
        """Steps executed so far."""
        return self._loop.bench.session.step if self._loop is not None else 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first worker now."""
        return self._present.rank == 0

    def record(self, metrics: dict[str, float]) -> None:
        """Add to the results."""
        assert self._workload is not None
        self._workload.metrics.update(metrics)

    # A step, in the order of the calls.

    def draw(self, epoch: int | None) -> Any:
        """The next batch of this worker; None when the epoch, or all training, is over.

        Args:
            epoch: counted from 0; None: epochs do not matter.

        Raises:
            SystemExit: this worker has left.
        """
        self.end_batch(None)
        loop = self._loop or self._open()
        assert self._feed is not None
        session = loop.bench.session
        while self._advance():
            end = math.inf if epoch is None else (epoch + 1) * len(self._feed.dataset)
            if session.data_state.consumed >= end:
                return None
            try:
                loop.begin_step()
            except GroupLost as error:
                loop.lose(error)
                continue
            self._plan = loop.trainer.draw()
            self._stage = _Stage.DRAWN
            return loop.trainer.fetch(self._plan)[BATCH]
        return None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model, as its workers share it.

        Raises:
            ScriptError: it was called for this step before.
        """
        if self._stage is not _Stage.DRAWN:
            raise ScriptError(
                "the model was called twice in one step; call it once for a batch, and other"
                " times under torch.no_grad()"
            )
        loop = self._present
        reduction = loop.bench.reduction
        outputs = reduction.parallel(*args, **kwargs)
        self._stage = _Stage.FORWARD
        reduction.weight = loop.trainer.weight
        try:
            reduction.begin()
            loop.begin_words([(0, 0.0)])
            loop.before_backward()
        except GroupLost as error:
            self._lost = error
        return outputs

    def update(self) -> None:
        """After the backward pass: the step is committed, or lost and drawn again.

        Raises:
            ScriptError: the model was not called for this step.
        """
        if self._stage is not _Stage.FORWARD:
            raise ScriptError(
                "optimizer.step() without a forward pass in this step; call the model that"
                " init() returned, once for every batch"
            )
        loop, plan = self._present, self._plan
        assert plan is not None
        lost, self._lost = self._lost, None
        try:
            if lost is not None:
                loop.bench.reduction.undo()
                raise lost
            loop.trainer.finish(plan)
            loop.end_step()
        except GroupLost as error:
            self._stage = _Stage.BETWEEN
            loop.lose(error)
        else:
            self._stage = _Stage.COMMITTED

    def end_batch(self, loss: float | None) -> None:
        """The step is over: the membership may change now.

        Raises:
            ScriptError: there was no update in this step.
            SystemExit: this worker has left.
        """
        if self._stage in (_Stage.DRAWN, _Stage.FORWARD):
            raise ScriptError("a batch ended without optimizer.step(); all workers must update")
        if self._stage is _Stage.COMMITTED:
            self._stage = _Stage.BETWEEN
            self._present.note((math.nan if loss is None else loss,))
            self._advance()

    def shutdown(self) -> bool:
        """Training is over; whether this is the first worker.

        Raises:
            SystemExit: this worker has left before.
        """
        if self._is_first is None:
            loop = self._present
            self.end_batch(None)
            loop.outcome = loop.outcome or Outcome.FINISHED
            self._is_first = leave(loop, loop.outcome)
            for module in loop.bench.session.model.modules():  # they share memory in training
                for name, buffer in module._buffers.items():
                    module._buffers[name] = None if buffer is None else buffer.clone()
        return self._is_first

    def end(self) -> None:
        """The script has ended."""
        if self.shutdown():
            finish(self._present, self._present.bench.results())

    @property
    def _present(self) -> ElasticLoop:
        if self._loop is None:
            raise ScriptError("the script has drawn no batch from batches()")
        return self._loop

    def _advance(self) -> bool:
        loop = self._present
        if loop.advance():
            return True
        if loop.outcome is not Outcome.FINISHED and self._is_first is None:
            assert loop.outcome is not None
            self._is_first = leave(loop, loop.outcome)
            raise SystemExit(0)
        return False

    def _open(self) -> ElasticLoop:
        """Make this worker ready, and warm it up.

        Raises:
            ScriptError: the script has not said what it trains.
        """
        model, optimizer, feed = self._model, self._optimizer, self._feed
        if model is None or optimizer is None or feed is None:
            raise ScriptError("call init(model, optimizer) before the first batch is drawn")
        # Samples of a script may draw random numbers, so nobody else can fetch them in advance.
        order = replace(
            self._order, global_batch=feed.batch_size, prefetch_steps=0, loader_processes=0
        )
        if feed.num_steps is not None:
            order = replace(order, target_step=min(order.target_step, feed.num_steps))
        if order.transfer == "background" and not self._is_replayable:
            print(
                f"elastic: the updates of {type(optimizer).__name__} in this script cannot be"
                " replayed element by element; joiners get the state at the switch"
                " (transfer=peer)",
                file=sys.stderr,
            )
            order = replace(order, transfer="peer")
        self._workload = ScriptWorkload(model, optimizer, feed, self._before_update)
        device = next(model.parameters()).device
        program = Program(self._workload, model, optimizer, device)
        bench = Workbench(order, self._client, self._ordered_at, program)
        self._loop = ElasticLoop(order, self._client, self._token, bench)
        return self._loop
