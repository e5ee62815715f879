"""Builder of objects from their description in a configuration: ``_target_`` and options.

A part is a mapping ``{_target_: package.module.Class, option: value, ...}``; a value may be another
part, or a list with parts. Everything is checked against the class's signature before the call, so
that all mistakes of a part are reported at once.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from harness.configuration.coerce import MismatchError, coerce, show
from harness.configuration.named_classes import TARGET, locate, seam_of_part
from harness.errors import Problem, UserError, at, known, suggest


def is_part(value: Any) -> bool:
    """Return whether ``value`` describes an object to build."""
    return isinstance(value, Mapping) and TARGET in value


def signature_problems(
    function: Callable[..., Any], options: Mapping[str, Any], place: str
) -> tuple[dict[str, Any], list[Problem | str]]:
    """Return ``options`` fitted to the signature of ``function``, and the problems.

    Args:
        function: class or function that will be called with the options as keywords.
        options: values from a configuration; parts in them are built already.
        place: path of the options in the configuration, for the problems.
    """
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    names = {
        p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    listed = _listed(hints.get(rest)) if rest is not None else {}
    open_ended = rest is not None and not listed
    hints |= listed
    names |= set(listed)
    problems: list[Problem | str] = []
    fitted: dict[str, Any] = {}
    for key, value in options.items():
        if key not in names and not open_ended:
            where = f"{place}.{key}"
            problems.append(Problem(where, f"unknown option of {name}", suggest(str(key), names)))
            continue
        try:
            fitted[key] = coerce(value, hints.get(key, Any))
        except MismatchError as mismatch:
            problems.append(Problem(f"{place}.{key}", f"is {show(value)}", f"give {mismatch}"))
    for parameter in parameters.values():
        required = parameter.name in names and parameter.default is parameter.empty
        if required and parameter.name not in options:
            hint = f"set {place}.{parameter.name}=...; options {known(names)}"
            problems.append(Problem(place, f"option {parameter.name!r} of {name} is missing", hint))
    return fitted, problems


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function.__init__ if inspect.isclass(function) else function
    try:
        return typing.get_type_hints(target)
    except NameError:  # annotations imported for type checking only cannot be evaluated
        return {}


def _listed(annotation: Any) -> dict[str, Any]:
    """Return names and types of ``**options: Unpack[SomeTypedDict]``; empty if there are none."""
    if typing.get_origin(annotation) is not typing.Unpack:
        return {}
    return typing.get_type_hints(typing.get_args(annotation)[0])


def build(config: Mapping[str, Any], place: str, seam: str | None = None) -> Any:
    """Return the object that a part describes; its own parts are built first.

    Args:
        config: mapping with ``_target_`` and options.
        place: path of the part in the configuration, such as ``scheduler``.
        seam: kind of part that is wanted there (``named_classes.SEAMS``), which decides the classes
            that may be named; None: the place has its name.

    Raises:
        UserError: every mistake of the part and of the parts in it. These are classes that may not
            be named there, unknown or missing options, wrong types, and what the constructors
            refuse with ``ValueError``.
    """
    seam = seam or place
    problems: list[Problem | str] = []
    options: dict[str, Any] = {}
    broken: set[str] = set()
    for key, value in config.items():
        if key == TARGET:
            continue
        try:
            inner = seam_of_part(seam, str(key), config.get(TARGET))
            options[key] = _value(value, f"{place}.{key}", inner)
        except UserError as error:
            problems += error.problems
            options[key] = value
            broken.add(key)
    if TARGET not in config:
        text = f"has no {TARGET}"
        problems.append(Problem(place, text, "say which class to build: package.module.Class"))
        raise UserError(problems)
    try:
        function = locate(config[TARGET], seam, place)
    except UserError as error:
        raise UserError([*problems, *error.problems]) from None
    fitted, unfit = signature_problems(function, options, place)
    problems += [p for p in unfit if not _is_about(p, place, broken)]
    if broken or (problems and not _callable_with(function, fitted)):
        raise UserError(problems)
    try:
        built = function(**fitted)
    except UserError as error:
        raise UserError([*problems, *error.problems]) from error
    except ValueError as error:
        raise UserError([*problems, *at(place, str(error))]) from error
    if problems:
        raise UserError(problems)
    return built


def _callable_with(function: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Return whether all required options are there, so that the constructor can be called."""
    try:
        inspect.signature(function).bind(**options)
    except TypeError:
        return False
    return True


def _value(value: Any, place: str, seam: str | None) -> Any:
    """Return an option with its parts built. Parts must fit ``seam``; None: the option may hold no
    part."""
    if is_part(value):
        if seam is None:
            fact = f"names the class {value[TARGET]}, and no part is expected here"
            raise UserError([Problem(place, fact, "give a plain value")])
        return build(value, place, seam)
    if not isinstance(value, list | Mapping):
        return value
    built: dict[Any, Any] = {}
    problems: list[Problem | str] = []
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in items:
        try:
            built[key] = _value(item, f"{place}.{key}", seam)
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    return built if isinstance(value, Mapping) else list(built.values())


def _is_about(problem: Problem | str, place: str, keys: set[str]) -> bool:
    return isinstance(problem, Problem) and problem.place in {f"{place}.{key}" for key in keys}
