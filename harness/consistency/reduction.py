"""Explanation of reduced gradients that differ although every worker's own gradients are equal.

Both jobs' sums are computed again from the workers' gradients in all known ways. The ways that give
each job's recorded sums are then compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import TypeAlias

import numpy as np

from harness.consistency.job_files import Array, JobFiles
from harness.contracts.evidence import COMMON, Stage
from harness.machine.gloo_ring import ring_chunks

Layout: TypeAlias = tuple[tuple[str, ...], ...]
"""Names of parameters by bucket."""
PARTS = {"scaling": "division", "order": "reduction order", "layout": "bucket layout"}


@dataclass(frozen=True)
class Arithmetic:
    """A way to compute the mean of N workers' gradients."""

    scaling: str
    """``multiply`` (each by 1/N), ``divide`` (each by N) or ``sum`` (divide the sum by N)."""
    order: str
    """``ring``: gloo's; ``ranks``: ascending; ``turns``: descending."""
    layout: Layout


def why(one: JobFiles, other: JobFiles, step: int) -> tuple[str, list[str]]:
    """Return the part of the stack that differs, and notes; ``reduction`` if it is unknown."""
    layouts = _layouts(one, other, step)
    found = [_fitting(jobs, step, layouts) for jobs in (one, other)]
    notes = [
        f"{name}: {_words(fits[0]) if fits else 'no known arithmetic gives its sums'}"
        for name, fits in zip(("A", "B"), found, strict=True)
    ]
    if not all(found):
        return "reduction", notes
    pairs = product(*found)
    least = min((_differing(mine, theirs) for mine, theirs in pairs), key=len)
    return ", ".join(PARTS[name] for name in least) or "reduction", notes


def _differing(mine: Arithmetic, theirs: Arithmetic) -> list[str]:
    names = [field.name for field in fields(Arithmetic)]
    return [name for name in names if getattr(mine, name) != getattr(theirs, name)]


def _words(found: Arithmetic) -> str:
    scaled = {
        "multiply": "each worker's gradients times 1/N",
        "divide": "each worker's gradients divided by N",
        "sum": "the sum divided by N",
    }[found.scaling]
    order = {
        "ring": "added up in the order of gloo's ring",
        "ranks": "added up by rank",
        "turns": "added up by rank, the last first",
    }
    return f"{scaled}, {order[found.order]}, in {len(found.layout)} buckets"


def _layouts(one: JobFiles, other: JobFiles, step: int) -> list[Layout]:
    """Return the layouts recorded in any step, and one bucket in either order."""
    names = tuple(one.stages[step, Stage.REDUCED, COMMON])
    found: dict[Layout, None] = {}
    for jobs in (one, other):
        for (_, stage, _), buckets in jobs.stages.items():
            if stage is Stage.LAYOUT and buckets:
                found[tuple(tuple(text.split(",")) for text in buckets.values())] = None
    found[(tuple(reversed(names)),)] = None
    found[(names,)] = None
    return list(found)


def _fitting(jobs: JobFiles, step: int, layouts: Sequence[Layout]) -> list[Arithmetic]:
    """Return the ways that give this job's sums, likelier ones first."""
    workers = jobs.workers(step)
    own = [jobs.tensors(step, worker, Stage.GRADIENTS) for worker in workers]
    wanted = jobs.tensors(step, COMMON, Stage.REDUCED)
    if not (own and wanted) or any(set(gradients) != set(wanted) for gradients in own):
        return []
    return [
        Arithmetic(scaling, order, layout)
        for layout, order, scaling in product(
            layouts, ("ring", "ranks", "turns"), ("multiply", "divide", "sum")
        )
        if all(
            np.array_equal(_bits(value), _bits(wanted[name]))
            for name, value in _means(own, scaling, order, layout)
        )
    ]


def _means(
    own: Sequence[Mapping[str, Array]], scaling: str, order: str, layout: Layout
) -> Iterator[tuple[str, Array]]:
    count = len(own)
    for bucket in layout:
        flat = [np.concatenate([gradients[n].reshape(-1) for n in bucket]) for gradients in own]
        kind = flat[0].dtype.type
        if scaling == "multiply":
            flat = [part * kind(1.0 / count) for part in flat]
        elif scaling == "divide":
            flat = [part / kind(count) for part in flat]
        total = np.empty_like(flat[0])
        for chunk in ring_chunks(total.size, total.itemsize, count):
            ascending = range(count)
            ranks = {"ring": chunk.order, "ranks": ascending, "turns": ascending[::-1]}[order]
            piece = slice(chunk.start, chunk.stop)
            terms = [flat[rank][piece] for rank in ranks]
            total[piece] = terms[0]
            for term in terms[1:]:
                total[piece] += term
        if scaling == "sum":
            total = total / kind(count)
        at = 0
        for name in bucket:
            like = own[0][name]
            yield name, total[at : at + like.size].reshape(like.shape)
            at += like.size


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)
