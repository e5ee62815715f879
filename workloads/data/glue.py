"""Reader of SST-2 of the GLUE benchmark (Wang et al. 2019): sentences with a positive or negative
label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import blanked
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.words import PADDING, START, token

NUM_LABELS = 2
_HEADER = ["sentence", "label"]
_MAX_PROBLEMS = 10
_WAY_OUT = (
    "unpack SST-2.zip (https://gluebenchmark.com/tasks) and set root to the folder that holds"
    " SST-2/train.tsv and SST-2/dev.tsv"
)


class _Sentences:
    """Sentences as rows of tokens, cut or padded to one length."""

    def __init__(self, rows: Sequence[tuple[str, int]], vocabulary: int, length: int) -> None:
        self._labels = torch.tensor([label for _, label in rows], dtype=torch.int64)
        tokens = np.full((len(rows), length), PADDING, dtype=np.int32)
        for row, (sentence, _) in zip(tokens, rows, strict=True):
            words = sentence.split()[: length - 1]
            row[0] = START
            row[1 : 1 + len(words)] = [token(word, vocabulary) for word in words]
        self._tokens = torch.from_numpy(tokens)

    def __len__(self) -> int:
        return len(self._labels)

    def samples(self, ids: Sequence[int]) -> Batch:
        index = torch.from_numpy(checked_ids(ids, len(self)))
        tokens = self._tokens[index].to(torch.int64)
        return {
            "tokens": tokens,
            "mask": (tokens != PADDING).to(torch.int64),
            "label": self._labels[index],
        }


def _read(path: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the rows of one file, and its mistakes."""
    if not path.is_file():
        return [], [f"{path}: not found; {_WAY_OUT}"]
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0].split("\t") != _HEADER:
        return [], [
            f"{path}:1: the header is {(lines or [''])[0]!r}, not 'sentence' TAB 'label';"
            f" {_WAY_OUT}"
        ]
    rows, problems = [], []
    for number, line in enumerate(lines[1:], start=2):
        sentence, _, label = line.rpartition("\t")
        if label in ("0", "1") and sentence.strip():
            rows.append((sentence, int(label)))
        else:
            problems.append(
                f"{path}:{number}: {line[:60]!r} is not a sentence, a TAB and 0 or 1;"
                " correct or remove the line"
            )
    if not rows and not problems:
        problems.append(f"{path}: no sentence below the header; {_WAY_OUT}")
    if len(problems) > _MAX_PROBLEMS:
        left = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], f"{path}: and {left} more lines like these"]
    return rows, problems


def open_sst2(root: str, vocabulary: int, length: int) -> DataSet:
    """Open SST-2 below ``root`` (or ``root`` itself): ``train.tsv``, and ``dev.tsv`` held out.

    Words are split at blanks and hashed into the vocabulary. BERT uses WordPiece instead, whose
    word list cannot be shipped, so accuracies do not compare with published ones.

    Args:
        root: folder with ``SST-2/`` or with its files.
        vocabulary: size of the model's vocabulary.
        length: tokens per sentence, the start token included; longer sentences are cut.

    Raises:
        DataError: every missing file and malformed line (the first ten of each file).
    """
    folder = Path(root) / "SST-2" if (Path(root) / "SST-2").is_dir() else Path(root)
    (train, wrong), (held_out, wrong_too) = _read(folder / "train.tsv"), _read(folder / "dev.tsv")
    if wrong or wrong_too:
        raise DataError(wrong + wrong_too)
    sentences = [_Sentences(rows, vocabulary, length) for rows in (train, held_out)]
    return DataSet(sentences[0], sentences[1], NUM_LABELS, blanked("tokens"))
