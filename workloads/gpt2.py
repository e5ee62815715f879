"""GPT-2: a language model that predicts every next word of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import workloads.operators  # noqa: F401  (must run before transformers is imported)

# isort: split
import torch
from transformers.models.gpt2.configuration_gpt2 import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.streams import NEEDS_ROOT, open_streams
from workloads.data.words import END, START
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluating, held_out_batches


@dataclass(frozen=True, slots=True)
class GPT2Size:
    """One size of GPT-2."""

    num_layers: int
    width: int
    num_heads: int
    vocabulary: int
    length: int
    """Words of a text."""
    positions: int
    """Longest text that the model can process."""
    num_samples: int
    """Samples of the synthetic set."""
    recipe: Recipe


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the scores of every next word; (n, length, vocabulary)."""
    scores: torch.Tensor = model(input_ids=batch["tokens"], use_cache=False, return_dict=False)[0]
    return scores


class GPT2(SizedWorkload[GPT2Size]):
    """GPT-2 from transformers' own class: Radford et al. 2019.

    Size ``paper`` is the smallest published one, with 124 M parameters. Differs: no pre-training,
    since weights cannot be shipped.
    """

    name = "gpt2"
    data_sets = NEEDS_ROOT
    sizes: Mapping[str, GPT2Size] = {
        "tiny": GPT2Size(2, 128, 2, 256, 32, 32, 16_384, Recipe(1e-3, warmup_steps=20)),
        "small": GPT2Size(4, 256, 4, 8_192, 128, 128, 65_536, Recipe(5e-4, warmup_steps=100)),
        "paper": GPT2Size(
            12, 768, 12, 50_257, 512, 1_024, 25_000, Recipe(2.5e-4, warmup_steps=2_000)
        ),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``tokens``, ``label`` and ``weight``, all (n, length)."""
        plan = self._plan
        return open_streams(data, root, plan.vocabulary, plan.length, plan.num_samples, seed)

    def _build(self) -> torch.nn.Module:
        plan = self._plan
        config = GPT2Config(
            vocab_size=plan.vocabulary,
            n_positions=plan.positions,
            n_embd=plan.width,
            n_layer=plan.num_layers,
            n_head=plan.num_heads,
            bos_token_id=START,
            eos_token_id=END,
        )
        model: torch.nn.Module = GPT2LMHeadModel(config)
        return model

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam with decoupled weight decay 0.01, as in GPT's paper."""
        return torch.optim.AdamW(
            model.parameters(), lr=self._recipe.learning_rate, weight_decay=0.01
        )

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean over the texts of the mean cross entropy of their words, nats."""
        each = _word_losses(_logits(model, batch), batch)
        return (each.sum(dim=1) / batch["weight"].sum(dim=1)).mean()

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return perplexity, the share of correct next words, and the loss per word, held out."""
        right, loss, num_words, total = 0.0, 0.0, 0.0, 0
        with evaluating(model):
            for batch in held_out_batches(model, self._data.held_out, self._evaluation_samples):
                scores, weight = _logits(model, batch), batch["weight"]
                loss += float(_word_losses(scores, batch).sum())
                right += float(((scores.argmax(dim=-1) == batch["label"]) * weight).sum())
                num_words += float(weight.sum())
                total += len(weight)
        return {
            "perplexity": math.exp(min(loss / num_words, 700.0)),
            "accuracy": right / num_words,
            "loss": loss / num_words,
            "evaluated_samples": float(total),
        }


def _word_losses(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the cross entropy of every word that counts, and 0 for others; (n, length), in
    nats."""
    each = torch.nn.functional.cross_entropy(
        scores.transpose(1, 2), batch["label"], reduction="none"
    )
    return each * batch["weight"]
