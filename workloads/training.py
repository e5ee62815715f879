"""Parts that all workloads share: seeding, the update, the evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from harness.contracts.workload import Batch
from workloads.data.base import SampleSet

_EVALUATION_BATCH = 64
MOST_CLASSES = 100
"""Largest number of classes for which the accuracy of each class is reported."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator with ``seed`` within the block.

    The generator's state is restored afterwards. Generators of accelerators are not touched,
    because models are built on the CPU.
    """
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Learning rate of a workload.

    It is linear in the global batch, with a linear warm-up: Goyal et al. 2017, section 2.
    """

    learning_rate: float
    """Learning rate at ``reference_batch``, after the warm-up."""
    reference_batch: int = 32
    """Global batch for which ``learning_rate`` was chosen, samples."""
    warmup_steps: int = 0
    """Steps over which the rate rises linearly to its value; 0: no warm-up."""
    gamma: float = 1.0
    """Factor on the rate each time ``decay_epochs`` have passed."""
    decay_epochs: float = math.inf

    def rate(self, global_batch: float, step: int, epochs: float = 0.0) -> float:
        """Return the learning rate of a step (from 0) at a global batch, after ``epochs`` epochs.

        Raises:
            ValueError: the batch is below 1 or the step below 0.
        """
        if global_batch < 1 or step < 0:
            raise ValueError(
                f"global_batch is {global_batch} and step is {step};"
                " a batch is at least 1 and steps count from 0"
            )
        scaled = self.learning_rate * global_batch / self.reference_batch
        if self.gamma != 1.0:
            scaled *= self.gamma ** (epochs // self.decay_epochs)
        return scaled * min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else scaled

    def update(
        self, optimizer: torch.optim.Optimizer, global_batch: float, step: int, epochs: float = 0.0
    ) -> None:
        """Set the learning rate of every parameter group, then call ``optimizer.step()``."""
        rate = self.rate(global_batch, step, epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Switch to evaluation mode without gradients; restore each submodule's own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def held_out_batches(
    model: torch.nn.Module, held_out: SampleSet, num_samples: int | None
) -> Iterator[Batch]:
    """Yield held-out samples in batches, on the model's device.

    Args:
        model: the model, wrapped or not.
        held_out: the samples.
        num_samples: only this many of them, from the first; None: all.
    """
    device = next(model.parameters()).device
    total = len(held_out) if num_samples is None else min(num_samples, len(held_out))
    for start in range(0, total, _EVALUATION_BATCH):
        ids = range(start, min(start + _EVALUATION_BATCH, total))
        yield {name: value.to(device) for name, value in held_out.samples(ids).items()}


def evaluate_classifier(
    model: torch.nn.Module,
    logits: Callable[[torch.nn.Module, Batch], torch.Tensor],
    held_out: SampleSet,
    num_samples: int | None,
    num_classes: int = 0,
) -> dict[str, float]:
    """Return accuracy and mean cross entropy of a classifier on held-out samples.

    Args:
        model: the model, wrapped or not, on any device.
        logits: function that returns the model's scores, one row per item, for comparison with
            ``batch["label"]``. An item is anything with a label, such as an image or a token of a
            translation.
        held_out: the samples, never trained on.
        num_samples: only this many of them, from the first; None: all.
        num_classes: number of labels, to report the accuracy of each; it is not reported for 0, or
            for more than ``MOST_CLASSES``.

    Returns:
        ``accuracy`` (share of items whose best score is that of the label), ``loss`` (nats),
        ``evaluated_samples``, and ``accuracy_class_LABEL`` of the labels that occur.
    """
    num_items, num_right, loss, total = 0, 0, 0.0, 0
    by_class = num_classes if num_classes <= MOST_CLASSES else 0
    of_class, right_of_class = torch.zeros(2, by_class, dtype=torch.int64)
    with evaluating(model):
        for batch in held_out_batches(model, held_out, num_samples):
            labels = batch["label"].flatten()
            scores = logits(model, batch).float().flatten(0, -2)
            loss += float(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"))
            right = scores.argmax(dim=-1) == labels
            num_right += int(right.sum())
            if by_class:
                of_class += labels.cpu().bincount(minlength=by_class)
                right_of_class += labels[right].cpu().bincount(minlength=by_class)
            num_items += labels.numel()
            total += len(batch["label"])
    return {
        "accuracy": num_right / num_items,
        "loss": loss / num_items,
        "evaluated_samples": float(total),
        **{
            f"accuracy_class_{label}": int(right) / int(count)
            for label, (right, count) in enumerate(zip(right_of_class, of_class, strict=True))
            if count
        },
    }
