"""Text sets for a classifier, by name."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.data.base import DataSet
from workloads.data.glue import open_sst2
from workloads.data.synthetic import marked_texts

NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "glue_sst2": True}
"""Names of the data sets, and whether each reads files below ``root``."""


def open_texts(
    data: str, root: str, vocabulary: int, length: int, synthetic: tuple[int, int], seed: int
) -> DataSet:
    """Open a set of labelled texts.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        vocabulary: number of tokens that the model knows.
        length: tokens of every text.
        synthetic: samples and labels of the synthetic set.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "glue_sst2":
        return open_sst2(root, vocabulary, length)
    return marked_texts(synthetic[0], synthetic[1], vocabulary, length, seed)
