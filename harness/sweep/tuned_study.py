"""Writer of chosen options into the study that tests them on other inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import is_file, option_files
from harness.configuration.study import load_study, study_name
from harness.errors import Problem, UserError

SYSTEM_GROUPS = ("scheduler", "backend", "engine")
"""Groups whose options make a system; all others make an input."""
_GRIDS = re.compile(r"^grids:\n((?:  #.*\n)*)(?:[ -].*\n|\n)*", re.MULTILINE)
_Grid = Mapping[str, Sequence[Any]]


def is_of_system(axis: str) -> bool:
    """Return whether an axis of a study makes a system and not an input."""
    return axis.lstrip("+").partition(".")[0] in SYSTEM_GROUPS


def write_into(label: str, chosen: Mapping[str, Sequence[str]]) -> Path:
    """Replace the study's grids by one grid for every scheduler, and return the study's file.

    The inputs are those of the study. Its grids of other schedulers stay, as do all other lines of
    the file and the comments above its grids.

    Args:
        label: name of the study, as ``load_study`` takes it.
        chosen: words of the options by scheduler, including those of backend and engine.

    Raises:
        UserError: the study is unknown, or has no inputs or different ones.
    """
    grids = load_study(label).grids
    path = Path(label) if is_file(label) else option_files("study")[study_name(label)]
    kept = [grid for grid in grids if not set(grid.get("scheduler", ())) & chosen.keys()]
    inputs = [{a: v for a, v in grid.items() if not is_of_system(a)} for grid in grids]
    place = f"study {label}"
    if not inputs:
        raise UserError([Problem(place, "has no grid", "give it one with the inputs to test on")])
    if any(one != inputs[0] for one in inputs):
        raise UserError([Problem(place, "has grids of different inputs", "give all the same")])
    made = [_grid(inputs[0], name, words) for name, words in chosen.items()]
    text = path.read_text(encoding="utf-8")
    found = _GRIDS.search(text)
    assert found is not None, "it has grids"
    block = f"grids:\n{found[1]}{''.join(map(_lines, [*made, *kept]))}"
    path.write_text(text[: found.start()] + block + text[found.end() :], encoding="utf-8")
    return path


def _grid(inputs: _Grid, scheduler: str, words: Iterable[str]) -> _Grid:
    options = dict(word.split("=", 1) for word in words)
    values = {axis: [yaml.safe_load(text)] for axis, text in options.items()}
    return {**inputs, "scheduler": [scheduler], **values}


def _lines(grid: _Grid) -> str:
    rows = [
        f"{axis}: {yaml.safe_dump(list(values), default_flow_style=True, width=10**6).strip()}\n"
        for axis, values in grid.items()
    ]
    return "".join(f"  {'- ' if number == 0 else '  '}{row}" for number, row in enumerate(rows))
