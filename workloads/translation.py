"""Transformer: translation with an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.contracts.workload import Batch
from workloads.attention import TranslationModel
from workloads.data.base import DataSet
from workloads.data.synthetic import mirrored_sentences
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluate_classifier

_LABEL_SMOOTHING = 0.1


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """One size of the Transformer."""

    num_layers: int
    """Layers of the encoder, and as many of the decoder."""
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


class Transformer(SizedWorkload[TransformerSize]):
    """Transformer with shared embeddings, label smoothing and Adam: Vaswani et al. 2017.

    Size ``paper`` is their base model with 37,000 words. Size ``edl`` has the 24 MB of the model in
    EDL's table 2, whose shape is not stated. Differs: sentences of one length, and a constant
    learning rate after the warm-up. The paper's rate falls with the root of the step; a constant
    rate suits jobs of any length.
    """

    name = "transformer"
    data_sets: Mapping[str, bool] = {"synthetic": False}
    sizes: Mapping[str, TransformerSize] = {
        "tiny": TransformerSize(2, 128, 4, 256, 48, 8, 65_536, 0.1, Recipe(1e-3, warmup_steps=20)),
        "small": TransformerSize(
            4, 256, 4, 1_024, 8_000, 32, 524_288, 0.1, Recipe(5e-4, warmup_steps=200)
        ),
        "paper": TransformerSize(
            6, 512, 8, 2_048, 37_000, 64, 4_500_000, 0.1, Recipe(1e-4, warmup_steps=4_000)
        ),
        "edl": TransformerSize(
            3, 256, 4, 1_024, 3_000, 32, 4_500_000, 0.1, Recipe(5e-4, warmup_steps=200)
        ),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``source`` (n, length), ``target`` and ``label`` (n, length + 1)."""
        plan = self._plan
        return mirrored_sentences(plan.num_samples, plan.vocabulary, plan.length, seed)

    def _build(self) -> torch.nn.Module:
        plan = self._plan
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
        """Return Adam with the paper's constants (section 5.3)."""
        return torch.optim.Adam(
            model.parameters(), lr=self._recipe.learning_rate, betas=(0.9, 0.98), eps=1e-9
        )

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy of the next word with label smoothing 0.1, nats."""
        scores = _logits(model, batch).flatten(0, 1)
        return torch.nn.functional.cross_entropy(
            scores, batch["label"].flatten(), label_smoothing=_LABEL_SMOOTHING
        )

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the share of next words predicted correctly after true words, and the loss."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
