"""Systems next to each other on the same inputs, and a baseline among them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from harness.answer.differences import Difference, paired
from harness.answer.factors import Subject
from harness.answer.measures import Measure
from harness.results import verification_levels as levels

BASELINES = ("fifo", "static", "stop_resume")
"""Options that other systems are compared with, best known first."""


class Contrast:
    """Runs by a level, such as the scheduler, and by what they share with runs of other levels."""

    def __init__(
        self,
        found: Sequence[Subject],
        level_of: Callable[[Subject], str],
        key_of: Callable[[Subject], Hashable],
        what: str,
        is_crossed: bool = False,
    ) -> None:
        self.what = what
        """Noun for a level: scheduler, backend, system."""
        self._is_crossed = is_crossed
        """True if pairs of runs also share an option of another group."""
        self._found = list(found)
        self._cells: dict[str, dict[Hashable, Subject]] = {}
        for subject in found:
            self._cells.setdefault(level_of(subject), {})[key_of(subject)] = subject

    @property
    def is_complete(self) -> bool:
        """True if every level shares an input with another, so that pairs tell of it."""
        keys = [set(own) for own in self._cells.values()]
        return all(any(a & b for b in keys if b is not a) for a in keys)

    @property
    def levels(self) -> list[str]:
        """Names of the levels, sorted."""
        return sorted(self._cells)

    def known(self, measure: Measure) -> list[str]:
        """Return the levels that have the measure."""
        return [level for level in self.levels if self._values(measure, level)]

    def baseline(self, measure: Measure) -> str:
        """Return the level that others are compared with: a usual one, else the worst.

        Raises:
            ValueError: no level has the measure.
        """
        known = self.known(measure)
        for option in BASELINES:
            fitting = [n for n in known if option in n.replace(",", " ").split()]
            # Among several with the option, the one with more usual options comes first.
            if fitting:
                return min(fitting, key=lambda n: (-sum(o in n.split() for o in BASELINES), n))
        worst = max if measure.least_is_best else min
        return worst(known, key=lambda n: (self.value(measure, n), n))

    def is_usual(self, level: str) -> bool:
        """Return whether a level is a baseline by its name, not because it is the worst."""
        return any(option in level.replace(",", " ").split() for option in BASELINES)

    def value(self, measure: Measure, level: str) -> float:
        """Return the typical value of a level."""
        return measure.typical([*self._values(measure, level).values()])

    def difference(self, measure: Measure, level: str, other: str) -> Difference | None:
        """Return the difference of a level from another; None if they share no input."""
        mine, its = self._values(measure, level), self._values(measure, other)
        shared = [key for key in mine if key in its]
        pairs = [(mine[key], its[key]) for key in sorted(shared, key=repr)]
        return paired(pairs, measure.is_share) if pairs else None

    def ranked(self, measure: Measure) -> list[str]:
        """Return the levels from best to worst by their typical values; those without come last."""
        sign = 1 if measure.least_is_best else -1
        known = self.known(measure)
        rest = [level for level in self.levels if level not in known]
        return [*sorted(known, key=lambda n: (sign * self.value(measure, n), n)), *rest]

    def leaders(self, measure: Measure) -> list[str]:
        """Return the best level, and those that its pairs do not show to be worse.

        Bounds, which no scheduler can reach, are not among them.
        """
        known = self.known(measure)
        ranked = [n for n in self.ranked(measure) if n in known and not self.is_bound(n)]
        leaders, worse = ranked[:1], 1 if measure.least_is_best else -1
        for level in ranked[1:]:
            found = self.difference(measure, level, leaders[0])
            if found is not None and found.side != worse:
                leaders.append(level)
        return leaders

    def is_bound(self, level: str) -> bool:
        """Return whether a level is an oracle."""
        return any(subject.is_oracle for subject in self._cells[level].values())

    def shown(self, level: str) -> str:
        """Return the name of a level for tables, with its scheduler's verification level."""
        said = sorted({subject.level for subject in self._cells[level].values()})
        return levels.with_level(level, " or ".join(said)) if self._names_schedulers else level

    def named(self, level: str) -> str:
        """Return the name of a level for sentences: that of a whole system as tables show it."""
        return self.shown(level) if " / " in level else level

    @property
    def _names_schedulers(self) -> bool:
        return any("scheduler" in subject.factors for subject in self._found)

    def pairs_noun(self) -> str:
        """Return what a pair of runs shares: an input, a seed, a repetition, or several of them."""
        keys = [(s.inputs, s.trial[0], s.trial[1]) for s in self._found]
        varied = [len({key[at] for key in keys}) > 1 for at in range(3)]
        if varied.count(True) > 1 or (self._is_crossed and any(varied)):
            return "pairs of runs"
        return ("inputs", "seeds", "repetitions")[varied.index(True)] if any(varied) else "inputs"

    def shares_all(self, measure: Measure) -> bool:
        """Return whether the levels are compared on inputs that all of them have."""
        return bool(self._shared(measure))

    def _shared(self, measure: Measure) -> set[Hashable]:
        own = [set(self._all_values(measure, level)) for level in self.levels]
        return set.intersection(*filter(None, own)) if any(own) else set()

    def _values(self, measure: Measure, level: str) -> dict[Hashable, float]:
        """Return a level's values on the inputs that all levels have; if there are none, all."""
        own, shared = self._all_values(measure, level), self._shared(measure)
        return {key: value for key, value in own.items() if key in shared} if shared else own

    def _all_values(self, measure: Measure, level: str) -> dict[Hashable, float]:
        return {
            key: measure.values[subject.run.run_id]
            for key, subject in self._cells[level].items()
            if subject.run.run_id in measure.values
        }
