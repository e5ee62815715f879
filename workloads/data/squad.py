"""Reader of SQuAD 1.1 (Rajpurkar et al. 2016): questions with answers in Wikipedia paragraphs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import blanked
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.words import PADDING, START, token, words_of

_TRAIN, _HELD_OUT = "train-v1.1.json", "dev-v1.1.json"
_WAY_OUT = (
    "download it (https://rajpurkar.github.io/SQuAD-explorer) and set root to the folder that"
    f" holds {_TRAIN} and {_HELD_OUT}"
)
_MAX_PROBLEMS = 10
_QUESTION_SHARE = 4
"""Divisor of the length; a question has at most that many tokens."""


@dataclass(frozen=True, slots=True)
class _Question:
    question: tuple[int, ...]
    text: tuple[int, ...]
    first: int
    """Index of the answer's first word in the text."""
    last: int


class _Questions:
    """Questions with the part of their paragraph that has the answer, padded to one length."""

    def __init__(self, questions: Sequence[_Question], length: int) -> None:
        self._rows = [_row(question, length) for question in questions]

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self, ids: Sequence[int]) -> Batch:
        rows = [self._rows[one] for one in checked_ids(ids, len(self))]
        tokens, segment, start, end = (np.stack(column) for column in zip(*rows, strict=True))
        words = torch.from_numpy(tokens).to(torch.int64)
        return {
            "tokens": words,
            "segment": torch.from_numpy(segment).to(torch.int64),
            "mask": (words != PADDING).to(torch.int64),
            "start": torch.from_numpy(start),
            "end": torch.from_numpy(end),
        }


def _row(question: _Question, length: int) -> tuple[Any, Any, Any, Any]:
    """Return tokens, segments, and the answer's first and last token.

    A text that is too long is cut to the same number of words before and after the answer, if it
    has that many.
    """
    asked = question.question[: length // _QUESTION_SHARE]
    head = [START, *asked, START]
    room = length - len(head)
    answer = min(question.last - question.first + 1, room)
    begin = max(0, min(question.first - (room - answer) // 2, len(question.text) - room))
    words = question.text[begin : begin + room]
    tokens = np.full(length, PADDING, dtype=np.int32)
    tokens[: len(head)] = head
    tokens[len(head) : len(head) + len(words)] = words
    segment = np.zeros(length, dtype=np.int8)
    segment[len(head) : len(head) + len(words)] = 1
    first = len(head) + question.first - begin
    return tokens, segment, np.int64(first), np.int64(first + answer - 1)


def _read(path: Path, vocabulary: int, problems: list[str]) -> list[_Question]:
    """Return the questions of one file; add its mistakes to ``problems``."""
    if not path.is_file():
        problems.append(f"{path}: not found; {_WAY_OUT}")
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = list(_questions(content, vocabulary, str(path), problems))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        problems.append(f"{path}: not SQuAD 1.1 ({type(error).__name__}: {error}); {_WAY_OUT}")
        return []
    if not found and not problems:
        problems.append(f"{path}: no question in it; {_WAY_OUT}")
    return found


def _questions(
    content: Mapping[str, Any], vocabulary: int, path: str, problems: list[str]
) -> Iterator[_Question]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            words = list(words_of(paragraph["context"]))
            text = tuple(token(word, vocabulary) for word, _, _ in words)
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                begin = answer["answer_start"]
                end = begin + len(answer["text"])
                inside = [
                    place
                    for place, (_, first, last) in enumerate(words)
                    if first < end and last > begin
                ]
                if not inside:
                    problems.append(
                        f"{path}: the answer of question {asked['id']!r} is not in its"
                        " paragraph; correct or remove it"
                    )
                    continue
                question = tuple(
                    token(word, vocabulary) for word, _, _ in words_of(asked["question"])
                )
                yield _Question(question, text, inside[0], inside[-1])


def open_squad(root: str, vocabulary: int, length: int) -> DataSet:
    """Open SQuAD 1.1 below ``root``: 87,599 questions to train with, 10,570 held out.

    Words are hashed into the vocabulary. Only the part of a long paragraph around the answer is
    used, also for held-out questions. Scores are therefore not comparable with published ones.

    Args:
        root: folder with the two files.
        vocabulary: size of the model's vocabulary.
        length: tokens of question and text together.

    Raises:
        DataError: a file is missing or malformed, or an answer is not in its paragraph.
    """
    problems: list[str] = []
    train, held_out = (
        _read(Path(root) / name, vocabulary, problems) for name in (_TRAIN, _HELD_OUT)
    )
    if len(problems) > _MAX_PROBLEMS:
        left = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], f"{root}: and {left} more problems like these"]
    if problems:
        raise DataError(problems)
    return DataSet(
        _Questions(train, length), _Questions(held_out, length), length, blanked("tokens")
    )
