"""Command ``python -m harness.validate DIR...``: check that results are complete and consistent.

For every run at or below the directories, the version, the manifest and the tables are checked:
each table must be readable and have its original digest. The records must not contradict one
another, and ``metrics.json`` must follow from them. All problems are printed at once, and also the
tables that a copied run lacks; checks that need them are left out. A failed run next to them is a
problem until it is run again. Runs on earlier contents of an edited trace or profile are reported.

With ``--division closed`` all runs together must also be a complete result of a shipped study,
where scheduler or backend may be the user's own. See ``sweep/divisions.py`` and
docs/how-to/submitting.md.
Exit code 0: no problem; 2: problems, or no run found.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from harness.command_names import spelt
from harness.comparison.inputs import outdated
from harness.contracts.job_state import JobState
from harness.errors import UserError
from harness.files.bounded_file import opened_plain
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.metrics import compute as metrics
from harness.results.records import GrantRecord, JobRecord, OutageRecord, RunRecords
from harness.results.store import (
    RESULT_DIRS,
    StoredRun,
    StoreError,
    failed_runs,
    iter_runs,
    load_run,
    run_paths,
    sha256,
)
from harness.results.tables import TableError

_SLACK_S = 1e-6
"""Rounding allowed where two times must not overlap."""
_FROM_GRANTS = ("cluster_efficiency_mean", "slot_utilization_mean")
"""Metrics that are wrong without the table of grants; other metrics that lack a table are
absent."""
_OF_MACHINE = (
    "the pre-importing process has died",
    *(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)),
)
"""Texts in the reasons of jobs that ended because the machine failed. Earlier versions stored such
runs as finished; now they fail."""
_MANIFEST_KEYS = ("run_id", "schema_version", "status", "config_hash", "command")


def check_run(path: Path) -> list[str]:
    """Return everything wrong with the run in a directory; empty if it is sound."""
    problems: list[str] = []
    try:
        run = load_run(path)
        problems += [f"{path}: {text}" for text in (*_check_manifest(run), *_check_digests(run))]
        found = (*check_records(run.records, run.left_out), *_check_metrics(run))
    except (StoreError, TableError) as error:
        return [*problems, str(error)]
    return problems + [f"{path}: {text}" for text in found]


def check_records(records: RunRecords, left_out: Collection[str] = ()) -> Iterator[str]:
    """Yield contradictions within the records of a run; ``left_out`` names tables not kept."""
    known: dict[str, JobRecord] = {}
    for job in records.jobs:
        if job.job_id in known:
            yield f"jobs: {job.job_id} is listed twice"
        known[job.job_id] = job
        yield from _check_job(job)
    of_jobs = ("grants", "changes", "steps", "evaluations", "fixed_size", "fixed_losses")
    for table in of_jobs if "jobs" not in left_out else ():
        names = {row.job_id for row in getattr(records, table)}
        for name in sorted(names - set(known)):
            yield f"{table}: job {name} is not in jobs"
    for change in records.changes:
        if change.ended_s is not None and change.ended_s < change.requested_s:
            yield f"changes: {change.change_id} ended before it was requested"
    num_slots = records.facts.get("num_slots")
    yield from _check_grants(records.grants, num_slots)
    yield from _check_outages(records.outages, records.grants, num_slots)


def _check_job(job: JobRecord) -> Iterator[str]:
    if job.state not in set(JobState):
        yield f"jobs: {job.job_id} has the unknown state {job.state!r}"
    times = [job.arrival_s, job.first_start_s, job.finish_s]
    ordered = [time for time in times if time is not None]
    if ordered != sorted(ordered):
        yield f"jobs: {job.job_id} arrives, starts and finishes at {times}, out of order"
    if job.state == JobState.FAILED and any(text in job.reason for text in _OF_MACHINE):
        yield (
            f"jobs: {job.job_id} failed because of the machine, which is no result ({job.reason}); "
            "run the point again with force=true"
        )
    if job.state == JobState.FINISHED and job.finish_s is None:
        yield f"jobs: {job.job_id} is finished but has no finish time"


def _check_grants(grants: Sequence[GrantRecord], num_slots: float | None) -> Iterator[str]:
    """Yield slots that two jobs hold at once, or that lie outside the cluster."""
    busy_until: dict[int, tuple[float, str]] = {}
    for grant in sorted(grants, key=lambda row: (row.start_s, row.end_s, row.job_id)):
        if grant.end_s < grant.start_s:
            yield f"grants: {grant.job_id} holds slots from {grant.start_s} to {grant.end_s} s"
        for slot in grant.slots:
            if num_slots is not None and not 0 <= slot < num_slots:
                yield f"grants: {grant.job_id} holds slot {slot} of {num_slots:.0f}"
            until_s, holder = busy_until.get(slot, (-math.inf, ""))
            if grant.start_s < until_s - _SLACK_S:
                yield (
                    f"grants: slot {slot} is held by {holder} until {until_s} s"
                    f" and by {grant.job_id} from {grant.start_s} s"
                )
            busy_until[slot] = (max(grant.end_s, until_s), grant.job_id)


def _check_outages(
    outages: Sequence[OutageRecord], grants: Sequence[GrantRecord], num_slots: float | None
) -> Iterator[str]:
    """Yield slots that go down while they are down, or that a job holds meanwhile."""
    of_slot: dict[int, list[OutageRecord]] = {}
    for outage in sorted(outages, key=lambda row: (row.start_s, row.end_s, row.slot)):
        slot = outage.slot
        if num_slots is not None and not 0 <= slot < num_slots:
            yield f"outages: slot {slot} of {num_slots:.0f} is down"
        if outage.end_s < outage.start_s:
            yield f"outages: slot {slot} is down from {outage.start_s} to {outage.end_s} s"
        earlier = of_slot.setdefault(slot, [])
        if earlier and outage.start_s < earlier[-1].end_s:
            yield (
                f"outages: slot {slot} goes down at {outage.start_s} s,"
                f" but is down until {earlier[-1].end_s} s"
            )
        earlier.append(outage)
    for grant in grants:
        for slot in grant.slots if of_slot else ():
            down = of_slot.get(slot, [])
            first = bisect_right(down, grant.start_s + _SLACK_S, key=attrgetter("end_s"))
            for outage in down[first : first + 1]:
                if outage.start_s < grant.end_s - _SLACK_S:
                    yield (
                        f"outages: {grant.job_id} holds slot {slot}, which is down"
                        f" from {outage.start_s} to {outage.end_s} s"
                    )


def _check_manifest(run: StoredRun) -> Iterator[str]:
    for key in _MANIFEST_KEYS:
        if key not in run.manifest:
            yield f"manifest.json lacks {key}"
    if run.run_id != run.path.name:
        yield f"manifest.json has the run id {run.run_id}, but its directory is {run.path.name}"


def _check_digests(run: StoredRun) -> Iterator[str]:
    for name, digest in sorted(run.digests.items()):
        path = run.path / f"{name}.csv.gz"
        if name in run.left_out:
            if path.exists():
                yield f"manifest.json says that {path.name} was left out, but it is there"
            continue
        if not path.exists():
            yield f"{path.name} is missing; run the point again"
            continue
        try:
            with opened_plain(path) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            continue  # reading the table reports it
        if found != digest:
            yield f"{path.name} was changed after it was written; run the point again"
    for name, digest in run.manifest.get("sha256", {}).items():
        try:
            found = sha256(run.path / name)
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror or error}); run the point again"
            continue
        if found != digest:
            yield f"{name} was changed after it was written; run the point again"


def _check_metrics(run: StoredRun) -> Iterator[str]:
    stored = run.metrics
    try:
        computed = metrics.compute(run.records)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Damaged records may have numbers on which any formula fails, such as times beyond floats.
        yield f"the records give no metrics ({error}); run the point again"
        return
    version = run.manifest.get("metrics_version", 0)
    for name in sorted({*stored, *computed}):
        ours, theirs = computed.get(name), stored.get(name)
        if (run.left_out and ours is None) or ("grants" in run.left_out and name in _FROM_GRANTS):
            continue
        if theirs is None and metrics.SINCE.get(name, 0) > version:
            continue
        if ours is None or theirs is None:
            which = "metrics.json lacks" if theirs is None else "the records do not give"
            yield f"{which} {name}"
        elif not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12):
            yield f"metrics.json says {name} = {theirs}, the records give {ours}"


def _failed(directory: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Yield failed runs next to those that are stored, or in the directory itself."""
    for folder in sorted({directory, *(path.parent for path in paths)}):
        try:
            for run_id, reason in failed_runs(folder):
                yield f"{folder}: run {run_id} failed: {reason}; run the point again"
        except StoreError as error:
            yield str(error)


def _slim(run: StoredRun) -> list[str]:
    sizes = sorted(run.left_out.items())
    listed = ", ".join(f"{name} ({size / 1000:,.0f} kB)" for name, size in sizes)
    text = f"{run.path}: copied without {listed}; checks that need them were left out"
    return [text] if listed else []


def _edited(runs: Sequence[StoredRun]) -> list[str]:
    """Return a line for each input that was edited between runs of the same study."""
    counts = Counter(each.what for each in outdated(runs))
    return [
        f"note: {count} run{'s' * (count != 1)} on another content of {what}, edited since; they "
        "count as another setting than runs on the current content"
        for what, count in sorted(counts.items())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check directories of results; return the exit code."""
    parser = CommandParser(
        prog=spelt("harness.validate"),
        description="Check that stored runs are complete and that their numbers are consistent.",
    )
    parser.add_argument("dir", nargs="*", type=Path, help="folders of results (default: results/)")
    parser.add_argument(
        "--division",
        choices=("closed", "open"),
        help="check that the runs together can be in this division",
    )
    parser.add_argument(
        "--study", metavar="NAME",
        help="with --division closed: the shipped study (default: the study in the manifests)",
    )  # fmt: skip
    parser.add_argument(
        "--brief", action="store_true", help="only count the runs that were copied without tables"
    )
    chosen = parser.parse_args(arguments)
    directories: list[Path] = chosen.dir
    directories = directories or [path for path in RESULT_DIRS if path.is_dir()] or [*RESULT_DIRS]
    problems, slim, sound, count = [], [], [], 0
    for directory in directories:
        try:
            paths = list(run_paths(directory))
        except StoreError as error:
            problems.append(str(error))
            continue
        if not paths:
            problems.append(f"{directory}: no finished run is at or below it; name another folder")
        problems += _failed(directory, paths)
        for path in paths:
            count += 1
            found = check_run(path)
            problems += found
            if not found:
                sound.append(load_run(path))
                slim += _slim(sound[-1])
    for problem in problems:
        print(problem, file=sys.stderr)
    for note in slim if not chosen.brief else ():
        print(note)
    for note in _edited(sound):
        print(note)
    copied = f" {len(slim)} copied without some tables," if slim and chosen.brief else ""
    print(f"{count} run{'s' * (count != 1)} checked,{copied} {len(problems)} problems")
    refused = chosen.division is not None and count > 0
    if refused:
        refused = bool(problems) or not _fits_division(directories, chosen.division, chosen.study)
        print(f"{'refused' if refused else 'accepted'} for the {chosen.division} division")
    return 2 if problems or refused else 0


def _fits_division(directories: Sequence[Path], division: str, study: str | None) -> bool:
    """Return whether all runs together can be in a division, and print why not.

    A note counts the runs that were not made from a committed state of the code.
    """
    from harness.sweep import divisions

    runs = [run for directory in directories for run in iter_runs(directory)]
    try:
        reasons = divisions.check(runs, division, study)
    except UserError as error:
        reasons = error.problems
    for reason in reasons:
        print(reason, file=sys.stderr)
    changed = sum(run.manifest.get("git_dirty") is not False for run in runs)
    if changed:
        print(f"note: {changed} runs were not made from a committed state of the code")
    return not reasons


if __name__ == "__main__":
    run_command(main)
