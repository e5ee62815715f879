"""What a script declares before its first batch: model, optimizer, samples and carried objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace

from systems.elastic.transfer.training_state import is_elementwise
from systems.elastic.wire.order import ElasticOrder
from systems.runtime.worker.session import Program
from systems.script import model as script_model
from systems.script import optimizer as script_optimizer
from systems.script.carried import Carried
from systems.script.checks import check_alone, check_init
from systems.script.errors import ScriptError
from systems.script.made import Made
from systems.script.script_workload import Feed, ScriptWorkload
from systems.script.step_calls import StepCalls


class ScriptProgram:
    """Parts of a script's training, gathered call by call."""

    def __init__(self) -> None:
        self.made = Made()
        """Objects of torch's classes that the script has made."""
        self.may_change_parameters = False
        """Whether the script may change parameters outside updates."""
        self._trained: tuple[torch.nn.Module, torch.optim.Optimizer] | None = None
        self._own_update: Callable[[], None] = lambda: None
        self._before_update: Callable[[int], None] | None = None
        self._is_replayable = True
        self._kept: dict[str, Any] = {}
        """Objects that the script gave to ``carry``, by name."""
        self._feed: Feed | None = None
        self._is_complete = False

    @property
    def model(self) -> torch.nn.Module:
        """Model of the script.

        Raises:
            ScriptError: there is none.
        """
        return self._parts[0]

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Optimizer of the script.

        Raises:
            ScriptError: there is none.
        """
        return self._parts[1]

    @property
    def feed(self) -> Feed:
        """Samples of the script.

        Raises:
            ScriptError: there are none.
        """
        return self._parts[2]

    @property
    def _parts(self) -> tuple[torch.nn.Module, torch.optim.Optimizer, Feed]:
        if self._trained is None or self._feed is None:
            raise ScriptError("call init(model, optimizer) before the first batch is drawn")
        return *self._trained, self._feed

    def init(
        self,
        run: StepCalls,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        before_update: Callable[[int], None] | None,
        *,
        changes_gradients: bool,
        changes_parameters: bool,
    ) -> None:
        """Take the model and the optimizer that the script trains; see ``api.init``.

        Raises:
            ScriptError: they cannot be trained, or ``init`` was called before.
        """
        if self._trained is not None:
            raise ScriptError(
                "init() was called twice, and a job trains one model with one optimizer; make the"
                " models modules of one model, whose forward() computes all losses, and give one"
                " optimizer all their parameters, in groups"
            )
        check_init(model, optimizer)
        self._trained = model, optimizer
        self._before_update = before_update
        self.may_change_parameters = changes_parameters
        self._is_replayable = is_elementwise(optimizer) and not (
            changes_gradients or changes_parameters
        )
        script_model.make_elastic(model, run, self.made)
        self._own_update = script_optimizer.make_elastic(optimizer, run)

    def add_feed(self, feed: Feed) -> None:
        """Take the script's samples.

        Raises:
            ScriptError: ``batches`` was called before.
        """
        if self._feed is not None:
            raise ScriptError("batches() was called twice; a script trains on one data set")
        self._feed = feed

    def carry(self, objects: dict[str, Any]) -> None:
        """Take objects whose state travels with the model's.

        Raises:
            ScriptError: the first batch was drawn already, or a name is taken.
        """
        if self._is_complete:
            raise ScriptError("carry() was called after the first batch; call it before")
        if taken := sorted(set(objects) & set(self._kept)):
            raise ScriptError(f"carry() was called twice with the name {taken[0]!r}")
        self._kept |= objects

    def order(self, order: ElasticOrder) -> ElasticOrder:
        """Return a worker's order with the script's batch, number of steps and transfer."""
        _, optimizer, feed = self._parts
        # A script's samples may draw random numbers, so only its training thread can fetch them.
        order = replace(order, global_batch=feed.batch_size, prefetch_steps=0, loader_processes=0)
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
        return order

    def complete(self, order: ElasticOrder) -> tuple[Program, ScriptWorkload, Carried]:
        """Return all parts, as a worker trains them.

        Args:
            order: order of the worker.

        Raises:
            ScriptError: a part is missing, or the script carries state that cannot be sent.
        """
        model, optimizer, feed = self._parts
        self._is_complete = True
        carried = self._carry_all(order)
        self.made.is_closed = True
        workload = ScriptWorkload(model, self._own_update, feed, self._before_update)
        device = next(model.parameters()).device
        return Program(workload, model, optimizer, device, carried=carried), workload, carried

    def _carry_all(self, order: ElasticOrder) -> Carried:
        """Gather what travels with the model: carried objects, and objects of torch's classes.

        Raises:
            ScriptError: the state of an object cannot be sent.
        """
        model, optimizer, _ = self._parts
        made = self.made.living()
        check_alone(model, optimizer, made)
        modules = [v for v in (*made, *self._kept.values()) if isinstance(v, torch.nn.Module)]
        # An average holds a copy of the model, which would travel twice.
        known = {id(v) for v in self._kept.values()}
        known |= {id(part) for v in modules for part in v.modules() if part is not v}
        mine = [
            value
            for value in made
            if not isinstance(value, torch.optim.Optimizer)
            and id(value) not in known
            and getattr(value, "optimizer", optimizer) is optimizer
        ]
        objects = self._kept | {
            f"{type(value).__name__} {number}": value for number, value in enumerate(mine, 1)
        }
        if order.recovery == "consistent" or order.checkpoint_every:
            averages = [name for name, v in objects.items() if isinstance(v, torch.nn.Module)]
            if averages:
                raise ScriptError(
                    f"the script keeps {averages[0]}, whose tensors are in no checkpoint; leave out"
                    " --checkpoint-every and --recovery consistent"
                )
        return Carried(objects, model, optimizer)
