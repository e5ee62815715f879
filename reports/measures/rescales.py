"""Single changes of running jobs, taken from stored live runs, and A/A trials of the same runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.metrics.samples_lost import Window, undisturbed, window_of
from harness.results.records import ChangeRecord, StepRecord
from reports.measures.loss_parts import loss_parts
from reports.runs.selection import ReportRun

KINDS = ("rescale", "migrate")
BASELINE = "warm_restart"
"""Backend whose losses are the baseline for other backends."""
SHARE = 10
"""Figures draw the baseline's loss divided by this, to show where a system loses less."""
MAX_BYTES = 30_000_000
"""Size of the largest table of steps that is read, bytes."""
_SAME_STEPS = 0.5
"""Largest allowed difference, in steps, between the loss of a window and the recorded loss. Replay
and engine record slightly different times of a request, but the difference is smaller than this."""


@dataclass(frozen=True)
class RescaleCell:
    """Group of trials: the properties that these share."""

    setting: str
    workload: str
    kind: str
    before: int
    """Number of slots before the change; ``after`` is the number after it."""
    after: int
    system: str

    @property
    def change(self) -> str:
        """Text such as ``1→2``, or ``2→2 migrate`` for a migration."""
        arrow = f"{self.before}→{self.after}"
        return arrow if self.kind == "rescale" else f"{arrow} migrate"


@dataclass(frozen=True)
class RescaleTrial:
    """One completed change."""

    cell: RescaleCell
    run_id: str
    change: ChangeRecord
    global_batch: int
    window: Window | None
    """Time from the request to the fifth step after the switch. None if too few steps surround the
    change, or if they disagree with its recorded loss."""
    lost_in: Mapping[str, float] | None = None
    """Net steps lost in each of ``loss_parts.PARTS``; None if unknown."""

    @property
    def stopping_time_s(self) -> float | None:
        """Stopping time on the wall clock, seconds."""
        return self.change.stopping_time_s

    @property
    def lost_steps(self) -> float | None:
        """Samples lost, in steps of the job's batch."""
        lost = self.change.samples_lost
        return None if lost is None else lost / self.global_batch

    @property
    def net_steps(self) -> float | None:
        """Samples lost, in steps; after the switch the reference is the new size's own speed."""
        lost = None if self.window is None else self.window.lost_net
        return None if lost is None else lost / self.global_batch

    @property
    def steps_before_stop(self) -> float | None:
        """Time from the request until the job stops, in periods of the steps before the change."""
        if self.window is None or self.stopping_time_s is None:
            return None
        stopped_s = self.window.switch_s - self.stopping_time_s
        return (stopped_s - self.window.requested_s) / self.window.period_s


@dataclass(frozen=True)
class Noise:
    """One A/A trial: the formula of samples lost, over a time in which nothing was changed."""

    cell: RescaleCell
    """Cell of the change that gave the trial its length."""
    lost_steps: float
    net_steps: float | None
    length_s: float


@dataclass(frozen=True)
class Measured:
    """All changes of some runs, and the A/A trials of these runs."""

    trials: Sequence[RescaleTrial]
    noise: Sequence[Noise]
    runs: Sequence[ReportRun]
    """Runs that have any change."""

    def by_cell(self) -> dict[RescaleCell, list[RescaleTrial]]:
        """Return the trials of every cell, sorted by setting, workload, change and system."""
        return _grouped(self.trials)

    def noise_of(self, **fields: Any) -> list[Noise]:
        """Return the A/A trials whose cells have these values in their fields."""
        return [
            one
            for one in self.noise
            if all(getattr(one.cell, key) == value for key, value in fields.items())
        ]


def measure(runs: Iterable[ReportRun]) -> Measured:
    """Return every completed rescale and migration of the live runs among ``runs``."""
    trials: list[RescaleTrial] = []
    noise: list[Noise] = []
    used: list[ReportRun] = []
    names = system_names(runs)
    for run in runs:
        if not run.is_live or run.stored.table_bytes("changes") == 0:
            continue
        done = [c for c in run.changes if c.outcome == "done" and c.kind in KINDS]
        if not done:
            continue
        used.append(run)
        steps = _steps(run)
        for job in run.jobs:
            own = [change for change in done if change.job_id == job.job_id]
            windows = _windows(own, steps.get(job.job_id, []), run.dilation)
            cells = {c.change_id: _cell(run, names[run.run_id], job.workload, c) for c in own}
            for change in own:
                window, lost_in = windows.get(change.change_id), None
                if window is not None:
                    parts = loss_parts(change, window, steps[job.job_id])
                    lost_in = parts and {k: lost / job.global_batch for k, lost in parts.items()}
                cell = cells[change.change_id]
                trials.append(
                    RescaleTrial(cell, run.run_id, change, job.global_batch, window, lost_in)
                )
            known = [change for change in own if change.change_id in windows]
            for change in known:
                found = undisturbed(
                    steps[job.job_id],
                    list(windows.values()),
                    f"{run.run_id} {job.job_id}",
                    known.index(change),
                )
                if found is not None:
                    batch, net = found.global_batch, found.lost_net
                    noise.append(
                        Noise(
                            cells[change.change_id],
                            found.lost / batch,
                            None if net is None else net / batch,
                            found.length_s,
                        )
                    )
    return Measured(trials, noise, used)


def net_losses(trials: Iterable[RescaleTrial]) -> list[float]:
    """Return ``net_steps`` of the trials for which it is known."""
    return [trial.net_steps for trial in trials if trial.net_steps is not None]


def by_change(
    cells: Mapping[RescaleCell, list[RescaleTrial]],
) -> list[dict[RescaleCell, list[RescaleTrial]]]:
    """Return the cells grouped by kind and size of their change, in sorted order."""
    found: dict[tuple[str, int, int], dict[RescaleCell, list[RescaleTrial]]] = {}
    for cell, trials in cells.items():
        found.setdefault((cell.kind, cell.before, cell.after), {})[cell] = trials
    return [found[change] for change in sorted(found)]


def system_names(runs: Iterable[ReportRun]) -> dict[str, str]:
    """Return a short name for the backend of every run, by run id.

    The name has the options that distinguish runs of this backend. It leaves out the scheduler,
    which is only the script that asks for the changes.
    """
    options: dict[str, list[Mapping[str, str]]] = {}
    all_runs = list(runs)
    for run in all_runs:
        options.setdefault(run.backend, []).append(_options(run))
    names = {}
    for run in all_runs:
        own, alike = _options(run), options[run.backend]
        differ = [key for key in own if len({other.get(key) for other in alike}) > 1]
        keys = _needed(_ranked(differ), alike)
        told = [own[key] if key in _SPEAK else f"{key}={own[key]}" for key in keys]
        names[run.run_id] = " ".join([run.backend.replace("_", "-"), *told])
    return names


_SPEAK = ("transfer", "start", "recovery")
"""Options that are shown by their value alone, in the order in which they are shown."""


def _needed(keys: Sequence[str], alike: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the keys without any whose value follows from the values of the others.

    An example is a checkpoint's interval that only one way of recovery needs.
    """

    def num_kinds(some: Iterable[str]) -> int:
        names = list(some)
        return len({tuple(options.get(name) for name in names) for options in alike})

    needed = list(keys)
    for key in reversed(keys):
        if key not in _SPEAK and num_kinds(k for k in needed if k != key) == num_kinds(needed):
            needed.remove(key)
    return needed


def _ranked(keys: Iterable[str]) -> list[str]:
    return sorted(keys, key=lambda key: (_SPEAK.index(key) if key in _SPEAK else len(_SPEAK), key))


def _options(run: ReportRun) -> dict[str, str]:
    backend = run.stored.config.get("backend", {})
    return {str(key): str(value) for key, value in backend.items() if key != "_target_"}


def _cell(run: ReportRun, system: str, workload: str, change: ChangeRecord) -> RescaleCell:
    before, after = len(change.from_slots), len(change.to_slots)
    return RescaleCell(run.setting, workload, change.kind, before, after, system)


def _steps(run: ReportRun) -> dict[str, list[StepRecord]]:
    if "steps" in run.stored.left_out or run.stored.table_bytes("steps") > MAX_BYTES:
        return {}
    found: dict[str, list[StepRecord]] = {}
    for step in run.stored.rows("steps"):
        found.setdefault(step.job_id, []).append(step)
    return found


def _windows(
    changes: Sequence[ChangeRecord], steps: Sequence[StepRecord], dilation: float
) -> dict[int, Window]:
    """Return the window of every change whose loss is about the recorded one.

    Steps are on the wall clock, requests on the engine's clock, which is ahead after credited
    steps. The window of a later change would then be at the wrong place, so such windows are left
    out.
    """
    found = {}
    for change in changes:
        if change.samples_lost is None:
            continue
        window = window_of(steps, change.requested_s * dilation)
        if window is None:
            continue
        if abs(window.lost - change.samples_lost) <= _SAME_STEPS * window.global_batch:
            found[change.change_id] = window
    return found


def _grouped(trials: Iterable[RescaleTrial]) -> dict[RescaleCell, list[RescaleTrial]]:
    found: dict[RescaleCell, list[RescaleTrial]] = {}
    for trial in trials:
        found.setdefault(trial.cell, []).append(trial)
    order = sorted(
        found, key=lambda c: (c.setting, c.workload, c.kind, c.before, c.after, c.system)
    )
    return {cell: found[cell] for cell in order}
