"""Base of all workloads: options, data, seeding, the update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.options import Overrides, check_options
from workloads.training import Recipe, seeded


class Size(Protocol):
    """One size of a workload: the shape of its network, and its recipe."""

    @property
    def recipe(self) -> Recipe:
        """Learning rate and warm-up."""
        ...


SizeT = TypeVar("SizeT", bound=Size)


class SizedWorkload(ABC, Generic[SizeT]):
    """A network over a data set, in several sizes; subclasses define the sizes and the task."""

    name: str
    sizes: Mapping[str, SizeT]
    data_sets: Mapping[str, bool]
    """Names of the data sets (the default first), and whether each reads files below ``root``."""

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
            root: folder of the files, for the data sets that read files.
            data_seed: seed of synthetic samples, a split and augmentation; not of training.
            augment: vary every training sample from epoch to epoch, as is usual for its kind of
                data.
            learning_rate: learning rate at the reference batch; None: the value of the size.
            warmup_steps: steps of the warm-up; None: the value of the size.
            evaluation_samples: evaluate on this many held-out samples only; None: all.
            gamma: factor on the learning rate each time ``decay_epochs`` have been trained; None:
                the rate does not decay.
            decay_epochs: epochs between two decays; given with ``gamma``.

        Raises:
            ValueError: options are out of range; the text has one line for each.
            DataError: files are missing or malformed.
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
        """Return the mistakes in a subclass's own options, one line for each."""
        return []

    @abstractmethod
    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return the data set called ``data``, in the form that this size needs."""

    @abstractmethod
    def _build(self) -> torch.nn.Module:
        """Return the network of this size, with parameters from torch's CPU generator."""

    @abstractmethod
    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of the paper, over the model's parameters."""

    @abstractmethod
    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the samples of ``batch``."""

    @abstractmethod
    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return metrics on held-out samples; the first entry is the most important."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """Return the network with parameters drawn from ``seed``; no other random state changes."""
        with seeded(seed):
            return self._build()

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """Return the samples with these ids, varied for the given epoch if augmentation is on.

        Raises:
            IndexError: an id is outside 0..num_samples-1.
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
        """Make one optimizer step with the learning rate for this global batch, step (from 0) and
        epoch."""
        consumed = step * global_batch if samples is None else samples
        self._recipe.update(optimizer, global_batch, step, consumed / self.num_samples)
