"""BERT: text classification, trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import workloads.operators  # noqa: F401  (must run before transformers is imported)

# isort: split
import torch
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertForSequenceClassification

from harness.contracts.training import Batch
from workloads.data.texts import NEEDS_ROOT, open_texts
from workloads.options import Overrides, check_options
from workloads.training import Recipe, evaluate_classifier, seeded


@dataclass(frozen=True, slots=True)
class BertSize:
    """One size of BERT: Devlin et al. 2019; the smaller ones are Turc et al. 2019."""

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


class BERT:
    """BERT with a classifier on its first token, from transformers' own classes.

    Tiny is BERT-Tiny with 8,192 words instead of 30,522, small is BERT-Small, paper is
    BERT-Base. Differs from the paper: no pre-training, since weights cannot be shipped.
    """

    name = "bert"
    sizes: Mapping[str, BertSize] = {
        "tiny": BertSize(2, 128, 2, 8_192, 32, (16_384, 4), Recipe(5e-4, warmup_steps=10)),
        "small": BertSize(4, 512, 8, 30_522, 64, (67_349, 4), Recipe(2e-4, warmup_steps=100)),
        "paper": BertSize(12, 768, 12, 30_522, 128, (67_349, 2), Recipe(2e-5, warmup_steps=500)),
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
            data: ``synthetic`` or ``glue_sst2``.
            root: folder of the files, for the latter.
            data_seed: of the synthetic texts; not of training.
            learning_rate: at the reference batch; None: the size's own.
            warmup_steps: None: the size's own.
            evaluation_samples: evaluate on this many held-out samples only; None: all.

        Raises:
            ValueError: all options that cannot be, one a line.
            DataError: files that are missing or malformed.
        """
        overrides = Overrides(learning_rate, warmup_steps, evaluation_samples)
        check_options(
            size=size,
            sizes=tuple(self.sizes),
            data=data,
            needs_root=NEEDS_ROOT,
            root=root,
            overrides=overrides,
        )
        self.size = size
        self._plan = plan = self.sizes[size]
        self._recipe = overrides.applied_to(plan.recipe)
        self._evaluation_samples = evaluation_samples
        self._data = open_texts(
            data, root or "", plan.vocabulary, plan.length, plan.synthetic, data_seed
        )
        self.num_samples = len(self._data.train)

    def build_model(self, seed: int) -> torch.nn.Module:
        """The network, its parameters drawn from ``seed``; no other random state moves."""
        plan = self._plan
        config = BertConfig(
            vocab_size=plan.vocabulary,
            hidden_size=plan.width,
            num_hidden_layers=plan.num_layers,
            num_attention_heads=plan.num_heads,
            intermediate_size=4 * plan.width,
            num_labels=self._data.num_labels,
        )
        with seeded(seed):
            model: torch.nn.Module = BertForSequenceClassification(config)
        return model

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Adam with decoupled weight decay 0.01, as in the paper."""
        return torch.optim.AdamW(
            model.parameters(), lr=self._recipe.learning_rate, weight_decay=0.01
        )

    def samples(self, ids: Sequence[int]) -> Batch:
        """``tokens`` (n, length), ``mask`` of the same shape where texts vary, ``label``."""
        return self._data.train.samples(ids)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross entropy, nats."""
        return torch.nn.functional.cross_entropy(_logits(model, batch), batch["label"])

    def update(self, optimizer: torch.optim.Optimizer, global_batch: int, step: int) -> None:
        """One step of AdamW at the learning rate of this batch and step (from 0)."""
        self._recipe.update(optimizer, global_batch, step)

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Accuracy and loss on held-out texts."""
        return evaluate_classifier(model, _logits, self._data.held_out, self._evaluation_samples)
