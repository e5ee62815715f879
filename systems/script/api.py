"""The calls that make a user's training script elastic.

Source: EDL, section 3 (papers/systems.md, 1.1). ``init`` wraps the optimizer's step; gradients are
reduced in the backward pass. ``batches`` takes the place of ``elastic_shard_generator``: it
iterates over this worker's share of every step, and the membership may change at each batch.
``notify_batch_end`` logs a loss; ``shutdown`` ends. The loop stays the script's.
docs/how-to/elastic-script.md has an example, and what works and what is refused.

Every worker runs the script from its first line. The loop of a worker that joins later begins
where the other workers are. A script that is started with plain ``python`` trains alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from systems.runtime.data.position_order import PositionOrder
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.data_order import Range
from systems.runtime.worker.trainer import seed_all
from systems.script.current_run import current_run
from systems.script.errors import ScriptError
from systems.script.script_workload import Feed

ALONE_SEED: Final = 0
Model = TypeVar("Model", bound=torch.nn.Module)
Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)


@dataclass(slots=True)
class _Alone:
    """State of a script that trains alone."""

    step: int = 0
    """Number of the step at hand."""


_alone = _Alone()


def init(
    model: Model,
    optimizer: Optimizer,
    *,
    before_update: Callable[[int], None] | None = None,
    changes_gradients: bool = False,
    changes_parameters: bool = False,
) -> tuple[Model, Optimizer]:
    """Share a model and its optimizer with the job's other workers.

    The loss must be the mean over the samples of the worker's batch. Then the mean of the workers'
    losses, weighted by their samples, is that of the whole batch.

    All workers begin with the first worker's parameters. The model's gradients are the workers'
    mean once ``backward()`` has returned, so that a script may clip, unscale or log them.

    With ``transfer=background`` a joining worker copies the state while the others train, and
    makes their updates itself. It has their gradients and hyper-parameters, as the script left them
    before ``optimizer.step()``.

    Args:
        model: the model, on its device; it must have all parameters of the optimizer.
        optimizer: an optimizer of any kind. If its update looks across elements, joiners get the
            state at the switch, as with ``transfer=peer``; the worker's log says so.
        before_update: called with the number of steps executed, within every update, also in a
            joiner.
        changes_gradients: whether ``before_update`` changes gradients. Joiners then get the
            state at the switch.
        changes_parameters: whether the script changes parameters outside ``optimizer.step()``, as
            clamping does. Joiners then get the state at the switch.

    Returns:
        The same model and the same optimizer, which work for the job from now on.

    Raises:
        ScriptError: the two cannot be trained, or ``init`` was called before.
    """
    run = current_run()
    if run is not None:
        run.program.init(
            run,
            model,
            optimizer,
            before_update,
            changes_gradients=changes_gradients,
            changes_parameters=changes_parameters,
        )
    elif before_update is not None:
        _call_before_updates(optimizer, before_update)
    return model, optimizer


def batches(
    dataset: Any,
    batch_size: int,
    *,
    epochs: int | None = None,
    collate: Callable[[list[Any]], Any] = default_collate,
    inputs: Callable[[Any], Any] | None = None,
) -> Batches:
    """Return a shuffled loader of this worker's shares of batches of ``batch_size`` samples.

    Every sample comes once in an epoch, whichever workers join, leave or die.

    Args:
        dataset: data set with ``len`` and an item for each id, the same in all workers.
        batch_size: samples in a batch of all workers together, independent of their number.
        epochs: number of epochs that the script loops over, by ``for epoch in loader.epochs()``.
            None: one loop, which ends with the job, or with a ``break`` after the same step in all
            workers.
        collate: makes a batch of a list of items.
        inputs: returns the part of a batch that the model is called with, for warm-up passes.
            None: the first item of a tuple, all of a mapping by name, or the batch itself.

    Raises:
        ScriptError: the data set has no items by id.
        ValueError: a number that makes no sense.
    """
    if isinstance(dataset, DataLoader):
        raise ScriptError(
            "batches() was given a DataLoader; give it the loader's data set, and the batch_size of"
            " all workers together"
        )
    if isinstance(dataset, IterableDataset) or not (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    ):
        raise ScriptError(
            f"batches() was given a {type(dataset).__name__}, which has no items by id, so its"
            " samples cannot be divided among workers; give it a map-style data set"
        )
    if batch_size < 1 or len(dataset) < 1 or (epochs is not None and epochs < 1):
        raise ValueError(
            f"batch_size is {batch_size}, epochs is {epochs} and the data set has"
            f" {len(dataset)} samples; all must be at least 1"
        )
    return Batches(Feed(dataset, batch_size, epochs, collate, inputs))


def carry(**objects: Any) -> None:
    """Let the state of objects travel to workers that join, under these names.

    torch's schedulers, gradient scalers, ``AveragedModel`` and copies of the model are carried
    without this call. It is for all other state that a script keeps over its steps: an average of
    its own, the best loss so far, a counter.

    Args:
        objects: modules, or objects with ``state_dict()`` and ``load_state_dict()`` of numbers,
            texts, small tensors, and lists, tuples and dictionaries of these.

    Raises:
        ScriptError: the first batch was drawn already, or an object has no such methods.
    """
    for name, value in objects.items():
        if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
            raise ScriptError(
                f"carry() was given {name}, a {type(value).__name__} without state_dict() and"
                " load_state_dict()"
            )
    run = current_run()
    if run is not None:
        run.program.carry(objects)


def notify_batch_end(loss: torch.Tensor | float | None = None) -> None:
    """Log the loss of the step that ``optimizer.step()`` has ended. The call may be left out."""
    run = current_run()
    if run is not None:
        value = loss.detach() if isinstance(loss, torch.Tensor) else loss
        run.end_batch(None if value is None else float(value))


def rank() -> int:
    """Return this worker's number among the job's workers now, from 0; alone, 0."""
    run = current_run()
    return 0 if run is None else run.rank


def num_workers() -> int:
    """Return how many workers the job has now, once a batch was drawn; alone, 1."""
    run = current_run()
    return 1 if run is None else run.num_workers


def is_first() -> bool:
    """Return whether this worker is the job's first now: the worker that writes files and prints.

    Exactly one worker is the first, from one batch to the next and at the end of an epoch.
    """
    return rank() == 0


def step() -> int:
    """Return the number of the step at hand, from 0; it changes where a batch is drawn.

    The number is right in a worker that has joined; a counter of the script's own would be wrong.
    """
    run = current_run()
    return _alone.step if run is None else run.step_at_hand


def shutdown() -> bool:
    """Part from the other workers after the loop. Return True in the worker that is to go on.

    That worker may evaluate and save the model; the job ends when this worker ends.

    Raises:
        ScriptError: other workers train on, or have another state.
    """
    run = current_run()
    return True if run is None else run.shutdown()


def record(**metrics: float) -> None:
    """Add metrics to the job's results; for the worker that goes on after ``shutdown``."""
    run = current_run()
    if run is not None:
        run.record(metrics)


class Batches:
    """The loader that ``batches`` returns."""

    def __init__(self, feed: Feed) -> None:
        """Make the loader; ``feed`` is the source of its samples."""
        self._feed = feed
        self._epoch = -1
        self._is_in_epochs = False
        self._num_drawn = 0
        """Number of samples drawn by a script that trains alone."""
        run = current_run()
        if run is not None:
            run.program.add_feed(feed)

    def __len__(self) -> int:
        """Return the number of steps in an epoch."""
        return -(-len(self._feed.dataset) // self._feed.batch_size)

    def epochs(self) -> Iterator[int]:
        """Count the epochs from 0; in a joining worker, from the other workers' epoch.

        Raises:
            ScriptError: ``batches`` was not told how many there are.
        """
        if self._feed.epochs is None:
            raise ScriptError("loader.epochs() needs their number: batches(..., epochs=N)")
        self._is_in_epochs = True
        run = current_run()
        first = 0 if run is None else run.first_epoch()
        for epoch in range(first, self._feed.epochs):
            if run is not None and run.is_over:  # a job can be finished before its last epoch
                return
            self._epoch = epoch - 1
            yield epoch

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch; endless batches if there is no number of epochs.

        Raises:
            ScriptError: there are several epochs, and the loop over them is not ``epochs()``.
        """
        self._epoch += 1
        run = current_run()
        if run is not None and not self._is_in_epochs and (self._feed.epochs or 1) > 1:
            raise ScriptError(
                f"batches() was told {self._feed.epochs} epochs; loop over them with 'for epoch in"
                " loader.epochs()', which begins where the job is. With range() a worker that joins"
                " would do once more what the script does after each epoch"
            )
        is_endless = self._feed.epochs is None
        num_epochs = self._feed.epochs or math.inf
        is_over = self._epoch >= num_epochs if run is None else run.is_over
        if is_over:
            raise ScriptError(
                "the loader has no batches left: training is over. For passes after it, such as"
                " update_bn, use a DataLoader of your own"
            )
        while run is None:
            yield from self._alone()
            if not is_endless:
                return
            self._epoch += 1
        while (batch := run.draw(None if is_endless else self._epoch)) is not None:
            yield batch

    def _alone(self) -> Iterator[Any]:
        """Yield the batches of a script that trains alone, and seed its random numbers."""
        feed = self._feed
        num_samples = len(feed.dataset)
        order = PositionOrder(ALONE_SEED, num_samples)
        while self._num_drawn < (self._epoch + 1) * num_samples:
            ranges = []
            wanted = feed.batch_size
            while wanted:
                epoch, start = divmod(self._num_drawn, num_samples)
                stop = min(start + wanted, num_samples)
                ranges.append(Range(epoch, start, stop))
                self._num_drawn += stop - start
                wanted -= stop - start
            _alone.step = self._num_drawn // feed.batch_size - 1
            seed_all(step_seed(ALONE_SEED, _alone.step, 0), torch.device("cpu"))
            yield feed.collate([feed.dataset[index] for index in order.ids(ranges)])


def _call_before_updates(
    optimizer: torch.optim.Optimizer, before_update: Callable[[int], None]
) -> None:
    """Call ``before_update`` in every step of a script that trains alone."""
    num_steps = 0

    def call(*_: object) -> None:
        nonlocal num_steps
        before_update(num_steps)
        num_steps += 1

    optimizer.register_step_pre_hook(call)
