"""``python -m harness.trace generate``: draw a trace and write it as files."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from harness.command_names import spelt
from harness.configuration.instantiate import signature_problems
from harness.errors import Problem, UserError
from harness.trace.generators import Generator, ModelArts, Saxena, SixteenJobs
from harness.trace.generators.generated import write

GENERATORS: Mapping[str, type[Any]] = {
    "edl16": SixteenJobs,
    "saxena": Saxena,
    "modelarts": ModelArts,
}


def seed(text: str) -> int:
    """Return a seed from the command line.

    Raises:
        argparse.ArgumentTypeError: the text is not a whole number from 0 up.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"is {text!r}; give a whole number from 0 up")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    parser.add_argument("kind", metavar="KIND", choices=sorted(GENERATORS), help=_kinds())
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="folder to write to; created if missing"
    )
    parser.add_argument("options", metavar="KEY=VALUE", nargs="*", help="options of the kind")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the draws (default: 0)")
    parser.add_argument("--name", help="name of the trace and its files (default: KIND_SEED)")


def epilog() -> str:
    """Return the options of every kind of trace with their defaults."""
    lines = []
    for kind, generator in sorted(GENERATORS.items()):
        summary = (generator.__doc__ or "").splitlines()[0]
        lines.append(f"{kind}: {summary}")
        lines += [f"    {f.name}={_shown(f.default)}" for f in dataclasses.fields(generator)]
    return "\n".join(lines)


def generate(options: argparse.Namespace) -> int:
    """Draw a trace, write it, and print where it is.

    Raises:
        UserError: an option is unknown or out of range, or the files cannot be written.
    """
    generator = _build(options.kind, _parsed(options.options))
    name = options.name or f"{options.kind}_{options.seed}"
    drawn = generator.draw(np.random.default_rng(options.seed))
    chosen = {"kind": options.kind, "seed": options.seed, **_parsed(options.options)}
    try:
        path = write(drawn, options.folder, name, chosen)
    except OSError as error:
        raise UserError(
            [f"{options.folder}: cannot be written ({error}); name another folder"]
        ) from error
    look = spelt("harness.trace", "show", str(path))
    print(f"{len(drawn.rows):,} jobs: {path}\nLook at them: {look}")
    return 0


def _build(kind: str, options: Mapping[str, Any]) -> Generator:
    fitted, problems = signature_problems(GENERATORS[kind], options, kind)
    if problems:
        raise UserError(problems)
    try:
        built: Generator = GENERATORS[kind](**fitted)
    except ValueError as error:
        raise UserError(f"{kind}: {line}" for line in str(error).splitlines()) from error
    return built


def _parsed(words: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    problems: list[Problem | str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            problems.append(Problem(word, "is no option", "give KEY=VALUE"))
            continue
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            problems.append(Problem(key, f"is {value!r}", "give a number, a word or [a, list]"))
    if problems:
        raise UserError(problems)
    return options


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return "null" if value is None else str(value)


def _kinds() -> str:
    return "what to draw: " + ", ".join(sorted(GENERATORS))
