"""``python -m harness.trace``: check, show or generate a trace before a run uses it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from harness.command_names import spelt
from harness.errors import UserError
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.machine.terminal import console
from harness.trace.commands.catalog import Opened, names, open_cluster, open_profile, open_trace
from harness.trace.commands.generate import add_arguments, epilog, generate, seed
from harness.trace.commands.lint import lint, report
from harness.trace.commands.show import show
from harness.trace.parsing.assemble import from_trace
from harness.trace.transforms import TransformContext

_EXIT = """
Exit codes: 0 fine (notes are fine); 1 lint found rows that cannot be loaded; 2 the trace,
the configuration or an option is wrong"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _understood(sys.argv[1:] if argv is None else argv)
    try:
        return int(options.command(options))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def _understood(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command and its options; exit with 2 at an unknown option.

    argparse ends a list of positionals at the first option. The rest of the KEY=VALUE words is
    therefore collected from the arguments that argparse did not recognise.
    """
    parser = _parser()
    options, left = parser.parse_known_args(words)
    if options.command is generate:
        options.options += [word for word in left if not word.startswith("-")]
        left = [word for word in left if word.startswith("-")]
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}; see {words[0]} --help")
    return options


def _parser() -> argparse.ArgumentParser:
    known = f"Shipped traces: {', '.join(names('trace')) or 'none'}"
    parser = CommandParser(
        prog=spelt("harness.trace"),
        description="Check a trace (lint), look at it (show), or draw one (generate).",
        epilog=f"{known}\n{_EXIT}",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command, text in (
        (
            "lint",
            _lint,
            "list rows that are wrong or doubtful, or whose jobs do not fit on a cluster",
        ),
        ("show", _show, "print counts, load, percentiles and bars"),
    ):
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"{known}\n{_EXIT}",
        )
        sub.add_argument(
            "trace",
            metavar="FILE_OR_NAME",
            help="a shipped trace's name, a YAML that describes a trace, or a CSV file (.gz is"
            " fine) in the format of a shipped one",
        )
        sub.add_argument(
            "--cluster",
            metavar="NAME",
            help="cluster, for load and jobs that do not fit; a YAML file, or one of "
            f"{_listed('cluster')}",
        )
        sub.add_argument(
            "--profile",
            metavar="NAME",
            help="throughputs, for traces whose work is recomputed and to find impossible "
            "deadlines; a YAML file, or one of " + _listed("profile"),
        )
        sub.add_argument(
            "--seed",
            type=seed,
            default=0,
            help="seed of the transforms that draw numbers (default: 0)",
        )
        sub.add_argument(
            "--raw", action="store_true", help="check the file alone, without transforms"
        )
        sub.set_defaults(command=command)
    drawing = commands.add_parser(
        "generate",
        help="draw a trace from a paper's description of its workload, and write it",
        description="Draw a trace and write FOLDER/NAME.csv and FOLDER/NAME.yaml.",
        epilog=epilog(),
    )
    add_arguments(drawing)
    drawing.set_defaults(command=generate)
    return parser


def _listed(group: str) -> str:
    return ", ".join(names(group)) or "none"


def _context(options: argparse.Namespace) -> TransformContext:
    return TransformContext(
        seed=options.seed,
        profile=open_profile(options.profile) if options.profile else None,
        cluster=open_cluster(options.cluster) if options.cluster else None,
    )


def _opened(options: argparse.Namespace) -> Opened:
    opened = open_trace(options.trace)
    return replace(opened, transforms=()) if options.raw else opened


def _lint(options: argparse.Namespace) -> int:
    context = _context(options)
    opened = _opened(options)
    rows = opened.reader.parse()
    transformed = bool(opened.transforms)
    judged = (None, None) if transformed else (context.cluster, context.profile)
    findings = lint(rows, *judged)
    print(f"{rows.path}: {len(rows):,} jobs")
    print(report(rows, findings))
    if any(finding.refused for finding in findings):
        return 1
    if transformed:
        changed = from_trace(opened.load(context))
        print(f"\nafter {len(opened.transforms)} transforms: {len(changed):,} jobs")
        print(report(changed, lint(changed, context.cluster, context.profile)))
    return 0


def _show(options: argparse.Namespace) -> int:
    context = _context(options)
    show(_opened(options).load(context), console(), context.cluster)
    return 0


if __name__ == "__main__":
    run_command(main)
