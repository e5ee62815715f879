"""Tree of all errors of Elastrace, and the mistakes of users: place, fact and hint, all at once.

The text of each error is complete: commands print it without a traceback. The tree, with the module
of each class; ``tests/test_errors.py`` compares it with the classes::

    ElastraceError
    ├── MismatchError: harness.configuration.coerce
    ├── RunError: harness.errors
    │   ├── CourseError: harness.bench.torchft.courses
    │   ├── DecisionError: harness.replay.decision_check
    │   ├── EngineError: harness.engines.live.silent_jobs
    │   ├── FixedTrainingError: harness.engines.live.reference_run
    │   ├── LauncherError: systems.launchers.local
    │   ├── MachineError: harness.engines.live.machine_failures
    │   ├── ReplayError: harness.replay.endless
    │   ├── RequestError: systems.script.user_job
    │   ├── RuntimeSetupError: systems.runtime.driver.warm_pool
    │   ├── ScanError: systems.virtual.scan
    │   ├── TrialError: harness.bench.overhead.trials
    │   └── TrialError: systems.peers.torchft.__main__
    ├── StoredDataError: harness.errors
    │   ├── ArchiveError: harness.results.archive
    │   ├── CheckpointError: systems.runtime.worker.checkpoint
    │   ├── DataError: workloads.data.base
    │   ├── JobFilesError: harness.consistency.job_files
    │   ├── MeasureError: reports.claims.measures
    │   ├── SelectionError: reports.runs.selection
    │   ├── StoreError: harness.results.store
    │   ├── TableError: harness.results.tables
    │   └── VersionError: harness.configuration.benchmark_version
    ├── UserError: harness.errors
    │   ├── ProfileError: harness.profiles.errors
    │   ├── TraceError: harness.trace.model.trace
    │   └── TrackingError: harness.tracking.mirror
    │       └── LockedError: harness.tracking.mirror
    └── WorkerError: harness.errors
        ├── AssignmentError: systems.runtime.wire.virtual_plan
        ├── ControlError: systems.runtime.wire.protocol
        ├── GroupLost: systems.runtime.wire.groups
        │   └── QuorumChanged: systems.torchft.training_loop
        ├── GroupLostForGoodError: systems.torchft.membership
        ├── LayoutError: systems.runtime.reduction.bucket_layouts
        ├── LoaderError: systems.runtime.data.loader
        │   └── LoaderKilledError: systems.runtime.data.loader
        ├── RefusedModuleError: systems.runtime.reduction.refused_modules
        ├── ScriptError: systems.script.errors
        │   └── DifferentWorkersError: systems.script.errors
        ├── StateMismatch: systems.elastic.transfer.training_state
        ├── StoreLost: systems.elastic.election.keystore
        ├── TransferError: systems.elastic.transfer.channel
        │   ├── Cancelled: systems.elastic.transfer.channel
        │   └── PeerLost: systems.elastic.transfer.channel
        └── UnusedParameterError: systems.runtime.reduction.unused_parameters
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

_SCREEN_LINES = 24


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. ``str()`` gives ``place: fact; way out``."""

    place: str
    """Place of the mistake: a key of the configuration, a file and row, an argument."""
    fact: str
    """Description of the mistake."""
    hint: str = ""
    """Advice on how to correct it."""

    def __str__(self) -> str:
        return f"{self.place}: {self.fact}" + (f"; {self.hint}" if self.hint else "")


class ElastraceError(Exception):
    """Base of all errors of Elastrace."""


class UserError(ElastraceError):
    """Mistakes of the user, found before anything was started."""

    def __init__(self, problems: Iterable[Problem | str]) -> None:
        self.problems: list[Problem | str] = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[UserError], tuple[list[Problem | str]]]:
        # Exceptions are pickled by their text alone, and another process needs the problems.
        return type(self), (self.problems,)


class StoredDataError(ElastraceError):
    """Stored files that are damaged, unsafe, or do not belong together."""


class RunError(ElastraceError):
    """Reason why work that has begun cannot go on."""


class WorkerError(ElastraceError):
    """Failure in a worker, or between workers, their leader and their driver."""


def at(place: str, text: str) -> list[Problem | str]:
    """Return the lines of an error text, each as one problem at ``place``.

    Error texts of constructors (``ValueError``) have a fact and a way out in each line.
    """
    return [Problem(place, line.strip()) for line in text.splitlines() if line.strip()]


def known(names: Iterable[str]) -> str:
    """Return the text ``known: a, b, c``."""
    listed = sorted(names)
    return f"known: {', '.join(listed)}" if listed else "none is known here"


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the way out for an unknown name: the nearest known name, then all known names."""
    candidates = sorted(names)
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return hint + known(candidates)


def render(problems: Iterable[Problem | str]) -> str:
    """Return all problems as one screen of text; a long list is cut, and the last line says how
    many more there are."""
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    count = len(lines)
    head = (
        "1 problem; nothing was started:"
        if count == 1
        else (f"{count} problems; nothing was started:")
    )
    shown = lines[:_SCREEN_LINES]
    if count > _SCREEN_LINES:
        shown.append(f"... and {count - _SCREEN_LINES} more like these")
    return "\n".join([head, *(f"  {line}" for line in shown)])
