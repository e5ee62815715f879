"""A criterion that no point of its study could ever meet would wait for records for ever."""

from __future__ import annotations

from functools import cache

import pytest

from harness.configuration.compose import compose, parse_overrides
from harness.configuration.study import load_study
from reports.claims.ledger import Criterion, load
from reports.claims.measures import says_same
from reports.runs.selection import flat_options

BY_STUDY: dict[str, list[tuple[str, Criterion]]] = {}
for _paper in load():
    for _claim in _paper.claims:
        _ablations = {f"{_claim.id}/ablation {n}": a for n, a in enumerate(_claim.ablations, 1)}
        for _name, _criterion in {**_claim.names(), **_ablations}.items():
            BY_STUDY.setdefault(_criterion.study, []).append((_name, _criterion))


@cache
def points(study: str) -> list[dict[str, str]]:
    """Options of the study's points as the records will have them, without trials of the same."""
    found = load_study(study)
    trials = ("repetition=", "seed=", "++repetition=")
    words = {tuple(w for w in p.overrides if not w.startswith(trials)) for p in found.points()}
    options = []
    for own in sorted(words):
        container, problems = compose(parse_overrides([*found.base, *own]))
        assert problems == []
        texts = {key: str(value) for key, value in flat_options(container).items()}
        options.append(texts | container["choices"])
    return options


def sides(criterion: Criterion):
    yield criterion.of
    if criterion.over is not None:
        yield criterion.over
    yield from (criterion.beside or {}).values()


@pytest.mark.long
@pytest.mark.parametrize("study", sorted(BY_STUDY))
def test_every_side_of_a_criterion_has_points(study: str) -> None:
    for name, criterion in BY_STUDY[study]:
        for wanted in sides(criterion):
            assert any(
                all(says_same(own.get(key), value) for key, value in wanted.items())
                for own in points(study)
            ), (name, wanted)
        for key in criterion.each:
            assert any(key in own for own in points(study)), (name, key)


def test_numbers_are_the_same_however_they_are_written() -> None:
    assert says_same("10", "10.0")
    assert says_same("off", "off")
    assert not says_same("10", "100")
    assert not says_same("off", "on")
    assert not says_same(None, "10")
