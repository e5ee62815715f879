"""BERT: text classification, trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import workloads.operators  # noqa: F401  (must run before transformers is imported)

# isort: split
import torch
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertForSequenceClassification

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.texts import NEEDS_ROOT, open_texts
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluate_classifier


@dataclass(frozen=True, slots=True)
class BertSize:
    """One size of BERT, from Devlin et al. 2019; smaller sizes are from Turc et al. 2019."""

    num_layers: int
    width: int
    num_heads: int
    vocabulary: int
    length: int
    """Tokens of a text."""
    synthetic: tuple[int, int]
    """Samples and labels of the synthetic set."""
    recipe: Recipe


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(
        input_ids=batch["tokens"], attention_mask=batch.get("mask"), return_dict=False
    )[0]
    return scores


class BERT(SizedWorkload[BertSize]):
    """BERT with a classifier on its first token, from transformers' own classes.

    Size ``tiny`` is BERT-Tiny with 8,192 words instead of 30,522, ``small`` is BERT-Small,
    ``paper`` is BERT-Base. Differs from the paper: no pre-training, since weights cannot be
    shipped.
    """

    name = "bert"
    data_sets = NEEDS_ROOT
    sizes: Mapping[str, BertSize] = {
        "tiny": BertSize(2, 128, 2, 8_192, 32, (16_384, 4), Recipe(5e-4, warmup_steps=10)),
        "small": BertSize(4, 512, 8, 30_522, 64, (67_349, 4), Recipe(2e-4, warmup_steps=100)),
        "paper": BertSize(12, 768, 12, 30_522, 128, (67_349, 2), Recipe(2e-5, warmup_steps=500)),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``tokens`` (n, length), ``label`` (n), ``mask`` if texts vary."""
        plan = self._plan
        return open_texts(data, root, plan.vocabulary, plan.length, plan.synthetic, seed)

    def _build(self) -> torch.nn.Module:
        plan = self._plan
        config = BertConfig(
            vocab_size=plan.vocabulary,
            hidden_size=plan.width,
            num_hidden_layers=plan.num_layers,
            num_attention_heads=plan.num_heads,
            intermediate_size=4 * plan.width,
            num_labels=self._data.num_labels,
        )
        model: torch.nn.Module = BertForSequenceClassification(config)
        return model

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam with decoupled weight decay 0.01, as in the paper."""
        return torch.optim.AdamW(
            model.parameters(), lr=self._recipe.learning_rate, weight_decay=0.01
        )

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy, nats."""
        return torch.nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return accuracy and loss on held-out texts."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
