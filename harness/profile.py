"""Command for profiles: ``python -m harness.profile show|lint|measure``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.command_names import spelt
from harness.contracts.job_state import JobState
from harness.contracts.process import Warmth
from harness.errors import Problem, UserError, render
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.profiles import RECORDED, Profile, ProfileError, load_profile
from harness.profiles.document import read_document
from harness.profiles.evaluate import ProfileTrial, evaluate, step_times
from harness.profiles.measurement import Measurement
from harness.profiles.read import SHIPPED
from harness.profiles.write import profile_text, setting
from harness.sweep import runner as sweep
from harness.sweep.measure_profile import points_of

_YAML = (".yaml", ".yml")


def open_profile(name: str) -> Profile:
    """Return a shipped profile by name, or any profile by the path of its YAML file.

    Raises:
        ProfileError: there is no such profile, or it has mistakes.
    """
    path = Path(name)
    if path.suffix not in _YAML:
        path = SHIPPED / f"{name}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
            raise ProfileError(
                [f"unknown profile {name!r}; known: {known}, or the path of a .yaml"]
            )
    return load_profile(path)


def describe(profile: Profile) -> str:
    """Return the profile as text: provenance, curves in samples per second, rescale costs."""
    lines = [f"profile {profile.name}", ""]
    for key, value in profile.provenance.items():
        if key == "curves":
            continue
        values = value if isinstance(value, list) else [value]
        lines += [f"  {key:14} {entry}" for entry in values]
    for workload in profile.workloads:
        origin = profile.provenance["curves"][workload]
        lines += ["", f"{workload} on {origin['device']}, samples per second"]
        if workload == RECORDED:
            lines.append("  T(w) = w on w slots, assumed (work in slot-seconds)")
            continue
        family = profile.families[workload]
        columns = sorted(
            {slots for batch in family.batches for slots in family.measured_slots(batch)}
        )
        lines.append("  batch" + "".join(f"{slots:>10}" for slots in columns) + "   best")
        for batch in family.batches:
            curve, measured = family.curve(batch), family.measured_slots(batch)
            cells = (
                f"{curve.samples_per_s(slots):>10.1f}" if slots in measured else f"{'-':>10}"
                for slots in columns
            )
            lines.append(f"  {batch:>5}" + "".join(cells) + f"{curve.best_slots(columns[-1]):>7}")
    lines += ["", "rescale costs, seconds: preparation + pause"]
    for cell in profile.cost_cells:
        phases = ", ".join(f"{phase} {value:.3g}" for phase, value in cell.cost.phases_s.items())
        lines.append(
            f"  {cell.describe()}: {cell.cost.preparation_s:.3g} + {cell.cost.pause_s:.3g}"
            + (f" ({phases})" if phases else "")
        )
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = CommandParser(
        prog=spelt("harness.profile"),
        description="Show, check or measure throughput and rescale-cost profiles.",
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    show = commands.add_parser("show", help="print a profile's provenance, curves and costs")
    show.add_argument("profile", help="name of a shipped profile, or path of a YAML file")
    lint = commands.add_parser("lint", help="check profile files; reports all mistakes at once")
    lint.add_argument("files", nargs="+", metavar="FILE", help="path of a YAML file")
    add_measure(commands)
    return parser


_VISIT_S = 2.0
"""Advised seconds at each size; progress reaches the scheduler 20 times a second."""

_LISTS = (
    ("--workloads", "all", "of the pool"),
    ("--batches", "32", "global batches"),
    ("--sizes", "1,2", "slot counts"),
    ("--backends", "stop_resume", "options of the group backend; the first gives the speeds"),
    ("--warmths", "as configured", "how workers start: cold, preimported, spare or standby"),
    ("--placements", "as configured", "options of the group placement, on several hosts"),
)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        hint = "give whole numbers with commas, for example 1,2,4"
        raise UserError([Problem(option, f"is {text!r}", hint)]) from None


_AS_IS = "as configured"


def _warmths(text: str) -> tuple[Warmth, ...]:
    if text == _AS_IS:
        return ()
    try:
        return tuple(map(Warmth, text.split(",")))
    except ValueError:
        known = ", ".join(Warmth)
        raise UserError([Problem("--warmths", f"is {text!r}", f"known: {known}")]) from None


def _steps(text: str) -> tuple[int, dict[str, int]]:
    """Return the number for all workloads, and the numbers for single ones."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        if not number.isdecimal() or name in found:
            hint = "give one number, and others by workload: 40,ncf=2000"
            raise UserError([Problem("--steps", f"is {text!r}", hint)])
        found[name] = int(number)
    return found.pop("", 40), found


def add_measure(commands: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the command ``measure`` to the parser."""
    measure = commands.add_parser(
        "measure",
        help="measure speeds and rescale costs here, into a profile file",
        description=(
            "Trains one job at a time with real processes, at every size and through every change "
            "between sizes, and writes a profile. The runs are stored as a sweep: after a stop, "
            "the same command continues. Run nothing else on the machine meanwhile."
        ),
    )
    measure.add_argument("file", type=Path, help="YAML file to write; its stem names the profile")
    measure.add_argument("--pool", default="tiny", help="option of the group workload")
    for flag, default, means in _LISTS:
        measure.add_argument(flag, default=default, metavar="A,B", help=means)
    measure.add_argument("--cluster", default="cpu2", help="option of the group cluster")
    measure.add_argument("--trials", type=int, default=4, help="runs of each workload and batch")
    measure.add_argument(
        "--steps",
        default="40",
        metavar="N,A=N",
        help="steps that count at each size, for all workloads or single ones",
    )
    measure.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override of every run"
    )
    measure.add_argument("--dry", action="store_true", help="print the plan; start nothing")


def measure_profile(options: argparse.Namespace) -> int:
    """Make the runs that are missing, and write the profile; return the exit code.

    Raises:
        UserError: an option is wrong; all problems at once.
    """
    if options.file.suffix not in _YAML:
        hint = f"name the YAML file to write: {options.file}.yaml"
        raise UserError([Problem("file", f"{options.file} is no .yaml", hint)])
    name = options.file.stem
    steps, steps_of = _steps(options.steps)
    measurement = Measurement(
        name=name,
        folder=Path("results/sweeps") / f"profile-{name}" / "traces",
        pool=options.pool,
        workloads=() if options.workloads == "all" else tuple(options.workloads.split(",")),
        batches=_numbers("--batches", options.batches),
        sizes=_numbers("--sizes", options.sizes),
        cluster=options.cluster,
        backends=tuple(options.backends.split(",")),
        warmths=_warmths(options.warmths),
        placements=() if options.placements == _AS_IS else tuple(options.placements.split(",")),
        trials=options.trials,
        steps=steps,
        steps_of=steps_of,
        words=tuple(options.set),
    )
    planned = points_of(measurement)
    entries = sweep.plan_sweep(planned)
    if problem := _occupied(options.file, measurement, entries):
        raise UserError([problem])
    if options.dry:
        sweep.show_plan(planned, entries)
        return 0
    code = sweep.run_sweep(planned, entries)
    if code:
        return code
    failed = [problem for entry in entries if (problem := what_failed(entry)) is not None]
    if failed:
        print(*failed, "No profile was written.", sep="\n", file=sys.stderr)
        return 1
    trials: dict[tuple[str, str | None, str, int], list[ProfileTrial]] = {}
    for entry in entries:
        assert entry.stored is not None
        axes = entry.point.axes
        key = (axes["backend"], axes.get("warmth"), axes["workload"], int(axes["batch"]))
        host_of = entry.planned.setup.cluster.host_of
        trials.setdefault(key, []).append(evaluate(entry.stored.records, host_of))
    last = entries[-1]
    assert last.stored is not None
    device = ", ".join(last.planned.setup.cluster.device_types)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(
        profile_text(measurement, trials, last.stored.manifest, device), encoding="utf-8"
    )
    load_profile(options.file)
    print(f"Profile: {options.file}; use it with profile={options.file}")
    return 0


def _occupied(
    file: Path, measurement: Measurement, entries: Sequence[sweep.Entry]
) -> Problem | None:
    """Return why a file must not be overwritten; None if it may be.

    It may be overwritten if this measurement wrote it: same setting, and some of its runs are
    stored here.
    """
    if not file.exists():
        return None
    data = read_document(file).data
    provenance = data.get("provenance") if isinstance(data, Mapping) else None
    written = provenance.get("setting") if isinstance(provenance, Mapping) else None
    if written != setting(measurement):
        fact = f"exists, with the setting {written!r}; this is {setting(measurement)!r}"
    elif all(entry.planned.stored() is None for entry in entries):
        fact = "exists, and none of its runs is stored here"
    else:
        return None
    return Problem(str(file), fact, "name another file, or move that one away")


def what_failed(entry: sweep.Entry) -> Problem | None:
    """Return why a run cannot be measured, or None."""
    assert entry.stored is not None
    records, place = entry.stored.records, str(entry.stored.path)
    job = records.jobs[0]
    if job.state != JobState.FINISHED:
        hint = "remove the cause, then repeat the command with --set force=true"
        return Problem(place, f"the job is {job.state}: {job.reason}", hint)
    made = sum(change.outcome == "done" for change in records.changes)
    wanted = 1 + len(entry.planned.config.scheduler["script"])
    if made == wanted:
        return None
    step_s = min(step_times(records.steps).values())
    steps = math.ceil(_VISIT_S / step_s)
    fact = (
        f"{made} of {wanted} changes were made before the job ended, {step_s * 1000:.1f} ms a step"
    )
    return Problem(
        place, fact, f"train longer at each size: --steps {entry.point.axes['workload']}={steps}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 on success, 2 after a mistake of the user."""
    options = build_parser().parse_args(argv)
    if options.command == "measure":
        try:
            return measure_profile(options)
        except UserError as error:
            print(render(error.problems), file=sys.stderr)
            return 2
    problems: list[str] = []
    for name in [options.profile] if options.command == "show" else options.files:
        try:
            profile = open_profile(name)
        except ProfileError as error:
            problems += map(str, error.problems)
            continue
        if options.command == "show":
            print(describe(profile))
        else:
            print(f"{name}: {len(profile.workloads)} workloads, no mistakes")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


if __name__ == "__main__":
    run_command(main)
