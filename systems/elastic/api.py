"""The calls that make a training script of one's own elastic.

Source: EDL, section 3 (papers/systems.md, 1.1). ``init`` wraps the optimizer, which reduces the
gradients before it updates; ``batches`` is in the place of ``elastic_shard_generator``: an
iterator over this worker's share of every step; ``notify_batch_end`` is where the membership
changes; ``shutdown`` ends. The loop stays the script's. docs/elastic-script.md has an example.

Every worker runs the script from its first line, one that joins later too: its loop begins
where the others are. Started with plain ``python``, a script trains alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import default_collate

from systems.elastic.script_workload import Feed
from systems.runtime.data_order import PositionOrder, Range

if TYPE_CHECKING:
    from systems.elastic.script import ScriptRun

ALONE_SEED: Final = 0
_runs: list[ScriptRun] = []
"""This process's, if it is a worker of a job."""


def begin(run: ScriptRun) -> None:
    """Make this process a worker; called before the script runs, not by it."""
    _runs.append(run)


def init(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    before_update: Callable[[int], None] | None = None,
    changes_gradients: bool = False,
) -> tuple[torch.nn.Module, Any]:
    """Share a model and its optimizer with the job's other workers.

    All begin with the first worker's parameters. In background transfer a joiner copies the
    state while the others train, and makes their updates itself: ``before_update`` and the
    optimizer's own ``step``, and nothing else that the script does around them. So whatever an
    update depends on besides gradients and the optimizer's state must be a function of the
    step, and set in ``before_update``; a schedule with a state of its own (an ``LRScheduler``)
    would start from nothing in a joiner.

    Args:
        model: on its device, its parameters those of the optimizer.
        optimizer: of any kind; one whose update looks across elements is not replayed (as if
            ``transfer=peer`` had been chosen, which is said in the worker's log).
        before_update: called with the number of steps executed before each update; the place
            to set learning rates, and to clip gradients, which are the workers' mean there.
        changes_gradients: whether it does the latter, which cannot be replayed either.

    Returns:
        The model and the optimizer to use from now on.
    """
    if not _runs:
        return model, optimizer if before_update is None else _Alone(optimizer, before_update)
    run = _runs[0]
    run.adopt(model, optimizer, before_update, changes_gradients=changes_gradients)
    return ElasticModel(model, run), ElasticOptimizer(optimizer, run)


def batches(
    dataset: Any,
    batch_size: int,
    *,
    epochs: int | None = None,
    collate: Callable[[list[Any]], Any] = default_collate,
    inputs: Callable[[Any], Any] | None = None,
) -> Batches:
    """A shuffled loader whose every batch is this worker's share of one of ``batch_size``.

    Each loop over it is one epoch; an epoch that a joiner has missed is empty. Every sample
    comes once in an epoch, whoever joins, leaves or dies.

    Args:
        dataset: with ``len`` and an item for each id, the same in all workers.
        batch_size: of all workers together, whatever their number.
        epochs: how many the script loops over; None: one loop, which ends with the job, or
            with a ``break`` after the same step in all workers.
        collate: makes a batch of a list of items.
        inputs: what of a batch the model is called with, for passes that warm up; None: the
            first item of a tuple, all of a mapping by name, or the batch itself.

    Raises:
        ValueError: a number that makes no sense.
    """
    if batch_size < 1 or len(dataset) < 1 or (epochs is not None and epochs < 1):
        raise ValueError(
            f"batch_size is {batch_size}, epochs is {epochs} and the data set has"
            f" {len(dataset)} samples; all must be at least 1"
        )
    return Batches(Feed(dataset, batch_size, epochs, collate, inputs))


def notify_batch_end(loss: torch.Tensor | float | None = None) -> None:
    """The end of a step, after ``optimizer.step()``: workers may join or leave now.

    A worker that leaves ends its process here (``SystemExit``). Drawing the next batch says the
    same; ``loss``, which is logged, is what this call is there for.
    """
    if _runs:
        value = loss.detach() if isinstance(loss, torch.Tensor) else loss
        _runs[0].end_batch(None if value is None else float(value))


def shutdown() -> bool:
    """After the loop: part from the other workers. True for the one that is to go on.

    It may evaluate and save the model; the job ends when it does.
    """
    return _runs[0].shutdown() if _runs else True


def record(**metrics: float) -> None:
    """Results of the job, beside digests of its state; said by the worker that goes on."""
    if _runs:
        _runs[0].record(metrics)


class Batches:
    """What ``batches`` returns."""

    def __init__(self, feed: Feed) -> None:
        """Args: where the samples come from."""
        self._feed = feed
        self._epoch = -1
        if _runs:
            _runs[0].feed(feed)

    def __len__(self) -> int:
        """Steps of an epoch."""
        return -(-len(self._feed.dataset) // self._feed.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """One epoch; without a number of epochs, batches without end."""
        self._epoch += 1
        is_endless = self._feed.epochs is None
        while not _runs:
            yield from self._alone()
            if not is_endless:
                return
            self._epoch += 1
        while (batch := _runs[0].draw(None if is_endless else self._epoch)) is not None:
            yield batch

    def _alone(self) -> Iterator[Any]:
        feed = self._feed
        num_samples = len(feed.dataset)
        order = PositionOrder(ALONE_SEED, num_samples)
        for start in range(0, num_samples, feed.batch_size):
            stop = min(start + feed.batch_size, num_samples)
            ids = order.ids([Range(self._epoch, start, stop)])
            yield feed.collate([feed.dataset[index] for index in ids])


class ElasticModel(torch.nn.Module):
    """A model that is shared in training, and the script's own everywhere else."""

    def __init__(self, model: torch.nn.Module, run: ScriptRun) -> None:
        """Args: the script's model, and this process's part in the job."""
        super().__init__()
        self.module = model
        self._run = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the script's model."""
        forward = self._run.forward if self._run.is_training else self.module
        return forward(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The script's model's, with copies of its buffers.

        They share memory, whatever their types, which ``torch.save`` does not allow.
        """
        state = self.module.state_dict(*args, **kwargs)
        for name, _ in self.module.named_buffers():
            key = kwargs.get("prefix", "") + name
            if key in state:
                state[key] = state[key].clone()
        return state

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The script's model's."""
        return self.module.load_state_dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


class ElasticOptimizer:
    """An optimizer that waits for the workers' mean gradients before it updates."""

    def __init__(self, optimizer: torch.optim.Optimizer, run: ScriptRun) -> None:
        """Args: the script's optimizer, and this process's part in the job."""
        self._optimizer = optimizer
        self._run = run

    def step(self) -> None:
        """Update all workers alike; what a worker's death interrupts is repeated later."""
        self._run.update()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: it is done when a batch is drawn."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


class _Alone:
    """The optimizer of a script that trains alone, with its ``before_update``."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, before_update: Callable[[int], None]
    ) -> None:
        self._optimizer = optimizer
        self._before_update = before_update
        self._step = 0

    def step(self) -> None:
        self._before_update(self._step)
        self._optimizer.step()
        self._step += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)
