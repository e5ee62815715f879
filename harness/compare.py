"""Command ``python -m harness.compare A B``: do two sets of results agree?

A setting is the set of runs with one configuration on the same contents of trace and profile,
whatever their seed and repetition. For every setting in both sets, each metric of A is compared
with that of B, as a ratio (a difference if it can be 0). The interval is Welch's over trials. Its
confidence makes all comparisons together wrong in at most one of twenty cases. Simulated runs of
the same seed must be the same byte for byte.

Exit code 0: nothing differs; 1: something does. 2: nothing to compare, results of different
versions of the benchmark, or a wrong argument.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from types import MappingProxyType

from rich import box
from rich.table import Table
from scipy.special import stdtrit

from harness.command_names import spelt
from harness.comparison.as_recorded import recorded_lines
from harness.comparison.assumptions import lines
from harness.comparison.inputs import input_name, made_of, outdated
from harness.comparison.setting_names import setting_names
from harness.comparison.settings import options_text, settings
from harness.configuration.benchmark_version import VersionError, one_version
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.machine.terminal import console
from harness.metrics.statistics import CONFIDENCE
from harness.results.store import StoredRun, StoreError, iter_runs
from harness.sweep.summary import HEADLINES

_WALL = "latencies"
"""Table of a simulated run that depends on the machine."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of one metric of one setting in both sets."""

    setting: str
    metric: str
    mean_a: float
    mean_b: float
    effect: float
    """Ratio A over B, or A minus B if a value is 0 or below."""
    low: float
    high: float
    is_ratio: bool
    num_a: int
    num_b: int
    word: str
    """Verdict: ``equivalent``, ``different``, ``not distinguishable``."""


def compare(
    set_a: Sequence[StoredRun],
    set_b: Sequence[StoredRun],
    metrics: Sequence[str],
    margin: float,
) -> list[Comparison]:
    """Return a comparison for every metric of every setting that both sets have.

    Args:
        set_a: runs.
        set_b: runs to compare them with.
        metrics: names of the metrics.
        margin: largest effect that still counts as equivalent: a share of a ratio, or a difference.
    """
    by_a, by_b = _both(set_a, set_b)
    names = setting_names({key: by_a[key][0] for key in sorted(by_a.keys() & by_b.keys())})
    pairs = [
        (names[key], metric, values_a, values_b)
        for key in names
        for metric in metrics
        for values_a in [_values(by_a[key], metric)]
        for values_b in [_values(by_b[key], metric)]
        if values_a and values_b
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    return [_compare(*pair, margin, confidence) for pair in pairs]


def _both(
    set_a: Sequence[StoredRun], set_b: Sequence[StoredRun]
) -> tuple[dict[str, list[StoredRun]], dict[str, list[StoredRun]]]:
    """Return the settings of both sets under the same keys, from a single call of ``settings``:
    keys of two calls need not agree."""
    of_a = set(map(id, set_a))
    by_a: dict[str, list[StoredRun]] = {}
    by_b: dict[str, list[StoredRun]] = {}
    for key, runs in settings([*set_a, *set_b]).items():
        for run in runs:
            (by_a if id(run) in of_a else by_b).setdefault(key, []).append(run)
    return by_a, by_b


def current(runs: Sequence[StoredRun], where: str) -> tuple[list[StoredRun], list[str]]:
    """Return the runs on the current contents of their files, and a line for each edited input.

    Args:
        runs: runs of one set.
        where: name of the set in lines.
    """
    old = outdated(runs)
    left_out = {id(each.run) for each in old}
    said = [
        f"{where}: {_counted(count, 'run')} on {what}, edited since, not compared"
        for what, count in sorted(Counter(each.what for each in old).items())
    ]
    return [run for run in runs if id(run) not in left_out], said


def not_compared(set_a: Sequence[StoredRun], set_b: Sequence[StoredRun]) -> list[str]:
    """Return a line for each input with other contents, and for the settings of one set only."""
    by_a, by_b = _both(set_a, set_b)
    only_a, only_b = _by_options(by_a, by_b), _by_options(by_b, by_a)
    all_a, all_b = _by_options(by_a), _by_options(by_b)
    made = dict(zip(map(id, (*set_a, *set_b)), made_of([*set_a, *set_b]), strict=True))
    counts: Counter[str] = Counter()
    for text in only_a.keys() | only_b.keys():
        if text not in all_a or text not in all_b:
            continue
        # If the other set has these options only with common contents, compare with those contents.
        own_a, own_b = only_a.get(text, all_a[text]), only_b.get(text, all_b[text])
        for what in ("trace", "profile"):
            a, b = (sorted({getattr(made[id(run)], what) for run in own}) for own in (own_a, own_b))
            if a != b:
                name, had_a, had_b = input_name(own_a[0], what), ", ".join(a), ", ".join(b)
                line = f"{name} has other contents in A ({had_a}) than in B ({had_b})"
                counts[line] += max(len(only_a.get(text, ())), len(only_b.get(text, ())))
    return [
        *(f"{text}: {_counted(n, 'setting')} not compared" for text, n in sorted(counts.items())),
        *_in_one_only("A", len(by_a.keys() - by_b.keys())),
        *_in_one_only("B", len(by_b.keys() - by_a.keys())),
    ]


def _by_options(
    own: Mapping[str, Sequence[StoredRun]], without: Mapping[str, object] = MappingProxyType({})
) -> dict[str, list[StoredRun]]:
    """Return a run of each setting, by options without contents; settings in ``without`` are left
    out."""
    found: dict[str, list[StoredRun]] = {}
    for key, runs in own.items():
        if key not in without:
            found.setdefault(options_text(runs[0].config), []).append(runs[0])
    return found


def _in_one_only(where: str, count: int) -> list[str]:
    verb = "is" if count == 1 else "are"
    return [f"{_counted(count, 'setting')} {verb} in {where} only"] if count else []


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _values(runs: Sequence[StoredRun], metric: str) -> list[float]:
    return [run.metrics[metric] for run in runs if metric in run.metrics]


def _compare(
    setting: str,
    metric: str,
    values_a: Sequence[float],
    values_b: Sequence[float],
    margin: float,
    confidence: float,
) -> Comparison:
    is_ratio = min(*values_a, *values_b) > 0
    scaled_a, scaled_b = (
        [math.log(value) for value in values] if is_ratio else list(values)
        for values in (values_a, values_b)
    )
    effect = fmean(scaled_a) - fmean(scaled_b)
    half = welch_half_width(scaled_a, scaled_b, confidence)
    low, high = effect - half, effect + half
    bound = math.log1p(margin) if is_ratio else margin
    if -bound <= low and high <= bound:
        word = "equivalent"
    elif low > 0 or high < 0:
        word = "different"
    else:
        word = "not distinguishable"
    back = math.exp if is_ratio else float
    return Comparison(
        setting=setting,
        metric=metric,
        mean_a=fmean(values_a),
        mean_b=fmean(values_b),
        effect=back(effect),
        low=back(low),
        high=back(high),
        is_ratio=is_ratio,
        num_a=len(values_a),
        num_b=len(values_b),
        word=word,
    )


def welch_half_width(
    values_a: Sequence[float], values_b: Sequence[float], confidence: float
) -> float:
    """Return half the interval of a difference of means whose spreads may differ.

    One trial has no spread, so the result is infinite unless all values are the same.

    Source: Welch, Biometrika 34 (1947), with his degrees of freedom.
    """
    if len({*values_a, *values_b}) == 1:
        return 0.0
    if min(len(values_a), len(values_b)) < 2:
        return math.inf
    parts = [variance(values) / len(values) for values in (values_a, values_b)]
    total = sum(parts)
    if total == 0.0:
        return 0.0
    counts = (len(values_a), len(values_b))
    degrees = total**2 / sum(
        part**2 / (count - 1) for part, count in zip(parts, counts, strict=True)
    )
    return float(stdtrit(degrees, 0.5 + confidence / 2)) * math.sqrt(total)


def unequal_replays(
    set_a: Sequence[StoredRun], set_b: Sequence[StoredRun]
) -> tuple[int, list[str]]:
    """Return the number of common simulated runs, and a line for each that differs.

    Runs are common if they have the same configuration and seed.
    """
    by_id = {run.run_id: run for run in set_b if _is_simulated(run)}
    common = [run for run in set_a if run.run_id in by_id and _is_simulated(run)]
    lines = []
    for run in common:
        mine, other = dict(run.digests), dict(by_id[run.run_id].digests)
        tables = sorted(
            table for table in {*mine, *other} - {_WALL} if mine.get(table) != other.get(table)
        )
        if tables:
            lines.append(f"{run.run_id}: not the same {', '.join(tables)}")
    return len(common), lines


def _is_simulated(run: StoredRun) -> bool:
    return not run.facts.get("steps_executed", 0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two folders of results and print the result; return the exit code."""
    parser = CommandParser(
        prog=spelt("harness.compare"),
        description="Compare a set of results with another: every metric of every setting.",
    )
    parser.add_argument("a", type=Path, metavar="A", help="folder with runs")
    parser.add_argument("b", type=Path, metavar="B", help="folder with runs to compare them with")
    parser.add_argument(
        "--metrics", nargs="+", metavar="NAME",
        default=[name for name, _, _ in HEADLINES if name != "replay_wall_s"],
        help="metrics to compare (default: those of the summary)",
    )  # fmt: skip
    parser.add_argument(
        "--margin", type=float, default=0.05,
        help="largest effect that counts as equivalent: a share of a ratio, or a difference "
             "(default: 0.05)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="show equivalent metrics as well")
    chosen = parser.parse_args(arguments)
    sets: list[list[StoredRun]] = []
    for folder in (chosen.a, chosen.b):
        try:
            sets.append(list(iter_runs(folder)))
        except StoreError as error:
            print(error, file=sys.stderr)
            return 2
        if not sets[-1]:
            print(f"{folder}: holds no finished run; give a folder of results", file=sys.stderr)
            return 2
    set_a, set_b = sets
    try:
        one_version([run.manifest for run in (*set_a, *set_b)], f"{chosen.a} and {chosen.b}")
    except VersionError as error:
        print(error, file=sys.stderr)
        return 2
    (set_a, left_a), (set_b, left_b) = current(set_a, "A"), current(set_b, "B")
    found = compare(set_a, set_b, chosen.metrics, chosen.margin)
    num_replays, unequal = unequal_replays(set_a, set_b)
    for line in (*left_a, *left_b, *not_compared(set_a, set_b)):
        print(line, file=sys.stderr)
    if not found and not num_replays:
        text = f"{chosen.a} and {chosen.b} have no setting in common"
        hint = "compare runs of the same configurations on the same inputs"
        print(f"{text}; {hint}", file=sys.stderr)
        return 2
    _show(found, num_replays, unequal, show_all=chosen.all)
    by_a, by_b = _both(set_a, set_b)
    common = [key for key in by_a if key in by_b]
    compared = [run for own in (by_a, by_b) for key in common for run in own[key]]
    for line in recorded_lines(compared):
        console().print(line, markup=False)
    for text in lines(compared):
        console().print(f"warning: {text}", markup=False)
    return 1 if unequal or any(each.word == "different" for each in found) else 0


def _show(
    found: Sequence[Comparison], num_replays: int, unequal: Sequence[str], *, show_all: bool
) -> None:
    out = console()
    shown = [each for each in found if show_all or each.word != "equivalent"]
    if shown:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("setting", "metric", "A", "B", "A over B, or A - B", "trials", ""):
            table.add_column(heading, overflow="fold")
        for each in shown:
            sign = "×" if each.is_ratio else ""
            table.add_row(
                each.setting,
                each.metric,
                f"{each.mean_a:,.4g}",
                f"{each.mean_b:,.4g}",
                f"{each.effect:.3g}{sign} [{each.low:.3g}, {each.high:.3g}]",
                f"{each.num_a}, {each.num_b}",
                each.word,
            )
        out.print(table)
    words = [each.word for each in found]
    out.print(
        f"{len(found)} comparisons: {words.count('equivalent')} equivalent,"
        f" {words.count('different')} different,"
        f" {words.count('not distinguishable')} not distinguishable."
    )
    if num_replays:
        out.print(
            f"{num_replays} simulated runs are in both:"
            f" {num_replays - len(unequal)} the same byte for byte."
        )
    for line in unequal:
        out.print(line)


if __name__ == "__main__":
    run_command(main)
