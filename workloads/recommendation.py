"""NeuMF: recommendation of items to users. It has large tables, of which a step uses a small
part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.interactions import NEEDS_ROOT, interaction_set, open_interactions
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluating, held_out_batches

_TOP = 10


@dataclass(frozen=True, slots=True)
class NeuMFSize:
    """One size of NeuMF."""

    factors: int
    """Width of the product of user and item."""
    hidden: tuple[int, ...]
    """Widths of the parallel perceptron; the first is that of the two tables together."""
    users: int
    items: int
    each: int
    """Items that a synthetic user has met."""
    recipe: Recipe


class _NeuMF(nn.Module):
    """Generalised matrix factorisation and a multi-layer perceptron, in parallel."""

    def __init__(self, num_users: int, num_items: int, factors: int, hidden: Sequence[int]) -> None:
        super().__init__()
        half = hidden[0] // 2
        self.user_factors = nn.Embedding(num_users, factors)
        self.item_factors = nn.Embedding(num_items, factors)
        self.user_inputs = nn.Embedding(num_users, half)
        self.item_inputs = nn.Embedding(num_items, half)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(hidden):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.score = nn.Linear(factors + hidden[-1], 1)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return logits in the shape of ``user`` and ``item``."""
        product = self.user_factors(user) * self.item_factors(item)
        inputs = torch.cat([self.user_inputs(user), self.item_inputs(item)], dim=-1)
        scores: torch.Tensor = self.score(torch.cat([product, self.layers(inputs)], dim=-1))
        return scores.squeeze(-1)


class NeuMF(SizedWorkload[NeuMFSize]):
    """Neural collaborative filtering: He et al., WWW '17, "NeuMF", trained from scratch.

    Size ``paper`` has the tables of MovieLens 20M and the widths of MLPerf's reference.
    """

    name = "ncf"
    data_sets = NEEDS_ROOT
    sizes: Mapping[str, NeuMFSize] = {
        "tiny": NeuMFSize(8, (32, 16, 8), 512, 256, 16, Recipe(5e-3, warmup_steps=10)),
        "small": NeuMFSize(32, (128, 64, 32), 6_040, 3_706, 160, Recipe(1e-3, warmup_steps=50)),
        "paper": NeuMFSize(
            64, (256, 256, 128, 64), 138_493, 26_744, 140, Recipe(1e-5, warmup_steps=500)
        ),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``item``, ``user`` and ``label``, all (n)."""
        plan = self._plan
        self._interactions = open_interactions(data, root, plan.users, plan.items, plan.each, seed)
        return interaction_set(self._interactions, seed)

    def _build(self) -> torch.nn.Module:
        plan, interactions = self._plan, self._interactions
        return _NeuMF(interactions.num_users, interactions.num_items, plan.factors, plan.hidden)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam, as in the paper."""
        return torch.optim.Adam(model.parameters(), lr=self._recipe.learning_rate)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean binary cross entropy, nats."""
        scores = model(batch["user"], batch["item"])
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, batch["label"])

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the hit ratio at ten and the discounted gain of the held-out item among a hundred.

        Source: HR@10 and NDCG@10 of He et al., section 4.1.
        """
        hits, gain, total = 0, 0.0, 0
        with evaluating(model):
            for batch in held_out_batches(model, self._data.held_out, self._evaluation_samples):
                scores = model(batch["user"], batch["item"])
                place = (scores[:, 1:] >= scores[:, :1]).sum(dim=1)  # ties count as misses
                hit = place < _TOP
                hits += int(hit.sum())
                gain += float((hit / torch.log2(place + 2.0)).sum())
                total += len(hit)
        return {
            "hit_ratio": hits / total,
            "ndcg": gain / total,
            "evaluated_samples": float(total),
        }
