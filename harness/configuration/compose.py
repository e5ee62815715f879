"""Composer of a configuration from the files in ``configs/`` and the words of a command line.

Hydra composes. This module judges the words, and names everything that is wrong with them.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.coerce import show
from harness.configuration.fast_yaml import MOST_DIGITS, check_bounds
from harness.configuration.file_references import DEFAULTS, defaults_problems, resolver_problems
from harness.configuration.identity import FILED
from harness.configuration.path_words import is_yaml, literal, quoted, spellings, unquoted
from harness.configuration.schema import GROUPS, KEYS, RETIRED
from harness.errors import Problem, UserError, suggest
from harness.files.bounded_file import read_text

CONFIG_DIR = Path(__file__).resolve().parents[2] / "configs"
"""Folder of the shipped configuration files, with one folder per group."""


@dataclass
class Words:
    """Parsed words of a command line: choices of groups, then values of keys."""

    choices: dict[str, str] = field(default_factory=dict)
    """Chosen option, or path of a YAML file, by group."""
    values: list[str] = field(default_factory=list)
    """Overrides of keys in Hydra's grammar, in order."""
    sweeps: dict[str, list[str]] = field(default_factory=dict)
    """Swept keys and groups, each with its values."""
    problems: list[Problem | str] = field(default_factory=list)


def option_files(group: str) -> dict[str, Path]:
    """Return the file of every shipped option of a group by the option's name, sorted.

    Studies are sorted into folders by paper, and their names do not show the folder. The other
    groups have no folders of options, but ``trace`` and ``profile`` have folders of data.
    """
    paths = (CONFIG_DIR / group).glob("**/*.yaml" if group == "study" else "*.yaml")
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


def options(group: str) -> list[str]:
    """Return the names of the shipped options of a group, sorted."""
    return list(option_files(group))


def defaults() -> tuple[dict[str, str], dict[str, Any]]:
    """Return the default option of every group, and the default value of every top-level key."""
    document = yaml.safe_load((CONFIG_DIR / "config.yaml").read_text(encoding="utf-8"))
    entries = [entry for entry in document.pop("defaults") if isinstance(entry, dict)]
    return {group: name for entry in entries for group, name in entry.items()}, document


def is_file(option: str) -> bool:
    """Return whether an option is a YAML file of the user instead of a shipped name."""
    return is_yaml(option)


def quote(value: Any) -> str:
    """Return a value in Hydra's override grammar, so that it reads back as the same value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{quote(k)}:{quote(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(quote(item) for item in value) + "]"
    text = str(value)
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text, flags=re.ASCII)
    if plain and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    return quoted(text)


def parse_overrides(words: Iterable[str], sweeping: bool = False) -> Words:
    """Parse overrides one by one, so that every wrong one is reported.

    Args:
        words: ``group=option`` and ``key=value`` in Hydra's grammar, or with a bare path as value
            (``harness.configuration.path_words``). Of two words for the same group the last counts.
        sweeping: comma lists, ``choice``, ``range`` and ``glob`` are meant as a sweep.
    """
    parser = OverridesParser.create()
    found = Words()
    for word in words:
        try:
            override, spelt = _parsed(parser, word, sweeping)
        except HydraException as error:
            fact = "is not understood" if "=" in word else "is no key=value"
            detail = str(error).splitlines()[0].strip() if "=" in word else ""
            found.problems.append(
                Problem(
                    f"argument {word!r}",
                    fact + (f" ({detail})" if detail else ""),
                    "write group=option or key=value, for example scheduler=fifo seed=1;"
                    " quote values with spaces or commas: 'name=\"a, b\"'",
                )
            )
            continue
        _sort_in(override, spelt, sweeping, found)
    unknown = {p.place for p in found.problems if isinstance(p, Problem) and p.place in GROUPS}
    found.values = [v for v in found.values if v.lstrip("+~").split(".")[0] not in unknown]
    return found


_TEXTS = ("name", "sweep", "results_dir")
"""Keys whose values are texts of any letters."""


def _parsed(parser: OverridesParser, word: str, sweeping: bool) -> tuple[Override, str]:
    """Return the override that a word means, and its spelling for Hydra.

    Raises:
        HydraException: the word has no meaning as an override.
    """
    for spelt in spellings(word, GROUPS, _TEXTS, sweeping):
        try:
            return parser.parse_override(spelt), spelt
        except HydraException:
            continue
    return parser.parse_override(word), word


def value_of(word: str) -> Any:
    """Return the value of an override that ``parse_overrides`` has accepted."""
    return _parsed(OverridesParser.create(), word, sweeping=False)[0].value()


def _sort_in(override: Override, word: str, sweeping: bool, found: Words) -> None:
    key = override.key_or_group.replace("/", ".")
    root = key.split(".")[0]
    names = [*GROUPS, *KEYS, "study"]
    if override.package is not None or not root:
        hint = "write group=option or key=value"
        found.problems.append(Problem(f"argument {word!r}", "is not understood", hint))
    elif root in RETIRED:
        found.problems.append(Problem(key, "is no key any more", RETIRED[root]))
    elif root not in names:
        found.problems.append(Problem(key, "unknown key", suggest(root, names)))
    elif root == "study":
        hint = "give it once, as study=NAME"
        found.problems.append(Problem(key, "cannot be part of a point", hint))
    elif override.is_delete():
        if "." in key:
            found.values.append(f"~{key}")
        else:
            found.problems.append(Problem(key, "cannot be removed", f"choose another: {root}=..."))
    elif override.is_sweep_override():
        _sort_in_sweep(override, key, sweeping, found)
    elif key in GROUPS:
        value = override.value()
        problem = option_problem(key, value)
        if problem:
            found.problems.append(problem)
        else:
            found.choices[key] = str(value)
    elif _has_long_number(override.value()):
        fact = f"has a number of more than {MOST_DIGITS} digits"
        found.problems.append(Problem(key, fact, f"give one of at most {MOST_DIGITS} digits"))
    else:
        found.values.append(f"++{key}={word.partition('=')[2]}")


def _has_long_number(value: Any) -> bool:
    """Return whether a value has an integer with more digits than YAML files may have. Such an
    integer is beyond all floats, so formulas would fail on it."""
    if isinstance(value, Mapping):
        return any(map(_has_long_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_long_number, value))
    return isinstance(value, int) and abs(value) >= 10**MOST_DIGITS


def _sort_in_sweep(override: Override, key: str, sweeping: bool, found: Words) -> None:
    if not sweeping:
        fact = "has several values"
        found.problems.append(Problem(key, fact, "add -m to run one point for each, or give one"))
        return
    value: Any = override.value()
    if isinstance(value, Glob):
        names = value.filter(options(key)) if key in GROUPS else []
        if not names:
            found.problems.append(Problem(key, "glob matches nothing", suggest("", options(key))))
        found.sweeps[key] = names
        return
    found.sweeps[key] = [str(item) for item in override.sweep_string_iterator()]
    if key in GROUPS:
        problems = [option_problem(key, unquoted(name)) for name in found.sweeps[key]]
        found.problems += [problem for problem in problems if problem]


def option_problem(group: str, option: Any) -> Problem | None:
    """Return what is wrong with choosing ``option`` for ``group``; None if it can be chosen."""
    if isinstance(option, str) and is_file(option):
        if Path(option).is_file():
            return None
        return Problem(group, f"there is no file {option}", "correct the path")
    if isinstance(option, str) and option in options(group):
        return None
    hint = suggest(str(option), options(group)) + "; or give a YAML file of your own"
    return Problem(group, f"unknown option {show(option)}", hint)


def compose(
    words: Words, base: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any] | None, list[Problem | str]]:
    """Return the resolved configuration as plain dictionaries, and the problems found.

    Args:
        words: the parsed command line.
        base: a resolved configuration to start from instead of the defaults.
    """
    chosen = defaults()[0]
    problems: list[Problem | str] = []
    values: list[str] = []
    labels = dict(chosen)
    if base is not None:
        for group in GROUPS:
            if isinstance(base.get(group), Mapping):
                # A stored configuration is whole: Hydra must look for nothing else.
                own = {k: v for k, v in base[group].items() if k != DEFAULTS}
                if len(own) < len(base[group]):
                    problems.append(Problem(f"{group}.{DEFAULTS}", "unknown key", "remove it"))
                chosen[group] = _register(group, "base", _literal(own))
        labels.update(base.get("choices") or {})
        # The key becomes a word of Hydra's grammar, so only known keys are allowed.
        keys = {k: _literal(v) for k, v in base.items() if k in KEYS}
        known = (*GROUPS, *KEYS, *RETIRED, "choices")
        strange = [key for key in base if key not in known]
        names = [*GROUPS, *KEYS]
        problems += [Problem(str(k), "unknown key", suggest(str(k), names)) for k in strange]
        values = [f"++{k}={quote(v)}" for k, v in keys.items()]
    for group, option in words.choices.items():
        labels[group] = option
        if not is_file(option):
            chosen[group] = option
            continue
        try:
            chosen[group], labels[group] = _register_file(group, option)
        except UserError as error:
            problems += error.problems
        except (
            OSError,
            ValueError,
            yaml.YAMLError,
            OmegaConfBaseException,
            TypeError,
        ) as error:
            text = " ".join(str(error).split())
            problems.append(Problem(option, f"cannot be read: {text}", "correct the YAML file"))
    overrides = [f"{group}={quote(option)}" for group, option in chosen.items()]
    cfg, failed = _compose(overrides, [*values, *words.values])
    problems += failed
    if cfg is None:
        return None, problems
    for key in sorted(OmegaConf.missing_keys(cfg)):
        problems.append(Problem(key, "has no value yet", f"give {key}=..."))
    try:
        container: Any = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        problems.append(Problem(str(error.full_key or "config"), _first_line(error)))
        return None, problems
    container["choices"] = labels
    return container, problems


def _compose(
    groups: Sequence[str], values: Sequence[str]
) -> tuple[DictConfig | None, list[Problem | str]]:
    try:
        return _with_values(groups, values), []
    except (HydraException, OmegaConfBaseException) as error:
        problems: list[Problem | str] = []
        try:
            _of_groups(tuple(groups))
        except (HydraException, OmegaConfBaseException) as own:
            return None, [Problem("config", _first_line(own))]
        for value in values:
            try:
                _with_values(groups, [value])
            except (HydraException, OmegaConfBaseException) as own:
                key, _, text = value.lstrip("+~").partition("=")
                hint = "see the keys there are with --cfg job"
                fact = f"cannot be set to {text}" if text else "cannot be removed"
                problems.append(Problem(key, f"{fact} ({_first_line(own)})", hint))
        return None, problems or [Problem("config", _first_line(error))]


def _with_values(groups: Sequence[str], values: Sequence[str]) -> DictConfig:
    """Return Hydra's composition of the groups' options, with the values set as Hydra sets them."""
    parsed = OverridesParser.create().parse_overrides(list(values))
    for override in parsed:
        if override.is_sweep_override():
            raise HydraException(f"{override.input_line}: several values for one configuration")
    config = copy.deepcopy(_of_groups(tuple(groups)))
    ConfigLoaderImpl._apply_overrides_to_config(parsed, config)
    return config


# Hydra reads every file again for each composition, which takes a third of a second. That is long
# for the hundreds of points of a sweep, which choose among few options and differ in values.
@functools.lru_cache(maxsize=64)
def _of_groups(groups: tuple[str, ...]) -> DictConfig:
    if all(choice in _SEEN for choice in groups):
        return _put_together(groups)
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIG_DIR)):
        whole = hydra_compose("config", list(groups))
    _SEEN.update((choice, whole) for choice in groups if not _is_registered(choice))
    return whole


_SEEN: dict[str, DictConfig] = {}
"""Earlier composition with each choice of a shipped option that was composed once."""


def _put_together(groups: tuple[str, ...]) -> DictConfig:
    """Return a composition made of earlier ones.

    No shipped option reaches out of its group, which tests/config checks.
    """
    config = copy.deepcopy(_SEEN[groups[0]])
    for choice in groups[1:]:
        group = choice.partition("=")[0]
        config[group] = _SEEN[choice][group]
    return config


def _first_line(error: Exception) -> str:
    return str(error.__cause__ or error).strip().splitlines()[0].rstrip(".")


def _register_file(group: str, path: str) -> tuple[str, str]:
    """Make a user's file an option. Return its name for Hydra, and the label shown to users.

    Relative paths in the file start from its folder. A trace or profile has its own name, which is
    the same wherever the file lies.
    """
    text = read_text(Path(path), follow=True)
    check_bounds(text)
    node = OmegaConf.load(io.StringIO(text))
    if not isinstance(node, DictConfig):
        raise TypeError("it holds no mapping of keys to values")
    _check_references(group, path, node)  # first, because a later lookup replaces the texts
    own_name = node.get("name") if group in FILED else None
    label = own_name.strip() if isinstance(own_name, str) and own_name.strip() else Path(path).stem
    if group == "profile":  # read as a file, so that its problems name their lines
        node = OmegaConf.create({"path": _literal(str(Path(path).resolve()))})
    elif group == "trace":
        _locate_data(node, Path(path).resolve().parent)
    return _register(group, path, node), label


def _check_references(group: str, path: str, node: DictConfig) -> None:
    """Refuse a file that refers to data that its author has no right to read.

    Raises:
        UserError: the file has such references.
    """
    content: Any = OmegaConf.to_container(node, resolve=False)
    problems: list[Problem | str] = [*resolver_problems(content, path)]
    if group != "profile":  # whose list is not Hydra's (harness.profiles.extend)
        problems += defaults_problems(content, path, options(group))
    if problems:
        raise UserError(problems)


def _locate_data(node: DictConfig, folder: Path) -> None:
    """Make the paths of a trace's reader and transforms absolute, except for shipped data."""
    steps = OmegaConf.select(node, "transforms")
    count = len(steps) if isinstance(steps, ListConfig) else 0
    for part in ("reader", *(f"transforms.{number}" for number in range(count))):
        key = f"{part}.path"
        data = OmegaConf.select(node, key)
        if isinstance(data, str):
            located, shipped = folder / data, CONFIG_DIR / "trace"
            is_shipped = located.is_relative_to(shipped)
            path = located.relative_to(shipped) if is_shipped else located
            OmegaConf.update(node, key, _literal(str(path)))


def _literal(value: Any) -> Any:
    """Return plain data in which OmegaConf finds no interpolation, even where a text has ``${``."""
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return literal(value) if isinstance(value, str) else value


_OWN = "own_"
"""Prefix of registered option names, which no shipped file has."""


def _is_registered(choice: str) -> bool:
    return choice.partition("=")[2].startswith(_OWN)


def _register(group: str, origin: str, node: DictConfig | dict[str, Any]) -> str:
    key = origin + json.dumps(OmegaConf.to_container(OmegaConf.create(node)), default=str)
    name = f"{_OWN}{zlib.crc32(key.encode()):08x}"
    ConfigStore.instance().store(group=group, name=name, node=node)
    return name
