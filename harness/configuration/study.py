"""Studies and sweeps as lists of points, with the overrides of each run."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.command_names import spelt
from harness.configuration.coerce import MismatchError, coerce, show
from harness.configuration.compose import is_file, option_files, options, quote
from harness.configuration.fast_yaml import read_yaml
from harness.configuration.file_references import resolver_problems
from harness.configuration.path_words import unquoted
from harness.errors import Problem, UserError, suggest
from harness.files.bounded_file import read_text

MOST_POINTS = 100_000
"""Most points of a sweep. The bound keeps a mistyped number from filling the memory with points."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep."""

    overrides: tuple[str, ...]
    """Words of its command line, without those common to all points."""
    axes: Mapping[str, str]
    """Values that distinguish it from the other points, for tables."""

    def of_trial(self, repetition: int) -> Point:
        """Return the same point in one of its trials; the point itself if it names its own
        repetition."""
        if "repetition" in self.axes:
            return self
        return Point(
            (*self.overrides, f"repetition={repetition}"),
            {**self.axes, "repetition": str(repetition)},
        )


@dataclass(frozen=True, slots=True)
class Study:
    """Sweep kept in a file: ``configs/study/FOLDER/NAME.yaml``."""

    name: str
    description: str
    base: tuple[str, ...] = ()
    """Overrides common to all points."""
    grids: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    """Grids of the study, one after another; each is the product of its axes. A grid with an axis
    ``repetition`` has those trials, whatever ``repetitions`` says."""
    repetitions: int = 1
    """Trials of every point; trial r runs with ``repetition=r``. Each trial of all points is a
    block. The order within a block is drawn, so that drift affects all points alike."""
    parallel: int | None = None
    """Most simulated points at once; None: the number of cores."""
    quick: tuple[str, ...] = ()
    """Words of its quick size: they choose among its points, or change options of all."""
    studies: tuple[str, ...] = ()
    """Studies that it runs at their quick size, one after another, instead of points."""
    figures: tuple[str, ...] = ()
    """Figures that ``python -m reports study=NAME`` draws."""
    also: tuple[str, ...] = ()
    """Other names of the study: figures and tables of a paper that it also measures."""

    def points(self) -> list[Point]:
        """Return every point once; if all have one trial, in the order of the file."""
        block = {p.overrides: p for grid in self.grids or ({},) for p in product(grid)}
        if self.repetitions == 1 and not any("repetition" in p.axes for p in block.values()):
            return list(block.values())
        trials: dict[int, dict[tuple[str, ...], Point]] = {}
        for point in block.values():
            own = point.axes.get("repetition")
            for repetition in range(self.repetitions) if own is None else (int(own),):
                trial = point.of_trial(repetition)
                trials.setdefault(repetition, {})[tuple(sorted(trial.overrides))] = trial
        points = []
        for repetition, once in sorted(trials.items()):
            order = list(once.values())
            random.Random(f"{self.name} {repetition}").shuffle(order)
            points += order
        return points

    def chosen(self, words: Sequence[str]) -> list[Point]:
        """Return the points that agree with the words that name an axis.

        Raises:
            UserError: there is none.
        """
        points = self.points()
        only = {key_of(word): word.partition("=")[2] for word in words}
        found = [
            point
            for point in points
            if all(only.get(axis, value) == value for axis, value in point.axes.items())
        ]
        if not found:
            axes = {axis for point in points for axis in point.axes}
            asked = " ".join(f"{key}={value}" for key, value in only.items() if key in axes)
            hint = f"{spelt('harness', f'study={self.name}', 'dry=true')} lists the points"
            raise UserError([Problem("study", f"no point of the study has {asked}", hint)])
        return found

    def sized(self, words: Sequence[str]) -> list[str]:
        """Return the words, and those of the quick size whose keys the words do not set."""
        given = {key_of(word) for word in words}
        return [*words, *(word for word in self.quick if key_of(word) not in given)]


def key_of(word: str) -> str:
    """Return the key of an override."""
    return word.partition("=")[0].lstrip("+")


def product(grid: Mapping[str, Sequence[Any]], quoted: bool = False) -> list[Point]:
    """Return the points of one grid.

    Args:
        grid: values of each axis; the last axis changes fastest.
        quoted: true if the values are already texts in Hydra's grammar.

    Raises:
        UserError: the grid has too many points.
    """
    problems = size_problems(" ".join(grid), math.prod(map(len, grid.values())))
    if problems:
        raise UserError(problems)
    points = []
    names = _names_of_files(grid) if quoted else {}
    for values in itertools.product(*grid.values()):
        texts = [str(value) if quoted else quote(value) for value in values]
        axes = dict(zip(grid, texts, strict=True))
        words = tuple(f"{axis}={text}" for axis, text in axes.items())
        points.append(Point(words, {a: names.get(t, t) for a, t in axes.items()}))
    return points


def size_problems(place: str, num_points: int) -> list[Problem | str]:
    """Return why a sweep may not have so many points; nothing if it may. ``place`` made them."""
    if num_points <= MOST_POINTS:
        return []
    fact = f"make {num_points:,} points, and a sweep has at most {MOST_POINTS:,}"
    return [Problem(place, fact, "give fewer values or repetitions, or several sweeps")]


def _names_of_files(grid: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return short names for the user's files among the values: their stems, if these differ."""
    paths = {text: unquoted(text) for texts in grid.values() for text in texts}
    paths = {text: path for text, path in paths.items() if is_file(path)}
    stems = Counter(Path(path).stem for path in paths.values())
    return {t: Path(p).stem if stems[Path(p).stem] == 1 else p for t, p in paths.items()}


_KEYS = {
    "description": str,
    "base": list[str],
    "grids": list[dict[str, list[Any]]],
    "repetitions": int,
    "parallel": int,
    "quick": list[str],
    "studies": list[str],
    "figures": list[str],
    "also": list[str],
}


def study_name(asked: str) -> str:
    """Return the shipped study with this name, or the study that measures the paper's figure of
    this name.

    Figures are listed under ``also`` in a study's file. The letter of a panel may be left out or
    given. Otherwise the result is ``asked``.
    """
    known = options("study")
    if asked in known or is_file(asked):
        return asked
    panel = re.fullmatch(r"(\w*\d)[a-z]", asked)
    wanted = [asked] if panel is None else [asked, panel[1]]
    others = {other: name for name in known for other in load_study(name).also}
    found = (others.get(one, one) for one in wanted)
    return next((name for name in found if name in known), asked)


def load_study(name: str) -> Study:
    """Return a shipped study by name (``study_name``), or the study in a YAML file.

    Raises:
        UserError: every mistake of the file at once.
    """
    name = study_name(name)
    shipped = option_files("study")
    if is_file(name):
        path = Path(name)
        if not path.is_file():
            raise UserError([Problem("study", f"there is no file {name}", "correct the path")])
    elif name in shipped:
        path = shipped[name]
    else:
        raise UserError([Problem("study", f"unknown study {name!r}", suggest(name, shipped))])
    try:
        document = read_yaml(read_text(path, follow=True))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise UserError(
            [Problem(str(path), f"cannot be read: {text}", "correct the YAML file")]
        ) from None
    return read_study(path, document)


def read_study(path: Path, document: Any) -> Study:
    """Return the study in a parsed YAML document; ``path`` names it.

    Raises:
        UserError: every mistake at once.
    """
    if not isinstance(document, Mapping):
        fact = f"is {show(document)}"
        raise UserError([Problem(str(path), fact, f"give the keys {', '.join(_KEYS)}")])
    problems: list[Problem | str] = []
    values: dict[str, Any] = {}
    problems += resolver_problems(dict(document), str(path))
    for key, value in document.items():
        place = f"{path}: {key}"
        if key not in _KEYS:
            problems.append(Problem(place, "unknown key", suggest(str(key), _KEYS)))
            continue
        try:
            values[key] = coerce(value, _KEYS[key])
        except MismatchError as mismatch:
            problems.append(Problem(place, f"is {show(value)}", f"give {mismatch}"))
    if not document.get("description"):
        problems.append(Problem(f"{path}: description", "is missing", "say what it compares"))
    for number, grid in enumerate(values.get("grids", ())):
        problems += [
            Problem(f"{path}: grids.{number}.{axis}", "has no values", "list at least one")
            for axis, axis_values in grid.items()
            if not axis_values
        ]
    problems += [
        Problem(f"{path}: grids.{number}.repetition", f"is {show(own)}", "use whole numbers from 0")
        for number, grid in enumerate(values.get("grids", ()))
        for own in grid.get("repetition", ())
        if isinstance(own, bool) or not isinstance(own, int) or own < 0
    ]
    problems += [
        Problem(f"{path}: {key}", f"is {values[key]}", "use 1 or more")
        for key in ("repetitions", "parallel")
        if values.get(key, 1) < 1
    ]
    if not problems:
        repetitions = values.get("repetitions", 1)
        num_points = sum(
            math.prod(map(len, grid.values())) * (1 if "repetition" in grid else repetitions)
            for grid in values.get("grids", ({},))
        )
        problems += size_problems(f"{path}: grids and repetitions", num_points)
    if "studies" in values and set(values) & {"base", "grids", "repetitions", "quick"}:
        fact = "is given together with points of its own"
        problems.append(Problem(f"{path}: studies", fact, "give either"))
    unknown = sorted(set(values.get("studies", ())) - set(options("study")) - {path.stem})
    problems += [
        Problem(f"{path}: studies", f"unknown study {name!r}", suggest(name, options("study")))
        for name in unknown
    ]
    if problems:
        raise UserError(problems)
    return Study(
        name=path.stem,
        description=values["description"],
        base=tuple(values.get("base", ())),
        grids=tuple({a: tuple(v) for a, v in grid.items()} for grid in values.get("grids", ())),
        repetitions=values.get("repetitions", 1),
        parallel=values.get("parallel"),
        quick=tuple(values.get("quick", ())),
        studies=tuple(values.get("studies", ())),
        figures=tuple(values.get("figures", ())),
        also=tuple(values.get("also", ())),
    )
