"""Findings of the README and blocks of the answer pages, in words, from measured numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from harness.metrics.statistics import Estimate, Interval
from reports.artifact.measured import (
    FREE,
    RESUME,
    WARM,
    ByScheduler,
    Error,
    Measured,
)
from reports.drawing.figure import Table
from reports.figures.pause_by_state import SHOWN, Pause, human_time

_PAGES = Path("docs/explanation")
README = Path("README.md")
WHICH = _PAGES / "which-scheduler.md"
WORTH = _PAGES / "is-stop-free-worth-it.md"
TRUST = _PAGES / "how-far-to-trust-the-simulator.md"

_COLD, _RESUMED, _WARM_RESTART, _FREE = (shown.label for shown in SHOWN)
_SHARE = 0.01
"""Share of the training time that makes a change of backend worth the work, by this project."""
_LARGE_MB = 2000.0
_NEAR = 0.03
"""Schedulers whose mean JCT is within this share of the shortest are named with it."""


def blocks(measured: Measured) -> dict[Path, dict[str, str]]:
    """Return the texts of all blocks by page and name."""
    texts: Mapping[Path, Mapping[str, Callable[[Measured], str]]] = {
        README: {"findings": findings},
        WHICH: {"answer": _which, "mean JCT": _jct, "cost of changes": _cost_of_changes,
                "deadlines": _deadlines, "fairness": _fairness, "schedulers": _all_schedulers},
        WORTH: {"answer": _worth, "break-even": _break_even, "length of a step": _by_step,
                "schedulers": _how_often, "GPU": _on_a_gpu},
        TRUST: {"answer": _trust, "errors": _errors, "own speeds": _own_speeds,
                "near ties": _near_ties},
    }  # fmt: skip
    return {
        page: {name: _unbroken(text(measured)) for name, text in own.items()}
        for page, own in texts.items()
    }


def _unbroken(text: str) -> str:
    """Return Markdown in whose tables no line ends between a number and its unit."""
    return re.sub(
        r"^\|.*$",
        lambda row: re.sub(r"(?<=\d) (?=(?:ms|s|MB|GB|%)\b|%)", "\N{NO-BREAK SPACE}", row[0]),
        text,
        flags=re.MULTILINE,
    )


def findings(measured: Measured) -> str:
    """Return the five findings of the README as a list."""
    return "\n".join(
        [
            _rescale_finding(measured),
            _jct_finding(measured),
            _deadline_finding(measured),
            _bits_finding(measured),
            _simulator_finding(measured),
        ]
    )


def _rescale_finding(measured: Measured) -> str:
    free, resumed = (_of(measured.pauses, label) for label in (_FREE, _RESUMED))
    most = max(ratio["high"] for ratio in measured.step_ratios)
    return (
        f"- **A rescale need not stop training.** While a worker joins, `stop_free` stops it for"
        f" {_ends_ms(free)} and `stop_resume` for {_ends_ms(resumed)}"
        f" ({_size(free[0])} to {_size(free[-1])} of state, two CPU cores)."
        f" Between rescales a step takes at most {_percent(most - 1, 1)} longer than plain"
        f" DistributedDataParallel. [Is it worth it?]({WORTH})"
    )


def _jct_finding(measured: Measured) -> str:
    jct = measured.by_scheduler("test_jct", "jct_mean_s")
    best, *others = jct.ranked(least_first=True)
    near = [name for name in others if jct.mean(name) <= (1 + _NEAR) * jct.mean(best)]
    ahead = jct.num_ahead(best, "fifo", less=True)
    return (
        f"- **`{best}` has the shortest mean JCT** in simulation: {_minutes(jct.mean(best))} min,"
        f" {_percent(1 - jct.mean(best) / jct.mean('fifo'))} below FIFO, and below it on"
        f" {_count(ahead, len(jct.inputs))} inputs from real traces."
        f" {_names(near)} come within {_percent(_NEAR)}. [Which scheduler?]({WHICH})"
    )


def _deadline_finding(measured: Measured) -> str:
    met = measured.by_scheduler("test_deadlines", "deadline_satisfactory_ratio")
    best = _promising(met)
    return (
        f"- **{_names(best)} meet most deadlines**: {_span([met.mean(name) for name in best])} of"
        f" them, where FIFO meets {_percent(met.mean('fifo'))} (means of {len(met.inputs)} inputs,"
        " simulated; changes cost nothing there)."
        f" [For deadlines]({WHICH}#for-deadlines)"
    )


def _promising(met: ByScheduler) -> list[str]:
    """Return the schedulers whose share of deadlines met is near the largest, largest first."""
    first, *others = met.ranked(least_first=False)
    return [first, *(name for name in others if met.mean(name) >= met.mean(first) - _NEAR)]


def _bits_finding(measured: Measured) -> str:
    same = [line["equal"] for line in measured.same_bits]
    models = {line["model"] for line in measured.same_bits}
    costs = measured.virtual_cost
    dearest = max(costs, key=costs.__getitem__)
    on_gpu = [
        each["numbers"]["over_plain"]
        for each in measured.gpu_parts
        if each["part"].startswith("turns/")
    ]
    return (
        f"- **Virtual workers give the bits of fixed-size training** whatever slots a job has:"
        f" {_count(sum(same), len(same))} drawn trainings of {len(models)} models."
        f" Four on a CPU slot cost {_percent(median(costs.values()) - 1, 1)} of a step (median of"
        f" {len(costs)} models; most: `{dearest}`, {_percent(costs[dearest] - 1)}). On one H200 a"
        f" step takes {min(on_gpu):.1f} to {max(on_gpu):.1f} times as long."
        f" [Virtual workers](docs/measurements/virtual-worker-cost.md)"
    )


def _simulator_finding(measured: Measured) -> str:
    errors = measured.errors("sim_vs_live", "simulated_varied")
    means = [abs(one.jct.error.mean) for one in errors]
    jobs = [one.jobs for one in errors if one.jobs is not None]
    return (
        f"- **The simulator's mean JCT is within {_percent(max(means), 1)} of live training** under"
        f" {len(errors)} schedulers; single jobs are off by up to {_percent(max(jobs))} (95th"
        f" percentile). [How far to trust it]({TRUST})"
    )


def _which(measured: Measured) -> str:
    jct = measured.by_scheduler("test_jct", "jct_mean_s")
    met = measured.by_scheduler("test_deadlines", "deadline_satisfactory_ratio")
    unfair = measured.by_scheduler("test_jct", "finish_time_fairness_max")
    soonest, promising = jct.ranked(least_first=True)[0], _promising(met)
    fair = unfair.ranked(least_first=True)[0]
    first = (
        f"For mean JCT and for fairness `{soonest}`"
        if soonest == fair
        else f"For mean JCT `{soonest}`, for fairness `{fair}`"
    )
    met_by = _span([met.mean(name) for name in promising])
    errors = measured.errors("sim_vs_live", "simulated_varied")
    off = max(abs(each.error.mean) for one in errors for each in (one.jct, one.makespan))
    return (
        f"**{first}, for deadlines {_names(promising, 'or')}.**"
        f" `{soonest}` has a mean JCT of {_minutes(jct.mean(soonest))} min, FIFO"
        f" {_minutes(jct.mean('fifo'))} min; it is below FIFO on"
        f" {_count(jct.num_ahead(soonest, 'fifo', less=True), len(jct.inputs))} inputs."
        f" {_names(promising)} meet {met_by} of hard deadlines, FIFO"
        f" {_percent(met.mean('fifo'))}. By finish-time fairness `{fair}` is first: its worst job"
        f" takes {unfair.mean(fair):.2f} times as long as on an equal share of its own, FIFO's"
        f" {unfair.mean('fifo'):.1f} times. All of this is simulated, with jobs of four real"
        f" traces on 128 A100. [The simulator](how-far-to-trust-the-simulator.md) has means within"
        f" {_percent(off, 1)} of live training where the two were compared: {len(errors)}"
        " schedulers, with short jobs on two CPU slots."
    )


def _jct(measured: Measured) -> str:
    jct = measured.by_scheduler("test_jct", "jct_mean_s")
    first, *others = jct.ranked(least_first=True)
    near = [name for name in others if jct.mean(name) <= (1 + _NEAR) * jct.mean(first)]
    ahead = {name: jct.num_ahead(name, first, less=True) for name in near}
    better = [
        f"`{name}` is ahead of it on {count} of them" for name, count in ahead.items() if count
    ]
    return (
        f"`{first}` is first by the mean of {len(jct.inputs)} inputs, and {_names(near)} come"
        f" within {_percent(_NEAR)}. {'; '.join(better) or 'No other is ahead of it on any'}."
    )


def _deadlines(measured: Measured) -> str:
    """Return what becomes of the deadlines where a change costs what the profile says."""
    met: dict[str, dict[str, float]] = {}
    for run in measured.runs("sens_elasticity"):
        config = run.stored.config
        if all("elastic=False" not in text for text in (run.setting, run.system)):
            scheduler = str(run.stored.manifest["choices"]["scheduler"])
            cost = str(config["engine"]["rescale_cost"])
            met.setdefault(cost, {})[scheduler] = run.metrics["deadline_satisfactory_ratio"]
    rows = [
        [f"`{name}`", *(f"{100 * met[cost][name]:.1f}" for cost in ("zero", "profile"))]
        for name in sorted(met["profile"], key=lambda name: (-met["profile"][name], name))
    ]
    table = Table(["deadlines met, %; a change costs", "nothing", "30 s"], rows).to_markdown()
    soonest = measured.by_scheduler("test_jct", "jct_mean_s").ranked(least_first=True)[0]
    first = max(met["profile"].items(), key=lambda item: item[1])
    return (
        f"Where a change of slots costs 30 s (the same 195 jobs), `{soonest}`, the first by"
        f" mean JCT, meets {_percent(met['profile'][soonest], 1)}, and the first, `{first[0]}`,"
        f" {_percent(first[1], 1)}.\n\n{table}"
    )


def _fairness(measured: Measured) -> str:
    unfair = measured.by_scheduler("test_jct", "finish_time_fairness_max")
    first = unfair.ranked(least_first=True)[:4]
    named = ", ".join(f"`{name}` {unfair.mean(name):.2f}" for name in first)
    return (
        f"The longest finish-time fairness ρ of a run's jobs, mean of {len(unfair.inputs)} inputs:"
        f" {named}; FIFO {unfair.mean('fifo'):.1f}. Below 1 a job ends sooner than it would alone"
        " on an equal share of the cluster."
    )


def _all_schedulers(measured: Measured) -> str:
    jct = measured.by_scheduler("test_jct", "jct_mean_s")
    met = measured.by_scheduler("test_deadlines", "deadline_satisfactory_ratio")
    unfair = measured.by_scheduler("test_jct", "finish_time_fairness_max")
    rows = [
        [
            f"`{name}`",
            f"{_minutes(jct.mean(name))} ({' to '.join(map(_minutes, jct.ends(name)))})",
            _change(jct.mean(name) / jct.mean("fifo") - 1),
            _points(met, name),
            f"{unfair.mean(name):.2f}",
        ]
        for name in jct.ranked(least_first=True)
    ]
    header = ["scheduler", "mean JCT, min", "to FIFO", "deadlines met, %", "fairness ρ, worst job"]
    return Table(header, rows).to_markdown()


def _points(met: ByScheduler, name: str) -> str:
    low, high = (f"{100 * end:.3g}" for end in met.ends(name))
    return f"{100 * met.mean(name):.1f} ({low} to {high})"


def _cost_of_changes(measured: Measured) -> str:
    """Return the mean JCT by scheduler where a change costs more and more."""
    found: dict[str, dict[float, float]] = {}
    for run in measured.runs("sens_rescale_cost"):
        factor = float(run.stored.config["engine"]["rescale_cost_factor"])
        scheduler = str(run.stored.manifest["choices"]["scheduler"])
        found.setdefault(scheduler, {})[factor] = run.metrics["jct_mean_s"]
    factors = sorted(next(iter(found.values())))
    shown = [factor for factor in factors if factor in (factors[0], 1.0, factors[-1])]
    rows = [
        [f"`{name}`", *(_minutes(own[factor]) for factor in shown)]
        for name, own in sorted(found.items(), key=lambda item: item[1][1.0])
    ]
    header = ["mean JCT, min; a change costs", *(_cost_word(factor) for factor in shown)]
    first = {factor: min(found, key=lambda name: found[name][factor]) for factor in shown}
    firsts = [f"`{first[factor]}` where a change costs {_cost_word(factor)}" for factor in shown]
    changes = f"First is {', '.join(firsts)}."
    return f"{changes}\n\n{Table(header, rows).to_markdown()}"


def _cost_word(factor: float) -> str:
    return "nothing" if factor == 0 else f"{30 * factor:.0f} s"


def _worth(measured: Measured) -> str:
    free, resumed = (measured.pause(label, _LARGE_MB).median_s for label in (_FREE, _RESUMED))
    lost = {name: measured.losses[name, _LARGE_MB].mean_s for name in (FREE, RESUME)}
    saved_s = lost[RESUME] - lost[FREE]
    often = measured.rescales_per_hour("test_jct")
    busiest = max(often, key=often.__getitem__)
    needed = 3600 * _SHARE / saved_s
    gained = often[busiest] * saved_s / 3600
    is_enough = often[busiest] >= needed
    usually = "usually yes" if is_enough else "usually no"
    verdict = "enough" if is_enough else "too little"
    return (
        f"**For 2 GB of state: {usually}. It is worth it if a job is rescaled more than"
        f" {needed:.1f} times an hour, or if no pause is allowed.** While a worker joins, training"
        f" stops for {human_time(free.value)} instead of {human_time(resumed.value)}"
        f" ({_interval(resumed)}). In lost training a rescale costs {lost[FREE]:.1f} s instead of"
        f" {lost[RESUME]:.1f} s. So stop-free saves"
        f" {_percent(_SHARE)} of the training time from {needed:.1f} rescales an hour on. Of our"
        f" schedulers `{busiest}` rescales most: {often[busiest]:.1f} times per job and hour on"
        f" real traces. Stop-free saves {_percent(gained, 1)} there, {verdict} by this measure. The"
        " numbers are of two CPU cores and of processes that import torch before they are needed."
        f" Cold processes add {_cold_seconds(measured)} to each restart."
    )


def _cold_seconds(measured: Measured) -> str:
    """Return by how much cold processes lengthen a stop-resume, from least to most, in words."""
    medians = {(one.label, one.workload): one.median_s.value for one in measured.pauses
               if one.state_mb is None}  # fmt: skip
    added = [
        medians[_COLD, workload] - value
        for (label, workload), value in medians.items()
        if label == _RESUMED
    ]
    return f"{min(added):.1f} to {max(added):.1f} s"


def _break_even(measured: Measured) -> str:
    rows = []
    for size, step_s in measured.steps_s.items():
        lost = {name: measured.losses[name, size].mean_s for name in (FREE, WARM, RESUME)}
        rows.append(
            [
                _megabytes(size),
                human_time(step_s),
                *(human_time(lost[name]) for name in (RESUME, WARM, FREE)),
                _often(lost[RESUME] - lost[FREE]),
                _often(lost[WARM] - lost[FREE]),
            ]
        )
    header = ["state", "step", "`stop_resume` loses", "`warm_restart`", "`stop_free`",
              "worth it over `stop_resume`", "over `warm_restart`"]  # fmt: skip
    return Table(header, rows).to_markdown()


def _by_step(measured: Measured) -> str:
    """Return rescales an hour from which stop-free is worth it, by size and padded step."""
    padded = measured.padded_losses
    steps = sorted({step for _, _, step in padded})
    sizes = sorted({size for _, size, _ in padded})
    rows = []
    for size in sizes:
        resumed_s = measured.pause(_RESUMED, size).median_s.value
        cells = []
        for step in steps:
            loss = padded.get((FREE, size, step))
            cells.append("" if loss is None else _often(resumed_s - loss.mean_s))
        rows.append([_megabytes(size), *cells])
    most = max(loss.out_s for (name, _, _), loss in padded.items() if name == FREE)
    lead = (
        f"With time to spare between steps `stop_free` loses at most {human_time(most)} by a"
        " scale-out, at any of these lengths of a step. So the break-even hardly depends on the"
        " step. It follows from what `stop_resume` stops for:"
    )
    header = ["state; step of", *(f"{1000 * step:.0f} ms" for step in steps)]
    return f"{lead}\n\n{Table(header, rows).to_markdown()}"


def _how_often(measured: Measured) -> str:
    often = measured.rescales_per_hour("test_jct")
    ranked = sorted(often, key=lambda name: (-often[name], name))
    rescaling = [name for name in ranked if often[name] >= 0.1]
    saved_s = (measured.losses[RESUME, _LARGE_MB].mean_s
               - measured.losses[FREE, _LARGE_MB].mean_s)  # fmt: skip
    rows = [
        [f"`{name}`", f"{often[name]:.2f}", _percent(often[name] * saved_s / 3600, 2)]
        for name in rescaling
    ]
    header = ["scheduler", "rescales per job and hour", "stop-free saves at 2 GB"]
    return Table(header, rows).to_markdown()


def _on_a_gpu(measured: Measured) -> str:
    size = 100_000_000
    resumed, free = (measured.gpu_pause_s(part, size) for part in ("stop_resume", "background"))
    (cold,) = [each for each in measured.gpu_parts if each["part"] == "start/cold"]
    starts = [each["seconds"] for each in cold["numbers"]["starts"]]
    return (
        f"On one H200, {_megabytes(size / 1e6)} of state: `stop_resume` with pre-imported processes"
        f" stops training for {human_time(resumed)}, `stop_free` for {human_time(free)}. A cold"
        f" start takes {min(starts):.1f} to {max(starts):.1f} s there. So a cold stop-resume costs"
        f" {_percent(_SHARE)} of the training time from {_often(median(starts))} on, whatever the"
        " size of the state. 2 GB were not measured on a GPU."
    )


def _trust(measured: Measured) -> str:
    errors = measured.errors("sim_vs_live", "simulated_varied")
    jct = [one.jct.error.mean for one in errors]
    makespan = [one.makespan.error.mean for one in errors]
    trials = {len(one.jct.live) for one in errors}
    estimates = [each.error for one in errors for each in (one.jct, one.makespan)]
    halves = [each.half_width for each in estimates if each.half_width is not None]
    jobs = [one.jobs for one in errors if one.jobs is not None]
    others = [one.other_trials for one in errors if one.other_trials is not None]
    paced = [one for one in measured.errors("paced_schedulers", "simulated") if one.jobs]
    worst = max(paced, key=lambda one: abs(one.jct.error.mean))
    worst_jobs = max(paced, key=lambda one: one.jobs or 0.0)
    counts = " or ".join(map(str, sorted(trials)))
    least = max(map(abs, jct + makespan))
    return (
        f"**Trust its means to {_percent(least, 1)}, and no single job.** Over {len(errors)}"
        f" schedulers with {counts} live trials each, simulated mean JCT is off by"
        f" {_ends_percent(jct)} and makespan by {_ends_percent(makespan)}, each ± {_span(halves)}"
        f" (95 % interval). Single jobs are off by {_span(jobs)} (95th percentile over jobs). To"
        f" replace the simulation by the mean of the other live trials leaves {_span(others)}."
        " Errors are larger where decisions are near ties: with steps paced to published curves,"
        f" mean JCT under `{worst.scheduler}` is {_percent(abs(worst.jct.error.mean), 1)} too"
        f" {'low' if worst.jct.error.mean < 0 else 'high'}, and single jobs under"
        f" `{worst_jobs.scheduler}` are off by {_percent(worst_jobs.jobs or 0.0)}."
        " All live runs were on one host."
    )


def _errors(measured: Measured) -> str:
    rows = [_error_row(one) for one in measured.errors("sim_vs_live", "simulated_varied")]
    return Table(_ERRORS, rows).to_markdown()


_ERRORS = ("scheduler", "mean JCT, %", "makespan, %", "single jobs, %", "other live trials, %")


def _own_speeds(measured: Measured) -> str:
    """Return what is left of the errors at the speeds that the live workers had."""
    left = {
        f"{what} under `{one.scheduler}`": own.mean
        for one in measured.errors("sim_vs_live", "simulated_varied")
        for what, each in (("mean JCT", one.jct), ("makespan", one.makespan))
        if (own := each.error_at_own_speeds) is not None
    }
    worst, *others = sorted(left, key=lambda name: -abs(left[name]))
    rest = max(abs(left[name]) for name in others)
    return (
        "Most of the error is the machine's speed of the day. Each live run was simulated again at"
        f" the speeds that its own workers had: then {len(others)} of {len(left)} means are within"
        f" {_percent(rest, 1)}, and {worst} is off by {_percent(abs(left[worst]), 1)}."
    )


def _near_ties(measured: Measured) -> str:
    rows = [_error_row(one) for one in measured.errors("paced_schedulers", "simulated")]
    return Table(_ERRORS, rows).to_markdown()


def _error_row(one: Error) -> list[str]:
    jobs, others = (
        "" if share is None else f"{100 * share:.1f}" for share in (one.jobs, one.other_trials)
    )
    return [f"`{one.scheduler}`", _plus_minus(one.jct.error), _plus_minus(one.makespan.error),
            jobs, others]  # fmt: skip


def _plus_minus(error: Estimate) -> str:
    half = "" if error.half_width is None else f" ± {100 * error.half_width:.1f}"
    mean = f"{100 * error.mean:+.1f}"
    return f"{mean.replace('+0.0', '0.0').replace('-0.0', '0.0')}{half}"


def _of(found: Sequence[Pause], label: str) -> list[Pause]:
    return [one for one in found if one.label == label and one.state_mb is not None]


def _size(one: Pause) -> str:
    return _megabytes(one.state_mb or 0.0)


def _megabytes(size: float) -> str:
    return f"{size / 1000:g} GB" if size >= 1000 else f"{size:g} MB"


def _ends_ms(found: Sequence[Pause]) -> str:
    """Return the least and the greatest median, with one unit if both have the same."""
    least, most = (human_time(end(one.median_s.value for one in found)) for end in (min, max))
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least} to {most}"


def _minutes(value_s: float) -> str:
    return f"{value_s / 60:,.0f}"


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _change(share: float) -> str:
    return "" if share == 0 else f"{100 * share:+.0f} %".replace("-", "\N{MINUS SIGN}")


def _count(part: int, whole: int) -> str:
    return f"all {whole}" if part == whole else f"{part} of {whole}"


def _names(names: Sequence[str], last: str = "and") -> str:
    quoted = [f"`{name}`" for name in names]
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _often(saved_s: float) -> str:
    """Return the rescales an hour from which the saved time is the share that is worth it."""
    if saved_s <= 0:
        return "never"
    return f"{_digits(3600 * _SHARE / saved_s)}/h"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _interval(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{found.num_trials} changes"
    return f"95 % interval {found.low:.1f} to {found.high:.1f} s"


def _ends_percent(values: Sequence[float]) -> str:
    low, high = (f"{100 * end:+.1f}".replace("-", "\N{MINUS SIGN}") for end in
                 (min(values), max(values)))  # fmt: skip
    return f"{low} to {high} %"


def _span(values: Sequence[float]) -> str:
    return f"{100 * min(values):.0f} to {100 * max(values):.0f} %"
