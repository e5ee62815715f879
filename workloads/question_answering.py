"""BERT and ELECTRA for question answering: they find the first and last token of an answer in a
text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import workloads.operators  # noqa: F401  (must run before transformers is imported)

# isort: split
import torch
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertForQuestionAnswering
from transformers.models.electra.configuration_electra import ElectraConfig
from transformers.models.electra.modeling_electra import ElectraForQuestionAnswering

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.spans import NEEDS_ROOT, open_spans
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluating, held_out_batches


@dataclass(frozen=True, slots=True)
class SpanSize:
    """One size of an encoder over question and text."""

    num_layers: int
    width: int
    num_heads: int
    vocabulary: int
    length: int
    """Tokens of question and text together."""
    num_samples: int
    """Samples of the synthetic set."""
    recipe: Recipe
    embedding: int
    """Width of the word embeddings; equal to ``width``, except for ELECTRA."""


def _scores(model: torch.nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each token's scores as the first and as the last of the answer; both (n, length)."""
    first, last = model(
        input_ids=batch["tokens"],
        attention_mask=batch["mask"],
        token_type_ids=batch["segment"],
        return_dict=False,
    )[:2]
    return first, last


class _SpanWorkload(SizedWorkload[SpanSize]):
    """Base of question answering without the network: data, loss, optimizer and evaluation."""

    data_sets = NEEDS_ROOT

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``tokens``, ``segment``, ``mask``, ``start`` and ``end``."""
        plan = self._plan
        return open_spans(data, root, plan.vocabulary, plan.length, plan.num_samples, seed)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam with decoupled weight decay 0.01, as in the paper."""
        return torch.optim.AdamW(
            model.parameters(), lr=self._recipe.learning_rate, weight_decay=0.01
        )

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross entropy of the answer's first and last token, nats."""
        first, last = _scores(model, batch)
        cross_entropy = torch.nn.functional.cross_entropy
        return (cross_entropy(first, batch["start"]) + cross_entropy(last, batch["end"])) / 2

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the share of answers found exactly, mean F1 of their tokens, and loss, held out.

        Source: the two metrics of SQuAD (Rajpurkar et al. 2016, section 6.1), over tokens.
        """
        exact, overlap, loss, total = 0, 0.0, 0.0, 0
        with evaluating(model):
            for batch in held_out_batches(model, self._data.held_out, self._evaluation_samples):
                first, last = (scores.argmax(dim=1) for scores in _scores(model, batch))
                start, end = batch["start"], batch["end"]
                exact += int(((first == start) & (last == end)).sum())
                overlap += float(_f1(first, last, start, end).sum())
                count = len(start)
                loss += count * float(self.loss(model, batch))
                total += count
        return {
            "exact_match": exact / total,
            "f1": overlap / total,
            "loss": loss / total,
            "evaluated_samples": float(total),
        }


def _f1(
    first: torch.Tensor, last: torch.Tensor, start: torch.Tensor, end: torch.Tensor
) -> torch.Tensor:
    """Return the harmonic mean of precision and recall of the spans' tokens, for each sample."""
    shared = (torch.minimum(last, end) - torch.maximum(first, start) + 1).clamp(min=0)
    found, wanted = (last - first + 1).clamp(min=0), end - start + 1
    return 2 * shared / (found + wanted)


class BertQA(_SpanWorkload):
    """BERT with two outputs for each token: Devlin et al. 2019, section 4.2.

    Size ``tiny`` is BERT-Tiny with 8,192 words, ``small`` is BERT-Small, ``paper`` is BERT-Base.
    Differs: no pre-training, since weights cannot be shipped.
    """

    name = "bert_qa"
    sizes: Mapping[str, SpanSize] = {
        "tiny": SpanSize(2, 128, 2, 8_192, 32, 16_384, Recipe(5e-4, warmup_steps=10), 128),
        "small": SpanSize(4, 512, 8, 30_522, 128, 87_599, Recipe(2e-4, warmup_steps=100), 512),
        "paper": SpanSize(12, 768, 12, 30_522, 384, 87_599, Recipe(3e-5, warmup_steps=500), 768),
    }

    def _build(self) -> torch.nn.Module:
        plan = self._plan
        model: torch.nn.Module = BertForQuestionAnswering(
            BertConfig(
                vocab_size=plan.vocabulary,
                hidden_size=plan.width,
                num_hidden_layers=plan.num_layers,
                num_attention_heads=plan.num_heads,
                intermediate_size=4 * plan.width,
            )
        )
        return model


class Electra(_SpanWorkload):
    """ELECTRA's discriminator with two outputs for each token: Clark et al., ICLR '20.

    Size ``tiny`` is as narrow as BERT-Tiny, ``small`` is ELECTRA-Small, ``paper`` is ELECTRA-Base.
    Differs: no pre-training, since weights cannot be shipped.
    """

    name = "electra"
    sizes: Mapping[str, SpanSize] = {
        "tiny": SpanSize(2, 128, 2, 8_192, 32, 16_384, Recipe(5e-4, warmup_steps=10), 64),
        "small": SpanSize(12, 256, 4, 30_522, 128, 87_599, Recipe(3e-4, warmup_steps=100), 128),
        "paper": SpanSize(12, 768, 12, 30_522, 384, 87_599, Recipe(1e-4, warmup_steps=500), 768),
    }

    def _build(self) -> torch.nn.Module:
        plan = self._plan
        model: torch.nn.Module = ElectraForQuestionAnswering(
            ElectraConfig(
                vocab_size=plan.vocabulary,
                embedding_size=plan.embedding,
                hidden_size=plan.width,
                num_hidden_layers=plan.num_layers,
                num_attention_heads=plan.num_heads,
                intermediate_size=4 * plan.width,
            )
        )
        return model
