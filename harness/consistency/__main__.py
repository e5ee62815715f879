"""``python -m harness.consistency A B``: compare the training of two jobs bit by bit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.consistency.compare import Difference, compared, first_difference
from harness.consistency.job_files import JobFiles, JobFilesError, read_job
from harness.consistency.reduction import why
from harness.contracts.evidence import COMMON, Stage
from harness.machine.interrupts import run_command

EPILOG = """
A and B are directories of live runs (results/runs/NAME; --job chooses the job), directories of
jobs, or files written by python -m systems.peers.plain_ddp --bitwise.

Losses and digests show the first step in which two jobs differ. With evidence of the steps
engine.evidence_steps (engine.evidence=digests, tensors or operators), the command also names the
first tensor that differs, its first different element, and the part of the stack that this points
to: data order, random state, buffers, kernel, bucket layout, division, reduction order, update.

Exit code: 0 if they are equal, 1 if they differ, 2 if they cannot be compared.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.consistency",
        description="Compare two jobs bit by bit, and say where and why they differ.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("one", metavar="A", type=Path)
    parser.add_argument("other", metavar="B", type=Path)
    parser.add_argument("--job", help="id of the job, for runs with several jobs")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two jobs and return the exit code."""
    options = build_parser().parse_args(argv)
    try:
        return _compare(options)
    except JobFilesError as error:
        print(error, file=sys.stderr)
        return 2


def _compare(options: argparse.Namespace) -> int:
    one = read_job(options.one, options.job)
    other = read_job(options.other, options.job)
    if not (set(one.losses) & set(other.losses)):
        print(_nothing_shared(options.one, options.other, one, other), file=sys.stderr)
        return 2
    found = first_difference(one, other)
    if found is None:
        print(_equal(one, other))
        return 0
    if found.stage is Stage.REDUCED:
        part, notes = why(one, other, found.step)
        found = replace(found, part=part, notes=[*found.notes, *notes])
    print("\n".join(describe(found)))
    return 1


def _equal(one: JobFiles, other: JobFiles) -> str:
    names = sorted(set(one.end) & set(other.end))
    at_end = f" and {', '.join(names)} at the end" if names else ""
    evidence = set(one.evidence_steps) & set(other.evidence_steps)
    more = f"; evidence of {len(evidence)} steps agrees" if evidence else ""
    return f"equal: {compared(one, other).words}{at_end}{more}"


def _nothing_shared(path: Path, other_path: Path, one: JobFiles, other: JobFiles) -> str:
    spans = [
        f"{at}: {f'steps {min(jobs.losses)} to {max(jobs.losses)}' if jobs.losses else 'no steps'}"
        for at, jobs in ((path, one), (other_path, other))
    ]
    return (
        f"{'; '.join(spans)}: no step is in both, so nothing can be compared; give two jobs that"
        " executed the same steps"
    )


def describe(found: Difference) -> list[str]:
    """Return a difference as lines of text for a user."""
    who = "" if found.worker == COMMON else f" of worker {found.worker}"
    where = f"{found.name}{who}" if found.stage is None else f"{found.stage} {found.name}{who}"
    lines = [f"different from step {found.step} on: {where}"]
    if found.element is not None and found.values is not None:
        index = ", ".join(map(str, found.element))
        mine, theirs = found.values
        lines.append(
            f"  first element [{index}]: {mine!r} in A, {theirs!r} in B; {found.num_elements}"
            f" elements differ, by {found.largest:.3g} at most"
        )
    lines.append(f"  points to: {found.part}")
    lines += [f"  {note}" for note in found.notes]
    if found.stage is None:
        lines.append(
            "  run both jobs again with engine.evidence=tensors and "
            f"engine.evidence_steps=[{max(1, found.step - 1)},{found.step}] to see why"
        )
    elif found.element is None:
        lines.append("  engine.evidence=tensors would show the elements")
    return lines


if __name__ == "__main__":
    run_command(main)
