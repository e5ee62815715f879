"""Reader of the Large Movie Review Dataset (Maas et al., ACL 2011) as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import blanked
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.words import END, PADDING, START, token, words_of

_FOLDER = "aclImdb"
_KINDS = ("neg", "pos")
_WAY_OUT = (
    "unpack aclImdb_v1.tar.gz (https://ai.stanford.edu/~amaas/data/sentiment) and set root to the "
    "folder where it was unpacked"
)


class _Reviews:
    """The first words of review files, read on request."""

    def __init__(self, files: Sequence[Path], vocabulary: int, length: int) -> None:
        self._files = list(files)
        self._vocabulary = vocabulary
        self._length = length

    def __len__(self) -> int:
        return len(self._files)

    def samples(self, ids: Sequence[int]) -> Batch:
        label = np.stack([self._words(self._files[one]) for one in checked_ids(ids, len(self))])
        start = np.full((len(label), 1), START)
        return {
            "tokens": torch.from_numpy(np.concatenate([start, label[:, :-1]], axis=1)),
            "label": torch.from_numpy(label),
            "weight": torch.from_numpy((label != PADDING).astype(np.float32)),
        }

    def _words(self, path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the review's words and END, cut or padded to the length."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError([f"{path}: cannot be read ({error}); unpack it again"]) from error
        words = np.full(self._length, PADDING, dtype=np.int64)
        found = [token(word, self._vocabulary) for word, _, _ in words_of(text)][: self._length]
        words[: len(found)] = found
        if len(found) < self._length:
            words[len(found)] = END
        return words


def open_aclimdb(root: str, vocabulary: int, length: int) -> DataSet:
    """Open the labelled reviews below ``root`` (or ``root`` itself): 25,000 and 25,000 held out.

    Words are hashed into a vocabulary of a size other than GPT-2's, so perplexities are not
    comparable with published ones. Only the first ``length`` words of each review are used.

    Args:
        root: folder with ``aclImdb/`` or with its ``train`` and ``test``.
        vocabulary: size of the model's vocabulary.
        length: number of words of a review.

    Raises:
        DataError: a folder is missing or has no review.
    """
    folder = Path(root) / _FOLDER if (Path(root) / _FOLDER).is_dir() else Path(root)
    parts = []
    problems = []
    for part in ("train", "test"):
        files: list[Path] = []
        for kind in _KINDS:
            own = sorted((folder / part / kind).glob("*.txt"))
            if not own:
                problems.append(f"{folder / part / kind}: no review in it; {_WAY_OUT}")
            files += own
        parts.append(files)
    if problems:
        raise DataError(problems)
    train, held_out = (_Reviews(files, vocabulary, length) for files in parts)
    return DataSet(train, held_out, vocabulary, blanked("tokens"))
