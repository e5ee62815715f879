"""Command ``python -m harness``: one run, a sweep, or a study."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.command_names import spelt
from harness.comparison.as_recorded import recorded_lines
from harness.comparison.assumptions import lines
from harness.configuration.compose import is_file, parse_overrides, value_of
from harness.configuration.fast_yaml import read_yaml
from harness.configuration.help import of_group, overview
from harness.configuration.schema import GROUPS, RunConfig, hash_json
from harness.configuration.study import Point, Study, key_of, load_study, product, size_problems
from harness.errors import ElastraceError, Problem, UserError, render, suggest
from harness.files.bounded_file import read_text
from harness.machine.interrupts import TIME_LIMIT_EXIT, Interrupted, ends_at_once
from harness.machine.terminal import console, seconds
from harness.results.archive import ArchiveError, located
from harness.results.store import StoredRun, StoreError, load_run
from harness.run.estimate import estimate_wall_s
from harness.run.execute import config_yaml, execute, mirror_run, print_warnings
from harness.run.plan import Library, RunPlan, plan
from harness.sweep import runner as sweep
from harness.sweep.point_claims import Claims
from harness.sweep.progress import RunProgress
from harness.sweep.summary import executed_line, fixed_size_lines, show_answer
from harness.trace.model.similarity import similarity_lines

_SIGNALS = 128
"""Largest exit code of a process that was not ended by a signal."""
_SIZES = ("quick", "full")
"""Sizes of a study."""
_LABEL = "sweep"
"""Key of a sweep's label, which names the sweep's folder and is stored with every run."""
_LABELS = ("force", "dry", "progress", "results_dir", "sweep")
"""Keys of a stored configuration that say how it was run; they do not determine results."""


@dataclass
class Arguments:
    """Parsed command line."""

    words: list[str] = field(default_factory=list)
    """Overrides, without ``study=``."""
    study: str | None = None
    size: str = "full"
    """Size of the study: ``quick`` or ``full``."""
    sweeping: bool = False
    show_config: bool = False
    is_point: bool = False
    """True if a sweep has checked this run already and copies it to MLflow afterwards."""
    base_path: str | None = None
    help_of: str | None = None
    """Group whose help is wanted; empty: the overview."""
    problems: list[Problem | str] = field(default_factory=list)


def read_arguments(argv: Sequence[str]) -> Arguments:
    """Parse a command line; its mistakes are in ``problems``."""
    found = Arguments()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            found.help_of = rest.pop(0) if rest and "=" not in rest[0] else ""
        elif word in ("-m", "--multirun"):
            found.sweeping = True
        elif word == "--point":
            found.is_point = True
        elif word.partition("=")[0] in ("--cfg", "--from"):
            flag, _, value = word.partition("=")
            value = value or (rest.pop(0) if rest else "")
            _read_flag(flag, value, found)
        elif word.startswith("-"):
            hint = suggest(word, ("-m", "--cfg", "--from", "--point", "--help"))
            found.problems.append(Problem(f"argument {word!r}", "unknown flag", hint))
        elif word.startswith("study="):
            value = word.partition("=")[2]
            found.study = value if value not in ("", "null") else None
        elif word.startswith("size="):
            found.size = word.partition("=")[2]
            if found.size not in _SIZES:
                hint = f"give one of {', '.join(_SIZES)}"
                found.problems.append(Problem("size", f"is {found.size!r}", hint))
        else:
            found.words.append(word)
    return found


def _read_flag(flag: str, value: str, found: Arguments) -> None:
    if flag == "--from":
        try:
            path = located(Path(value))
        except ArchiveError as error:
            found.problems.append(str(error))
            return
        found.base_path = str(path)
        if not path.is_file():
            hint = "give the config.yaml, or config.yaml.gz, of a stored run"
            found.problems.append(Problem("--from", f"there is no file {value!r}", hint))
    elif value == "job":
        found.show_config = True
    else:
        fact = f"is {value!r}"
        found.problems.append(Problem("--cfg", fact, "write --cfg job for the configuration"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. A traceback goes to a log file, never to the
    terminal."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(words)
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    except Interrupted as interrupted:
        return _say_interrupted(interrupted)
    except KeyboardInterrupt:
        print("Stopped before anything was started.", file=sys.stderr)
        return 130
    except StoreError as error:
        print(str(error), file=sys.stderr)
        return 1
    except (OSError, UnicodeDecodeError):
        raise  # ``run_command`` reports failures of disks and pipes
    except Exception as error:
        print(_report_failure(error), file=sys.stderr)
        return 1


def _say_interrupted(interrupted: Interrupted) -> int:
    why = "max_wall_s is over" if interrupted.exit_code == TIME_LIMIT_EXIT else str(interrupted)
    print(
        f"Stopped ({why}): workers are gone and nothing of this run was stored."
        " The same command runs it again.",
        file=sys.stderr,
    )
    return interrupted.exit_code


def _report_failure(error: Exception) -> str:
    """Return one line for the user, and write the traceback to a file."""
    details = ""
    with suppress(OSError):  # show the reason even if the disk is full
        with tempfile.NamedTemporaryFile(
            "w", prefix="elastrace-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
        details = f" Details: {file.name}"
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    name, text = type(error).__name__, " ".join(str(error).split()).removesuffix(".")
    if not text:
        text = f"{name}: no further text"
    elif not isinstance(error, ElastraceError):
        text = f"{name}: {text}"
    return f"Failed: {text}{notes}.{details}"


def _main(argv: list[str]) -> int:
    arguments = read_arguments(argv)
    if arguments.help_of is not None:
        return _show_help(arguments.help_of)
    base = _read_base(arguments)
    if arguments.study is not None or arguments.sweeping:
        return _run_many(arguments, argv)
    try:
        config = sweep.read_words(arguments.words, base)
    except UserError as error:
        raise UserError([*arguments.problems, *error.problems]) from None
    if arguments.problems:
        raise UserError(arguments.problems)
    if arguments.show_config:
        print(config_yaml(config), end="")
        return 0
    command = ["python", "-m", "harness", *argv]
    if arguments.is_point:  # a stop while planning must always end the command, without a message
        with ends_at_once():
            return _run_one(plan(config, check_workloads=False), command, mirroring=False)
    return _run_one(plan(config), command, mirroring=True)


def _show_help(group: str) -> int:
    if group and group not in (*GROUPS, "study"):
        raise UserError([Problem("--help", f"unknown group {group!r}", suggest(group, GROUPS))])
    print(of_group(group) if group else overview())
    return 0


def _read_base(arguments: Arguments) -> Mapping[str, Any] | None:
    path = arguments.base_path
    if path is None or not Path(path).is_file():
        return None
    try:
        document = read_yaml(read_text(Path(path), follow=True))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        document = " ".join(str(error).split())
    if not isinstance(document, Mapping):
        hint = "give the config.yaml of a stored run"
        raise UserError([Problem(f"--from {path}", f"holds no configuration: {document}", hint)])
    return {key: value for key, value in document.items() if key not in _LABELS}


def _run_one(planned: RunPlan, command: list[str], mirroring: bool) -> int:
    config, out = planned.config, console()
    found = planned.reusable()
    if found is None and mirroring:  # a sweep has printed them already
        print_warnings([planned])
    if config.dry:
        jobs = f"{len(planned.trace.jobs):,} jobs on {planned.setup.cluster.num_slots} slots"
        when = "stored already" if found else f"about {seconds(estimate_wall_s(planned))}"
        out.print(f"1 point: {planned.run_id}: {jobs}, {when}. dry=true: nothing was started.")
        return 0
    with _claimed(planned, is_point=not mirroring) as found:
        stored = found or _run(planned, command)
    code = 0
    if found is None:
        out.print(f"Run {planned.run_id} finished.")
        code = _mirror(stored, config) if mirroring else 0
    else:
        out.print(f"Run {planned.run_id} is stored already; force=true runs it again.")
    _show_run(stored)
    return code


def _claimed(planned: RunPlan, is_point: bool) -> AbstractContextManager[StoredRun | None]:
    """Claim a run, or wait until another command has stored it.

    A sweep has claimed its points, and their processes have the claims.
    """
    if is_point:
        return nullcontext(planned.reusable())
    claims = Claims(Path(planned.config.results_dir), _say)
    return claims.claimed(planned.run_id, planned.reusable, alone=planned.engine.exclusive)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _run(planned: RunPlan, command: list[str]) -> StoredRun:
    """Run a plan with its progress on the terminal, and return the stored run."""
    is_shown = planned.config.progress
    with RunProgress(len(planned.trace.jobs), is_shown) as progress:
        shown = (progress.show, progress.say) if is_shown else ()
        return load_run(execute(planned, command, *shown))


def _mirror(stored: StoredRun, config: RunConfig) -> int:
    """Copy a run to MLflow and return the exit code: 130 after Ctrl-C; the run stays stored."""
    try:
        mirror_run(stored, config.tracking)
    except KeyboardInterrupt:
        fill = spelt("harness.tracking", "fill")
        print(f"Stopped; the run is stored, MLflow was not filled: {fill}", file=sys.stderr)
        return 130
    return 0


def _show_run(stored: StoredRun) -> None:
    """Print what a run says of itself; its answer comes last."""
    out = console()
    for text in lines([stored]):
        out.print(f"warning: {text}", markup=False)
    alike = similarity_lines(stored.facts)
    if alike:
        out.print("Similarity to the recorded trace (1:1 would be equal numbers):")
        out.print("\n".join(f"  {line}" for line in alike))
    line = executed_line([stored.facts])
    if line:
        out.print(line)
    for line in (*fixed_size_lines(stored.rows("fixed_size")), *recorded_lines([stored])):
        out.print(line, markup=False)
    out.print(f"Stored in {stored.path}")
    show_answer(out, [stored])


def _run_many(arguments: Arguments, argv: list[str]) -> int:
    understood = parse_overrides(arguments.words, sweeping=True)
    problems = [*arguments.problems, *understood.problems]
    if arguments.base_path is not None:
        problems.append(Problem("--from", "is for one run", "leave out -m and study="))
    if understood.sweeps and not arguments.sweeping:
        hint = "add -m, or give one value"
        problems += [Problem(key, "has several values", hint) for key in understood.sweeps]
    study: Study | None = None
    if arguments.study is not None:
        try:
            study = load_study(arguments.study)
        except UserError as error:
            problems += error.problems
    if not problems:
        words, of_study = arguments.words, study is not None
        problems += _label_problems(words, understood.sweeps, of_study=of_study)
    if problems:
        raise UserError(problems)
    library = Library()
    sweeps = [
        (planned, sweep.plan_sweep(planned, library))
        for planned in _sweeps(arguments, understood.sweeps, study)
    ]
    configs = [entry.planned.config for _, entries in sweeps for entry in entries]
    if study is not None and arguments.study != study.name and not is_file(arguments.study or ""):
        print(f"{arguments.study} is measured by study={study.name}", file=sys.stderr)
    if arguments.show_config:
        for entry in (entry for _, entries in sweeps for entry in entries):
            print(f"--- # {entry.planned.run_id}\n{config_yaml(entry.planned.config)}", end="")
        return 0
    out = console()
    code = 0
    for planned, entries in sweeps:
        if len(sweeps) > 1:
            out.print(f"\n{planned.label}", style="bold")
        if any(config.dry for config in configs):
            sweep.show_plan(planned, entries)
        else:
            code = max(code, sweep.run_sweep(planned, entries))
        if code > _SIGNALS:  # after a stop, no further study may begin
            return code
    if any(config.dry for config in configs):
        return 0
    if study is not None and study.figures:
        out.print(f"Report:  {spelt('reports', f'study={study.name}')}")
    if any(config.tracking.get("enabled", True) for config in configs):
        out.print(f"MLflow:  {spelt('harness.tracking', 'ui')}")
    for planned, entries in sweeps:
        label = planned.label if len(sweeps) > 1 else ""
        show_answer(out, [entry.stored for entry in entries if entry.stored], label)
    return code


def _label_problems(
    words: Sequence[str], swept: Mapping[str, Any], *, of_study: bool
) -> list[Problem]:
    """Return the mistakes in the label that a command gives its sweep."""
    if _LABEL in swept:
        return [Problem(_LABEL, "has several values", "give the sweep one label")]
    label = _label(words)
    if label is None:
        return []
    if of_study:
        hint = "leave sweep out; or run points of your own with -m"
        return [Problem(_LABEL, f"is {label!r}, but a study sets its own label", hint)]
    if not label.strip() or label.startswith(".") or "/" in label:
        hint = "use letters, digits, dash, dot: it names a folder"
        return [Problem(_LABEL, f"is {label!r}", hint)]
    return []


def _label(words: Sequence[str]) -> str | None:
    """Return the label that a command gives its sweep; None if it gives none."""
    given = [word for word in words if key_of(word) == _LABEL]
    value = value_of(given[-1]) if given else None
    return None if value is None else str(value)


def _sweeps(
    arguments: Arguments, swept: Mapping[str, list[str]], study: Study | None
) -> list[sweep.Sweep]:
    """Return the sweeps of a command: one, or one for each of the studies that a study names."""
    if study is None:
        return [_sweep(arguments.words, swept, None)]
    members = [load_study(name) for name in study.studies] or [study]
    is_quick = arguments.size == "quick" or bool(study.studies)
    return [
        _sweep(member.sized(arguments.words) if is_quick else arguments.words, swept, member)
        for member in members
    ]


def _sweep(
    words: Sequence[str], swept: Mapping[str, list[str]], study: Study | None
) -> sweep.Sweep:
    """Return the sweep of a command: each point of the study, combined with each combination of
    the values that the command lists."""
    common = [word for word in words if key_of(word) not in swept]
    crossed = product(swept, quoted=True)
    if study is None:
        unlabelled = [word for word in common if key_of(word) != _LABEL]
        label = _label(common) or "sweep-" + hash_json([unlabelled, swept])[:8]
        return sweep.Sweep(label, unlabelled, crossed)
    chosen = study.chosen(common)
    problems = size_problems(f"the study and {' '.join(swept)}", len(chosen) * len(crossed))
    if problems:
        raise UserError(problems)
    points = [
        Point((*point.overrides, *extra.overrides), {**point.axes, **extra.axes})
        for point in chosen
        for extra in crossed
    ]
    return sweep.Sweep(study.name, [*study.base, *common], points, study.parallel)
