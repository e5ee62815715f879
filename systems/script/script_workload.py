"""A user's script as a workload that elastic workers train."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils.data import default_collate

from harness.contracts.workload import Batch
from systems.runtime.worker.checkpoint import CheckpointError

BATCH = "batch"
"""Only key in the result of ``samples``: a batch as the script's loop gets it."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Source of a script's samples."""

    dataset: Any
    """Map-style ``Dataset`` of torch: it has ``len`` and an item for each id."""
    batch_size: int
    """Samples of a step, of all workers together."""
    epochs: int | None
    """Number of epochs; None: samples are drawn until the job ends in another way."""
    collate: Callable[[list[Any]], Any] = default_collate
    inputs: Callable[[Any], Any] | None = None
    """Function that returns the model's inputs from a batch; None: ``inputs_of``."""

    @property
    def num_steps(self) -> int | None:
        """Number of steps until every epoch is over; the last step may reach into the next one."""
        if self.epochs is None:
            return None
        return -(-self.epochs * len(self.dataset) // self.batch_size)


class ScriptWorkload:
    """A ``Workload`` of objects that the script has made already."""

    name = "script"
    size = ""

    def __init__(
        self,
        model: torch.nn.Module,
        own_update: Callable[[], None],
        feed: Feed,
        before_update: Callable[[int], None] | None,
    ) -> None:
        """Keep what the script has built.

        Args:
            model: model of the script.
            own_update: the optimizer's own ``step``.
            feed: samples of the script.
            before_update: as for ``api.init``.
        """
        self._model = model
        self._own_update = own_update
        self._feed = feed
        self._before_update = before_update
        self.num_samples = len(feed.dataset)
        self.metrics: dict[str, float] = {}
        """Results that the script has recorded about the trained model."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """Refuse: a script might build another model the second time.

        Raises:
            CheckpointError: always.
        """
        raise CheckpointError("a script cannot be begun again; set checkpoint_every")

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Refuse, as ``build_model``.

        Raises:
            CheckpointError: always.
        """
        raise CheckpointError("a script cannot be begun again; set checkpoint_every")

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """Return a batch of the script's data set, under the only key ``BATCH``.

        The data set is not told the epoch: it draws its variations from the random state.
        """
        dataset = self._feed.dataset
        if hasattr(dataset, "__getitems__"):
            items = dataset.__getitems__(list(ids))
        else:
            items = [dataset[index] for index in ids]
        return cast(Batch, {BATCH: self._feed.collate(items)})

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return a stand-in for the script's loss, which is unknown here: the sum of all outputs.

        It is for warm-up passes, whose results are discarded: gradients become ready in the same
        order.

        Raises:
            ValueError: the model cannot be called this way.
        """
        inputs = (self._feed.inputs or inputs_of)(batch[BATCH])
        parameter = next(self._model.parameters())
        inputs = _moved(inputs, parameter.device)
        try:
            if isinstance(inputs, Mapping):
                outputs = model(**inputs)
            elif isinstance(inputs, tuple | list):
                outputs = model(*inputs)
            else:
                outputs = model(inputs)
        except Exception as error:
            raise ValueError(
                "the model could not be called with the first item of a batch"
                f" ({type(error).__name__}: {error}); say with batches(..., inputs=...) what of a"
                " batch it is called with"
            ) from error
        sums = [tensor.float().sum() for tensor in _tensors(outputs) if tensor.requires_grad]
        if not sums:
            raise ValueError(
                f"the model returned a {type(outputs).__name__} without a tensor that needs a"
                " gradient; return tensors, or tuples, lists, mappings or dataclasses of them"
            )
        return torch.stack(sums).sum()

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """Call the script's ``before_update``, then the optimizer's step."""
        if self._before_update is not None:
            self._before_update(step)
        self._own_update()

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the metrics that the script has recorded."""
        return dict(self.metrics)


def inputs_of(batch: Any) -> Any:
    """Return what a model is called with: the first item of a tuple or list; else the batch."""
    return batch[0] if isinstance(batch, tuple | list) else batch


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value):
        yield from _tensors(vars(value))


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _moved(item, device) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_moved(item, device) for item in value]
    return value
