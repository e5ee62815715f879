"""Single changes of running jobs, taken out of stored live runs, with A/A trials beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records import ChangeRecord, StepRecord
from harness.samples_lost import Window, undisturbed, window_of
from reports.loss_parts import loss_parts
from reports.selection import ReportRun

KINDS = ("rescale", "migrate")
BASELINE = "warm_restart"
"""The backend that losses are shown beside."""
SHARE = 10
"""Where a system loses the baseline's over this is looked for."""
MAX_BYTES = 30_000_000
"""Largest table of steps that is read."""
_SAME_STEPS = 0.5
"""Records tell a request's time as the replay and as the engine saw it, which differ by less."""


@dataclass(frozen=True)
class Cell:
    """What trials have in common."""

    setting: str
    workload: str
    kind: str
    before: int
    """Slots."""
    after: int
    system: str

    @property
    def change(self) -> str:
        """Such as ``1→2``; a migration keeps its size."""
        arrow = f"{self.before}→{self.after}"
        return arrow if self.kind == "rescale" else f"{arrow} migrate"


@dataclass(frozen=True)
class Trial:
    """One change that was done."""

    cell: Cell
    run_id: str
    change: ChangeRecord
    global_batch: int
    window: Window | None
    """From its request to the fifth step after the switch; None where too few steps stand
    around the change."""
    lost_in: Mapping[str, float] | None = None
    """Net steps lost in each of ``loss_parts.PARTS``; None where that is not known."""

    @property
    def stopping_time_s(self) -> float | None:
        """Wall clock."""
        return self.change.stopping_time_s

    @property
    def lost_steps(self) -> float | None:
        """Samples lost, in steps of the job's batch."""
        lost = self.change.samples_lost
        return None if lost is None else lost / self.global_batch

    @property
    def net_steps(self) -> float | None:
        """The same, with the steps after the switch held to the new size's speed."""
        lost = None if self.window is None else self.window.lost_net
        return None if lost is None else lost / self.global_batch

    @property
    def steps_before_stop(self) -> float | None:
        """From the request until the job stops, in periods of its steps before."""
        if self.window is None or self.stopping_time_s is None:
            return None
        stopped_s = self.window.switch_s - self.stopping_time_s
        return (stopped_s - self.window.requested_s) / self.window.period_s


@dataclass(frozen=True)
class Noise:
    """One A/A trial: the same formula where nothing was changed."""

    cell: Cell
    """Of the change that gave it its length."""
    lost_steps: float
    net_steps: float | None
    length_s: float


@dataclass(frozen=True)
class Measured:
    """All changes of some runs."""

    trials: Sequence[Trial]
    noise: Sequence[Noise]
    runs: Sequence[ReportRun]
    """Those that have any."""

    def by_cell(self) -> dict[Cell, list[Trial]]:
        """Trials of every cell, sorted by what a reader looks for first."""
        return _grouped(self.trials)

    def noise_of(self, **fields: Any) -> list[Noise]:
        """The A/A trials whose cells have these fields."""
        return [
            one
            for one in self.noise
            if all(getattr(one.cell, key) == value for key, value in fields.items())
        ]


def measure(runs: Iterable[ReportRun]) -> Measured:
    """Every rescale and migration that was done in the live ones of these runs."""
    trials: list[Trial] = []
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
                trials.append(Trial(cell, run.run_id, change, job.global_batch, window, lost_in))
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


def net_losses(trials: Iterable[Trial]) -> list[float]:
    """``net_steps`` of those of which it is known."""
    return [trial.net_steps for trial in trials if trial.net_steps is not None]


def by_change(cells: Mapping[Cell, list[Trial]]) -> list[dict[Cell, list[Trial]]]:
    """The cells of every change of size by themselves, in sorted order."""
    found: dict[tuple[str, int, int], dict[Cell, list[Trial]]] = {}
    for cell, trials in cells.items():
        found.setdefault((cell.kind, cell.before, cell.after), {})[cell] = trials
    return [found[change] for change in sorted(found)]


def system_names(runs: Iterable[ReportRun]) -> dict[str, str]:
    """A short name for the backend of every run, by run id, with the options that tell runs of
    this backend apart; the scheduler is only the script that asks for the changes."""
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
"""Options whose values need no name beside them, in the order in which they are told."""


def _needed(keys: Sequence[str], alike: Sequence[Mapping[str, str]]) -> list[str]:
    """Those without the ones that follow from the others, such as a checkpoint's interval that
    only one way of recovery needs."""

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


def _cell(run: ReportRun, system: str, workload: str, change: ChangeRecord) -> Cell:
    before, after = len(change.from_slots), len(change.to_slots)
    return Cell(run.setting, workload, change.kind, before, after, system)


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
    """The window of every change whose loss is about the recorded one.

    Steps are on the wall clock and requests on the engine's, which runs ahead once steps have
    been credited: such a change would be looked for at the wrong place, and is left out.
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


def _grouped(trials: Iterable[Trial]) -> dict[Cell, list[Trial]]:
    found: dict[Cell, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.cell, []).append(trial)
    order = sorted(
        found, key=lambda c: (c.setting, c.workload, c.kind, c.before, c.after, c.system)
    )
    return {cell: found[cell] for cell in order}
