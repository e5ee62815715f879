"""Factors by which runs differ: system, input, a number, trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.comparison.inputs import contents_labels, without_seed
from harness.configuration.identity import portable
from harness.configuration.schema import GROUPS
from harness.results import verification_levels as levels
from harness.results.store import StoredRun

SYSTEM = ("scheduler", "backend", "placement", "launcher", "scaling")
"""Groups whose options make systems; those of the other groups make inputs."""
_LEAST_NUMBERS = 3
"""Fewest values of a number for which a trend is told."""
_NO_INPUT = frozenset({"launcher", "tracking"})
_ONLY_OBSERVES = frozenset(
    {"engine.check_reference", "engine.digest_every", "engine.evidence", "engine.evidence_steps"}
)
"""Options that change what is checked or kept of a replay, and not the replay."""
_LONGEST = 24
"""Longest value of an option in a name."""

Inputs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Subject:
    """A run under the names that sentences use."""

    run: StoredRun
    system: str
    """Options of the system that vary, in words; "" if none does."""
    factors: Mapping[str, str]
    """Option of each group of ``SYSTEM`` that varies, with what tells it from its namesakes."""
    inputs: Inputs
    """Names and values of the inputs that vary, as far as the system does not determine them."""
    input_name: str
    trial: tuple[int, int]
    """Seed and repetition."""
    options: Mapping[str, Any]
    """Every varying option, by dotted name."""

    @property
    def level(self) -> str:
        """Verification level of the run's scheduler."""
        return levels.of_run(self.run)

    @property
    def is_oracle(self) -> bool:
        """True if the scheduler assumes full knowledge of the future."""
        return self.level.startswith("bound")


@dataclass(frozen=True)
class Number:
    """A number that was varied on purpose."""

    name: str
    tied: frozenset[str]
    """Options that change together with it, itself included."""

    @property
    def word(self) -> str:
        """Noun for it: load, number of hosts."""
        words = self._words
        return f"number of {words[4:]}" if words.startswith("num ") else words

    def at(self, value: float) -> str:
        """Return it with a value: load 0.3, 190 hosts."""
        words = self._words
        return f"{value:g} {words[4:]}" if words.startswith("num ") else f"{words} {value:g}"

    @property
    def _words(self) -> str:
        return self.name.rpartition(".")[2].strip("_").replace("_", " ")


def is_live(run: StoredRun) -> bool:
    """Return whether real workers trained in the run."""
    return run.facts.get("steps_executed", 0.0) > 0


def subjects(runs: Sequence[StoredRun]) -> list[Subject]:
    """Return the runs with what varies among them, in an order that does not depend on theirs."""
    runs = sorted(runs, key=lambda run: run.run_id)
    options = varying_options(runs)
    names = sorted({name for own in options for name in own})
    chosen = [g for g in SYSTEM if g in names]
    # Options of a group make systems where the group was varied; else those of a single group.
    varied = [g for g in ("backend", *SYSTEM) if any(n.split(".")[0] == g for n in names)]
    system = [n for n in names if n.split(".")[0] in (chosen or varied[:1])]
    inputs = [
        name
        for name in names
        if not (name in system or name.split(".")[0] in _NO_INPUT or name in _ONLY_OBSERVES)
    ]
    groups = sorted({name.split(".")[0] for name in system}, key=SYSTEM.index)
    of_group = {group: [n for n in system if n.split(".")[0] == group] for group in groups}
    labels = {g: labelled([_of(own, names) for own in options]) for g, names in of_group.items()}
    whole = [" / ".join(labels[group][at] for group in groups) for at in range(len(runs))]
    free = [name for name in inputs if not _is_determined(name, whole, options)] or inputs
    input_names = labelled([_of(own, free) for own in options])
    return [
        Subject(
            run=run,
            system=whole[at],
            factors={group: labels[group][at] for group in groups},
            inputs=tuple((name, _hashable(options[at].get(name))) for name in free),
            input_name=input_names[at],
            trial=(int(run.manifest.get("seed") or 0), int(run.manifest.get("repetition") or 0)),
            options=options[at],
        )
        for at, run in enumerate(runs)
    ]


def varying_options(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Return for every run the options in which the runs differ, by dotted name, without seeds.

    A group's chosen option is under the group's name. Contents of edited inputs count as options.
    """
    flat = []
    for run, contents in zip(runs, contents_labels(runs), strict=True):
        kept = {group: run.config[group] for group in (*GROUPS, "scaling") if group in run.config}
        own = _flat(without_seed(portable(kept), run.config.get("seed")))
        choices = run.manifest.get("choices") or run.config.get("choices") or {}
        own |= {str(k): str(v) for k, v in choices.items() if k != "tracking"}
        flat.append(own | {f"{what}.contents": text for what, text in contents.items()})
    names = sorted({name for own in flat for name in own if not name.startswith("tracking")})
    varying = [n for n in names if len({repr(own.get(n)) for own in flat}) > 1]
    chosen = {name for name in varying if "." not in name and name != "scaling"}
    # The class of a part follows from its chosen option.
    varying = [n for n in varying if not (n.endswith("_target_") and n.split(".")[0] in chosen)]
    return [{name: own[name] for name in varying if name in own} for own in flat]


def number_of(found: Sequence[Subject]) -> Number | None:
    """Return the number that was varied, of the one with most values; None if there is none.

    Other options may vary only together with it, or be those of the compared systems.
    """
    names = sorted({name for subject in found for name in subject.options})
    best: tuple[int, Number] | None = None
    for name in names:
        values = [subject.options.get(name) for subject in found]
        count = len({*map(repr, values)})
        if count < _LEAST_NUMBERS or not all(map(_is_number, values)):
            continue
        tied = frozenset(n for n in names if _is_one_to_one(n, name, found))
        if best is None or count > best[0]:
            best = count, Number(name, tied)
    return best[1] if best else None


def _is_determined(name: str, systems: Sequence[str], options: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an input follows from the system, so that pairs cannot share it."""
    if len({*systems}) < 2:
        return False
    pairs = {(s, repr(own.get(name))) for s, own in zip(systems, options, strict=True)}
    return len(pairs) == len({*systems})


def labelled(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a short name for each combination of options: the choices, and what else it takes."""
    names = sorted({name for own in options for name in own}, key=lambda n: (n.count("."), n))
    told = [name for name in names if "." not in name]
    for name in (n for n in names if "." in n):
        before = {tuple(repr(own.get(t)) for t in told) for own in options}
        after = {tuple(repr(own.get(t)) for t in [*told, name]) for own in options}
        if len(after) > len(before):
            told.append(name)
    shared: dict[str, set[str]] = {}
    firsts = [_word(own, told) for own in options]
    for first, own in zip(firsts, options, strict=True):
        shared.setdefault(first, set()).add(repr([own.get(t) for t in told]))
    texts = []
    numbers: dict[str, int] = {}
    for first, own in zip(firsts, options, strict=True):
        parts = [first] if first else []
        if len(shared[first]) > 1 or not first:
            for name in (t for t in told if "." in t):
                alike = {
                    repr(o.get(name)) for f, o in zip(firsts, options, strict=True) if f == first
                }
                if len(alike) > 1 and own.get(name) is not None:
                    parts.append(f"{name.rpartition('.')[2]}={_value(own[name], name, numbers)}")
        texts.append(", ".join(parts))
    return texts


def _word(own: Mapping[str, Any], told: Iterable[str]) -> str:
    return " ".join(str(own[t]) for t in told if "." not in t and own.get(t) is not None)


def _value(value: Any, name: str, numbers: dict[str, int]) -> str:
    text = f"{value:g}" if _is_number(value) else str(value)
    if len(text) <= _LONGEST:
        return text
    key = f"{name} {text}"
    if key not in numbers:
        numbers[key] = 1 + sum(k.startswith(f"{name} ") for k in numbers)
    return f"#{numbers[key]}"


def _of(own: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: own.get(name) for name in names}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        items = [(str(name), inner) for name, inner in value.items()]
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        items = [(str(at), inner) for at, inner in enumerate(value)]
    else:
        return {prefix: value}
    return {
        key: found
        for name, inner in items
        for key, found in _flat(inner, f"{prefix}.{name}" if prefix else name).items()
    }


def _hashable(value: Any) -> Any:
    return value if value.__hash__ else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_one_to_one(one: str, other: str, found: Sequence[Subject]) -> bool:
    pairs = {(repr(s.options.get(one)), repr(s.options.get(other))) for s in found}
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
