"""Gate for every class that a configuration may name.

People exchange traces, studies, profiles and configurations of runs, and a class is code. So a
``_target_`` must name a class of this project that is made for its place (``seams.yaml``), or a
class of an allowed package. The user allows packages in ``elastrace.yaml`` of the folder where
the command runs, never in the file that names the class. Any other name is refused before it is
imported, because importing a module runs it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.coerce import show
from harness.errors import Problem, UserError, suggest

TARGET = "_target_"
PROJECT_FILE = "elastrace.yaml"
"""File of the user, in the folder where the command runs."""
ALLOW = "allow"
"""Key of that file: packages whose classes configurations may name."""


@dataclass(frozen=True, slots=True)
class Seam:
    """Kind of part: the modules of its classes, and the methods that such a class must have."""

    within: tuple[str, ...]
    """Packages or modules of this project with such classes."""
    methods: tuple[str, ...] = ()
    makes: str | None = None
    """Dotted path of a class: the part is that class, or a function annotated to return it."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Options that hold further parts, with the names of their seams."""
    imports: str | None = None
    """Option that lists modules to import, if any."""


def _read_table() -> Mapping[str, Any]:
    text = Path(__file__).with_name("seams.yaml").read_text(encoding="utf-8")
    table: Mapping[str, Any] = yaml.safe_load(text)
    return table


_TABLE = _read_table()
SEAMS: Mapping[str, Seam] = {
    name: Seam(
        tuple(entry["within"]),
        tuple(entry.get("methods", ())),
        entry.get("makes"),
        entry.get("parts", {}),
        entry.get("imports"),
    )
    for name, entry in _TABLE["seams"].items()
}
"""Every kind of part, by the name of its Hydra group or of its key."""


def locate(target: Any, seam: str, place: str) -> Callable[..., Any]:
    """Return the class with the dotted path ``target``, which fits the seam.

    Args:
        target: the value in the configuration.
        seam: key of ``SEAMS``.
        place: path of the part in the configuration, for the problems.

    Raises:
        UserError: the name is not allowed, and nothing was imported. Or there is no such class; the
            text then lists the module's public ones. Or the class lacks a method of the seam, and
            was not called.
    """
    problem = name_problem(target, seam, place)
    if problem is not None:
        raise UserError([problem])
    here = f"{place}.{TARGET}"
    module_name, _, name = target.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        text = f"there is no module {error.name!r} (from {target})"
        raise UserError(
            [Problem(here, text, "correct the path, or run where that package can be imported")]
        ) from None
    found = getattr(module, name, None)
    if found is None or not callable(found):
        own = [
            member
            for member, value in vars(module).items()
            if callable(value)
            and not member.startswith("_")
            and getattr(value, "__module__", None) == module_name
        ] or [member for member in getattr(module, "__all__", ()) if member != name]
        raise UserError(
            [Problem(here, f"module {module_name} has no class {name!r}", suggest(name, own))]
        )
    fact = _misfit(found, target, seam)
    if fact is not None:
        raise UserError([Problem(here, fact, _shipped(seam))])
    return typing.cast(Callable[..., Any], found)


def name_problem(target: Any, seam: str, place: str) -> Problem | None:
    """Return why a class may not be named at a place; None if it may. Nothing is imported.

    Raises:
        UserError: the user's ``elastrace.yaml`` is wrong.
    """
    here = f"{place}.{TARGET}"
    if not isinstance(target, str) or not _is_dotted(target, at_least=2):
        hint = "give a dotted path such as package.module.Class"
        return Problem(here, f"is {show(target)}", hint)
    module = target.rpartition(".")[0]
    if within(module, SEAMS[seam].within) or within(module, allowed_packages()):
        return None
    if within(module, _TABLE["packages"]):
        return Problem(here, f"{target} is no {seam}", _shipped(seam))
    fact, hint = _not_allowed(module)
    return Problem(here, f"{target} is code {fact}", hint)


def import_problems(part: Mapping[str, Any], seam: str, place: str) -> list[Problem | str]:
    """Return why modules that a part would import are not allowed; nothing is imported.

    Raises:
        UserError: the user's ``elastrace.yaml`` is wrong.
    """
    option = SEAMS[seam].imports
    modules = part.get(option) if option is not None else None
    problems: list[Problem | str] = []
    for number, module in enumerate(modules if isinstance(modules, list) else ()):
        here = f"{place}.{option}.{number}"
        if not isinstance(module, str) or not _is_dotted(module, at_least=1):
            hint = "give names such as package.module"
            problems.append(Problem(here, f"is {show(module)}", hint))
        elif not within(module, [*_TABLE["packages"], *_TABLE["libraries"], *allowed_packages()]):
            fact, hint = _not_allowed(module)
            problems.append(Problem(here, f"{module} is code {fact}", hint))
    return problems


def seam_of_part(seam: str, option: str, target: Any) -> str | None:
    """Return the seam of the parts in an option of a part; None: the option holds no part.

    A class of the user may hold parts of its own kind in any option, as a wrapper does.
    """
    inner = SEAMS[seam].parts.get(option)
    is_own = isinstance(target, str) and not within(target, _TABLE["packages"])
    return inner or (seam if is_own else None)


def allowed_packages() -> tuple[str, ...]:
    """Return the packages that the user allows, from ``elastrace.yaml`` in the current folder.

    Raises:
        UserError: the file cannot be read, or has other contents.
    """
    path = Path.cwd() / PROJECT_FILE
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise UserError([Problem(str(path), f"cannot be read: {text}", "correct it")]) from None
    line = f"write one line, such as {ALLOW}: [mypackage]"
    if document is None:
        return ()
    if not isinstance(document, Mapping) or set(document) != {ALLOW}:
        raise UserError([Problem(str(path), f"is {show(document)}", line)])
    names = document[ALLOW]
    if not isinstance(names, list):
        raise UserError([Problem(f"{path}: {ALLOW}", f"is {show(names)}", line)])
    wrong = [
        name for name in names if not isinstance(name, str) or not _is_dotted(name, at_least=1)
    ]
    problems: list[Problem | str] = [
        Problem(f"{path}: {ALLOW}", f"{show(name)} is no name of a package", line) for name in wrong
    ]
    # Python's library is never allowed: its functions delete files and run commands.
    problems += [
        Problem(f"{path}: {ALLOW}", f"{name} is Python's own library", "remove it")
        for name in names
        if name not in wrong and _is_of_python(name)
    ]
    if problems:
        raise UserError(problems)
    return tuple(names)


def within(name: str, packages: Sequence[str]) -> bool:
    """Return whether a dotted name is one of these packages, or is inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _misfit(found: Any, target: str, seam: str) -> str | None:
    """Return why an imported object is no part of a seam; None if it is."""
    wanted = SEAMS[seam]
    is_class = inspect.isclass(found)
    defined_in = str(getattr(found, "__module__", ""))
    # A module also exposes the names that it imports, and those fit no seam.
    if within(target, wanted.within) and not within(defined_in, wanted.within):
        return f"{target} is no {seam}: it is of {defined_in}"
    if wanted.makes is not None:
        module_name, _, name = wanted.makes.rpartition(".")
        made = found if is_class else _returned(found)
        expected = getattr(importlib.import_module(module_name), name)
        fits = inspect.isclass(made) and issubclass(made, expected)
        return None if fits else f"{target} is no {name}, nor annotated to return one"
    if not is_class:
        return f"{target} is no class"
    if hasattr(found, "__getattr__"):  # its objects delegate calls
        return None
    lacking = [name for name in wanted.methods if not callable(getattr(found, name, None))]
    return f"{target} has no {'(), '.join(lacking)}()" if lacking else None


def _returned(function: Callable[..., Any]) -> Any:
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None


def _shipped(seam: str) -> str:
    return f"name a {seam} of {' or '.join(SEAMS[seam].within)}, or of a package that you allow"


def _not_allowed(module: str) -> tuple[str, str]:
    """Return a fact and a way out for a module that is not allowed."""
    if _is_of_python(module):
        return "of Python's own library", "name a part of this project, or of a package of yours"
    package = module.partition(".")[0]
    listed = ", ".join([*allowed_packages(), package])
    path = Path.cwd() / PROJECT_FILE
    hint = f"if you trust package {package!r}, have this line in {path}: {ALLOW}: [{listed}]"
    return "that is not of this project", hint


def _is_of_python(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _is_dotted(text: str, at_least: int) -> bool:
    words = text.split(".")
    return len(words) >= at_least and all(word.isidentifier() for word in words)
