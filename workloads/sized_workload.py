"""What all workloads have in common: options, data, seeding, the update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from harness.contracts.training import Batch
from workloads.data.base import DataSet
from workloads.options import Overrides, check_options
from workloads.training import Recipe, seeded


class Size(Protocol):
    """One size of a workload: whatever its network is made of, and how it is trained."""

    @property
    def recipe(self) -> Recipe:
        """Learning rate and warm-up."""
        ...


SizeT = TypeVar("SizeT", bound=Size)


class SizedWorkload(ABC, Generic[SizeT]):
    """A network over a data set, in several sizes; subclasses say which, and what is learned."""

    name: str
    sizes: Mapping[str, SizeT]
    data_sets: Mapping[str, bool]
    """The data sets there are, and whether each reads files below ``root``. The first is taken
    where none is named."""

    def __init__(
        self,
        *,
        size: str = "tiny",
        data: str | None = None,
        root: str | None = None,
        data_seed: int = 0,
        augment: bool = False,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        evaluation_samples: int | None = None,
        gamma: float | None = None,
        decay_epochs: float | None = None,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            size: one of ``sizes``.
            data: one of ``data_sets``; None: the first.
            root: folder of the files, for the data sets that read some.
            data_seed: of what is drawn for the data set: synthetic samples, a split,
                augmentation; not of training.
            augment: vary every training sample from epoch to epoch, as is usual for its kind
                of data.
            learning_rate: at the reference batch; None: the size's own.
            warmup_steps: None: the size's own.
            evaluation_samples: evaluate on this many held-out samples only; None: all.
            gamma: what the learning rate is multiplied by whenever ``decay_epochs`` have been
                trained; None: it does not decay.
            decay_epochs: given with ``gamma``.

        Raises:
            ValueError: all options that cannot be, one a line.
            DataError: files that are missing or malformed.
        """
        data = next(iter(self.data_sets)) if data is None else data
        overrides = Overrides(learning_rate, warmup_steps, evaluation_samples, gamma, decay_epochs)
        check_options(
            size=size,
            sizes=tuple(self.sizes),
            data=data,
            needs_root=self.data_sets,
            root=root,
            overrides=overrides,
            problems=self._problems(),
        )
        self.size = size
        self._plan = self.sizes[size]
        self._recipe = overrides.applied_to(self._plan.recipe)
        self._evaluation_samples = evaluation_samples
        self._data_seed, self._augment = data_seed, augment
        self._data = self._open(data, root or "", data_seed)
        self.num_samples = len(self._data.train)

    def _problems(self) -> list[str]:
        """What is wrong with a subclass's own options, a line each."""
        return []

    @abstractmethod
    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """The data set called ``data``, in the form that this size wants."""

    @abstractmethod
    def _build(self) -> torch.nn.Module:
        """The network of this size, drawn from torch's CPU generator."""

    @abstractmethod
    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the paper, over the model's parameters."""

    @abstractmethod
    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over the samples of ``batch``."""

    @abstractmethod
    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Metrics on held-out samples; the first entry is the one to watch."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """The network, its parameters drawn from ``seed``; no other random state moves."""
        with seeded(seed):
            return self._build()

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """The samples with these ids; with augmentation, as each is in the epoch given.

        Raises:
            IndexError: an id outside 0..num_samples-1.
        """
        batch = self._data.train.samples(ids)
        if not self._augment or epochs is None:
            return batch
        draws = np.asarray(epochs, np.int64) * self.num_samples + np.asarray(ids, np.int64)
        return self._data.augmented(batch, self._data_seed, draws)

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """One step at the learning rate of this global batch, step (from 0) and epoch."""
        consumed = step * global_batch if samples is None else samples
        self._recipe.update(optimizer, global_batch, step, consumed / self.num_samples)
