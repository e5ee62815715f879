"""Transformer: translation with an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from harness.contracts.training import Batch
from workloads.attention import TranslationModel
from workloads.data.synthetic import mirrored_sentences
from workloads.options import Overrides, check_options
from workloads.training import Recipe, evaluate_classifier, seeded

_NEEDS_ROOT = {"synthetic": False}
_LABEL_SMOOTHING = 0.1


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """One size of the Transformer."""

    num_layers: int
    """Of the encoder, and of the decoder."""
    width: int
    num_heads: int
    hidden: int
    vocabulary: int
    length: int
    """Words of a sentence."""
    num_samples: int
    dropout: float
    recipe: Recipe


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(batch["source"], batch["target"])
    return scores


class Transformer:
    """Transformer with shared embeddings, label smoothing and Adam: Vaswani et al. 2017.

    Paper is their base model with 37,000 words. Differs: sentences of one length, and a
    learning rate that stays after its warm-up instead of falling with the root of the step,
    so that a job of any length trains at the rate its batch calls for.
    """

    name = "transformer"
    sizes: Mapping[str, TransformerSize] = {
        "tiny": TransformerSize(2, 128, 4, 256, 48, 8, 65_536, 0.1, Recipe(1e-3, warmup_steps=20)),
        "small": TransformerSize(
            4, 256, 4, 1_024, 8_000, 32, 524_288, 0.1, Recipe(5e-4, warmup_steps=200)
        ),
        "paper": TransformerSize(
            6, 512, 8, 2_048, 37_000, 64, 4_500_000, 0.1, Recipe(1e-4, warmup_steps=4_000)
        ),
    }

    def __init__(
        self,
        *,
        size: str = "tiny",
        data: str = "synthetic",
        root: str | None = None,
        data_seed: int = 0,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        evaluation_samples: int | None = None,
    ) -> None:
        """Open the data; the model is built later.

        Args:
            size: ``tiny``, ``small`` or ``paper``.
            data: ``synthetic``.
            root: for data sets with files, of which there is none yet.
            data_seed: of the synthetic sentences; not of training.
            learning_rate: at the reference batch; None: the size's own.
            warmup_steps: None: the size's own.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: all options that cannot be, one a line.
        """
        overrides = Overrides(learning_rate, warmup_steps, evaluation_samples)
        check_options(
            size=size,
            sizes=tuple(self.sizes),
            data=data,
            needs_root=_NEEDS_ROOT,
            root=root,
            overrides=overrides,
        )
        self.size = size
        self._plan = plan = self.sizes[size]
        self._recipe = overrides.applied_to(plan.recipe)
        self._evaluation_samples = evaluation_samples
        self._data = mirrored_sentences(plan.num_samples, plan.vocabulary, plan.length, data_seed)
        self.num_samples = len(self._data.train)

    def build_model(self, seed: int) -> torch.nn.Module:
        """The network, its parameters drawn from ``seed``; no other random state moves."""
        plan = self._plan
        with seeded(seed):
            return TranslationModel(
                vocabulary=plan.vocabulary,
                max_length=plan.length + 1,
                width=plan.width,
                num_layers=plan.num_layers,
                num_heads=plan.num_heads,
                hidden=plan.hidden,
                dropout=plan.dropout,
            )

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Adam with the paper's constants (section 5.3)."""
        return torch.optim.Adam(
            model.parameters(), lr=self._recipe.learning_rate, betas=(0.9, 0.98), eps=1e-9
        )

    def samples(self, ids: Sequence[int]) -> Batch:
        """``source`` (n, length), ``target`` and ``label`` (n, length + 1)."""
        return self._data.train.samples(ids)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross entropy of the next word with label smoothing 0.1, nats."""
        scores = _logits(model, batch).flatten(0, 1)
        return torch.nn.functional.cross_entropy(
            scores, batch["label"].flatten(), label_smoothing=_LABEL_SMOOTHING
        )

    def update(self, optimizer: torch.optim.Optimizer, global_batch: int, step: int) -> None:
        """One step of Adam at the learning rate of this batch and step (from 0)."""
        self._recipe.update(optimizer, global_batch, step)

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Share of words predicted right after the right words before, and loss, held out."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
