"""Interactions of users with items: synthetic interactions and data sets, by name.

A training sample is a user, an item, and whether the user has met the item. For each item that the
user has met there are four samples with items that it has not met, as in the paper of NeuMF. The
sample's id determines them. One item of each user is held out, among 99 others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from harness.contracts.workload import Batch
from workloads.data.base import DataSet, checked_ids
from workloads.data.counter import random_integers
from workloads.data.movielens import read_movielens

Numbers: TypeAlias = npt.NDArray[np.int64]
NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "movielens": True}
"""Names of the data sets, and whether each reads files below ``root``."""
NEGATIVES = 4
"""Samples with items not met, for each sample with an item met."""
CANDIDATES = 100
"""Items among which the held-out item is ranked, itself included."""
_TRIES = 16
_GROUPS = 8
_OWN_GROUP = 7
"""Of eight synthetic interactions, the number with items of the user's own group."""


class Interactions(Protocol):
    """Interactions of users with items, both numbered from 0."""

    @property
    def num_rows(self) -> int:
        """Number of interactions to train with."""
        ...

    @property
    def num_users(self) -> int:
        """Number of users in the whole set."""
        ...

    @property
    def num_items(self) -> int:
        """Number of items in the whole set."""
        ...

    def rows(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Return the user and the item of each row."""
        ...

    def met(self, users: Numbers, items: Numbers) -> npt.NDArray[np.bool_]:
        """Return whether each user (n) has met the items of its row (n, m) in training."""
        ...

    def held_out(self, users: Numbers) -> Numbers:
        """Return each user's held-out item, which is not in the training set."""
        ...


@dataclass(frozen=True, slots=True)
class GroupedTaste:
    """Synthetic users and items in eight groups: a user mostly meets items of its own group.

    Interactions are not stored: a user's number determines the items it has met.
    """

    seed: int
    num_users: int
    num_items: int
    each: int
    """Number of items that a user has met, without the held-out item."""

    @property
    def num_rows(self) -> int:
        """Number of interactions to train with."""
        return self.num_users * self.each

    def _of(self, users: Numbers) -> Numbers:
        """Return all items of users, (n, each + 1); the last is held out."""
        width = self.each + 1
        inside = random_integers(self.seed, "met group", users, width, 8) < _OWN_GROUP
        own = random_integers(self.seed, "met own", users, width, self.num_items // _GROUPS)
        own = own * _GROUPS + users[:, None] % _GROUPS
        anything = random_integers(self.seed, "met any", users, width, self.num_items)
        items: Numbers = np.where(inside, own, anything)
        return items

    def rows(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Return the user and the item of each row."""
        users, place = np.divmod(rows, self.each)
        return users, self._of(users)[np.arange(len(rows)), place]

    def met(self, users: Numbers, items: Numbers) -> npt.NDArray[np.bool_]:
        """Return whether each user (n) has met the items of its row (n, m) in training."""
        known = self._of(users)[:, : self.each]
        found: npt.NDArray[np.bool_] = (known[:, None, :] == items[:, :, None]).any(axis=2)
        return found

    def held_out(self, users: Numbers) -> Numbers:
        """Return each user's held-out item."""
        return self._of(users)[:, self.each]


@dataclass(frozen=True, eq=False)
class TrainingPairs:
    """Users with items that they have met, and with items that they have not."""

    interactions: Interactions
    seed: int

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.interactions.num_rows * (1 + NEGATIVES)

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``item``, ``user`` and ``label`` (1: met), all (n)."""
        index = checked_ids(ids, len(self))
        row, place = np.divmod(index, 1 + NEGATIVES)
        users, items = self.interactions.rows(row)
        items = np.where(place == 0, items, self._not_met(users, self.seed, index))
        return {
            "item": torch.from_numpy(items),
            "user": torch.from_numpy(users),
            "label": torch.from_numpy((place == 0).astype(np.float32)),
        }

    def _not_met(self, users: Numbers, seed: int, draws: Numbers) -> Numbers:
        """Return the first drawn item that each user has not met; the last drawn item if there is
        none."""
        drawn = random_integers(seed, "negatives", draws, _TRIES, self.interactions.num_items)
        met = self.interactions.met(users, drawn)
        met[:, -1] = False
        chosen: Numbers = drawn[np.arange(len(drawn)), met.argmin(axis=1)]
        return chosen

    def augmented(self, batch: Batch, seed: int, draws: Numbers) -> Batch:
        """Return the same users with newly drawn items not met, as in the paper of NeuMF."""
        others = torch.from_numpy(self._not_met(batch["user"].numpy(), seed, draws))
        return {**batch, "item": torch.where(batch["label"] == 1, batch["item"], others)}


@dataclass(frozen=True, eq=False)
class Candidates:
    """Held-out item of each user, among items that the user has not met."""

    interactions: Interactions
    seed: int

    def __len__(self) -> int:
        """Return the number of users."""
        return self.interactions.num_users

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``user`` and ``item``, both (n, 100), with each user's held-out item first."""
        index = checked_ids(ids, len(self))
        drawn = random_integers(
            self.seed, "candidates", index, (CANDIDATES - 1) * 2, self.interactions.num_items
        )
        last = self.interactions.held_out(index)[:, None]
        known = self.interactions.met(index, drawn) | (drawn == last)
        order = np.argsort(known, axis=1, kind="stable")[:, : CANDIDATES - 1]
        items = np.concatenate([last, np.take_along_axis(drawn, order, axis=1)], axis=1)
        return {
            "user": torch.from_numpy(np.repeat(index[:, None], CANDIDATES, axis=1)),
            "item": torch.from_numpy(items),
        }


def interaction_set(interactions: Interactions, seed: int) -> DataSet:
    """Return the data set of pairs to train with, and of held-out items among their candidates.

    Args:
        interactions: interactions of users with items.
        seed: seed of the items not met.
    """
    train = TrainingPairs(interactions, seed)
    return DataSet(train, Candidates(interactions, seed), 2, train.augmented)


def open_interactions(
    data: str, root: str, users: int, items: int, each: int, seed: int
) -> Interactions:
    """Open a set of interactions of users with items.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        users: number of users of the synthetic set.
        items: number of items of the synthetic set.
        each: number of items that a synthetic user has met, without the held-out item.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "movielens":
        return read_movielens(root)
    return GroupedTaste(seed, users, items, each)
