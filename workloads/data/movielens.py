"""Reader of MovieLens (Harper and Konstan 2015): the ratings of 100K, 1M or 20M as interactions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.data.base import DataError

_FILES: tuple[tuple[str, str, str], ...] = (
    ("ml-1m", "ratings.dat", "::"),
    ("ml-20m", "ratings.csv", ","),
    ("ml-100k", "u.data", "\t"),
)
_WAY_OUT = (
    "unpack ml-1m.zip, ml-20m.zip or ml-100k.zip (https://grouplens.org/datasets/movielens) and "
    "set root to the folder where it was unpacked"
)
_NAMES = ("user", "item", "rating", "at")


class Ratings:
    """An ``Interactions`` of rows from a file; users and items are numbered from 0."""

    def __init__(
        self,
        users: npt.NDArray[np.int64],
        items: npt.NDArray[np.int64],
        held_out: npt.NDArray[np.int64],
        num_items: int,
    ) -> None:
        """Store the interactions.

        Args:
            users: user of each row to train with.
            items: item of each row to train with.
            held_out: the last item of each user.
            num_items: number of items.
        """
        self._users, self._items, self._held_out = users, items, held_out
        self._keys = np.unique(users * num_items + items)
        self.num_rows = len(users)
        self.num_users = len(held_out)
        self.num_items = num_items

    def rows(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the user and the item of each row."""
        return self._users[rows], self._items[rows]

    def met(
        self, users: npt.NDArray[np.int64], items: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return whether each user (n) has met the items of its row (n, m) in training."""
        asked = users[:, None] * self.num_items + items
        place = np.minimum(np.searchsorted(self._keys, asked), len(self._keys) - 1)
        found: npt.NDArray[np.bool_] = self._keys[place] == asked
        return found

    def held_out(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return each user's held-out item, which is not in the training set."""
        return self._held_out[users]


def read_movielens(root: str) -> Ratings:
    """Return all ratings below ``root`` (or in ``root`` itself), whatever their stars.

    The last rating of each user is held out, by time and then by its place in the file. Users with
    a single rating are left out.

    Raises:
        DataError: there is no file of ratings, or its content has another format.
    """
    for folder, name, separator in _FILES:
        for path in (Path(root) / folder / name, Path(root) / name):
            if path.is_file():
                return _read(path, separator)
    names = ", ".join(f"{folder}/{name}" for folder, name, _ in _FILES)
    raise DataError([f"{root}: none of {names} is there; {_WAY_OUT}"])


def _read(path: Path, separator: str) -> Ratings:
    import pandas as pd  # imported late: it starts a thread, after which no worker can be forked

    try:
        table = pd.read_csv(
            path,
            sep=separator,
            names=list(_NAMES),
            header=0 if path.suffix == ".csv" else None,
            engine="python" if len(separator) > 1 else "c",
            dtype={"user": np.int64, "item": np.int64, "at": np.int64},
        )
    except (ValueError, OSError) as error:
        raise DataError([f"{path}: not a file of ratings ({error}); {_WAY_OUT}"]) from error
    table = table[table.duplicated("user", keep=False)]
    if table.empty:
        raise DataError([f"{path}: no user has two ratings; {_WAY_OUT}"])
    table = table.sort_values(["user", "at"], kind="stable")
    users, _ = pd.factorize(table["user"])
    items, item_names = pd.factorize(table["item"], sort=True)
    is_last = ~table["user"].duplicated(keep="last").to_numpy()
    return Ratings(
        users[~is_last].astype(np.int64),
        items[~is_last].astype(np.int64),
        items[is_last].astype(np.int64),
        len(item_names),
    )
