"""Numbers of the README and of the answer pages, from the committed records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from harness.files.bounded_file import read_text
from reports.figures.pause_by_state import Pause, pauses
from reports.measures.fidelity import Comparison, compare, engine_pairs, job_errors, job_spread
from reports.measures.rescales import measure
from reports.measures.state_size import state_bytes
from reports.runs.selection import ReportRun, groups, options, select

FREE, WARM, RESUME = "stop_free", "warm_restart", "stop_resume"
_OUT, _IN = "1→2", "2→1"


@dataclass(frozen=True)
class Loss:
    """Training time that a rescale costs, seconds; medians of single changes, net."""

    out_s: float
    """Loss of a scale-out from one worker to two; ``in_s`` is that of the way back."""
    in_s: float

    @property
    def mean_s(self) -> float:
        """Mean of a scale-out and a scale-in: a job that grows also shrinks."""
        return (self.out_s + self.in_s) / 2


@dataclass(frozen=True)
class ByScheduler:
    """One metric of every scheduler, on the inputs of a study."""

    values: Mapping[str, Mapping[str, float]]
    """Values by input, by scheduler."""

    @property
    def inputs(self) -> Sequence[str]:
        """Return the inputs, which all schedulers have in common."""
        return sorted(set.intersection(*(set(own) for own in self.values.values())))

    def mean(self, scheduler: str) -> float:
        """Return the mean over the inputs."""
        return fmean(self.values[scheduler][each] for each in self.inputs)

    def ends(self, scheduler: str) -> tuple[float, float]:
        """Return the least and the greatest value over the inputs."""
        own = [self.values[scheduler][each] for each in self.inputs]
        return min(own), max(own)

    def ranked(self, *, least_first: bool) -> list[str]:
        """Return the schedulers by their means."""
        return sorted(self.values, key=self.mean, reverse=not least_first)

    def num_ahead(self, scheduler: str, other: str, *, less: bool) -> int:
        """Return on how many inputs a scheduler has less, or more, than another one."""
        pairs = [(self.values[scheduler][each], self.values[other][each]) for each in self.inputs]
        return sum(ours < theirs if less else ours > theirs for ours, theirs in pairs)


@dataclass(frozen=True)
class Error:
    """Errors of simulation for one scheduler."""

    scheduler: str
    jct: Comparison
    makespan: Comparison
    jobs: float | None
    """95th percentile over jobs of the error of their JCT, mean over live trials; None if the
    records of jobs cannot be compared."""
    other_trials: float | None
    """The same if the other live trials replace the simulation; None if there are none."""


class Measured:
    """Numbers of some studies' records; each study is read when it is first asked for."""

    def __init__(self, reference: Path) -> None:
        self._reference = reference
        self._runs: dict[str, list[ReportRun]] = {}

    def runs(self, study: str) -> list[ReportRun]:
        """Return the runs of a study.

        Raises:
            SelectionError: there is none.
        """
        if study not in self._runs:
            self._runs[study] = select([self._reference], study)
        return self._runs[study]

    @property
    def picture_runs(self) -> list[ReportRun]:
        """Return the runs of the project's picture."""
        return [*self.runs("edl_state_size"), *self.runs("edl_rescale")]

    @cached_property
    def pauses(self) -> list[Pause]:
        """Return the pauses of a scale-out, by backend and size of the state."""
        return pauses(self.picture_runs)

    def pause(self, label: str, state_mb: float) -> Pause:
        """Return the pause of one series for one size of the state."""
        (found,) = [one for one in self.pauses if (one.label, one.state_mb) == (label, state_mb)]
        return found

    @cached_property
    def losses(self) -> dict[tuple[str, float], Loss]:
        """Return what a rescale loses, by backend and megabytes of state, while training fills all
        cores."""
        return {
            (backend, size): loss
            for (backend, size, _), loss in self._losses(
                self.runs("edl_state_size"), lambda run: 0.0
            ).items()
        }

    @cached_property
    def padded_losses(self) -> dict[tuple[str, float, float], Loss]:
        """Return losses by backend, megabytes of state and seconds of a padded step."""
        runs = self.runs("edl_step_time")
        steps = {run.run_id: _step_s(run) for run in runs}
        return self._losses(runs, lambda run: steps[run.run_id])

    @staticmethod
    def _losses(
        runs: Sequence[ReportRun], step_s: Callable[[ReportRun], float]
    ) -> dict[tuple[str, float, float], Loss]:
        shown = [run for run in runs if _is_shown(run)]
        by_id = {run.run_id: run for run in shown}
        found: dict[tuple[str, float, float], dict[str, list[float]]] = {}
        for trial in measure(shown).trials:
            if trial.net_steps is None or trial.window is None:
                continue
            run = by_id[trial.run_id]
            key = run.backend, (state_bytes(run) or 0.0) / 1e6, step_s(run)
            lost = found.setdefault(key, {})
            lost.setdefault(trial.cell.change, []).append(trial.net_steps * trial.window.period_s)
        return {
            key: Loss(median(lost[_OUT]), median(lost[_IN])) for key, lost in sorted(found.items())
        }

    @cached_property
    def steps_s(self) -> dict[float, float]:
        """Return the median step of one worker, by megabytes of state, on cores that it fills."""
        found: dict[float, list[float]] = {}
        shown = {run.run_id: run for run in self.runs("edl_state_size") if _is_shown(run)}
        for trial in measure(list(shown.values())).trials:
            if trial.cell.change == _OUT and trial.window is not None:
                size = (state_bytes(shown[trial.run_id]) or 0.0) / 1e6
                found.setdefault(size, []).append(trial.window.period_s)
        return {size: median(periods) for size, periods in sorted(found.items())}

    def by_scheduler(self, study: str, metric: str) -> ByScheduler:
        """Return a metric of a study whose schedulers all replay the same inputs."""
        found: dict[str, dict[str, float]] = {}
        for run in self.runs(study):
            scheduler = options(run.stored)["scheduler"]
            found.setdefault(scheduler, {})[run.setting] = run.metrics[metric]
        return ByScheduler(found)

    def rescales_per_hour(self, study: str) -> dict[str, float]:
        """Return the rescales of a job in an hour between its first start and its end."""
        counts: dict[str, list[tuple[float, float]]] = {}
        for run in self.runs(study):
            metrics = run.metrics
            hours = metrics["jobs_finished"] / 3600
            hours *= metrics["jct_mean_s"] - metrics["queueing_mean_s"]
            scheduler = options(run.stored)["scheduler"]
            counts.setdefault(scheduler, []).append((metrics["rescales"], hours))
        return {
            scheduler: sum(rescales for rescales, _ in own) / sum(hours for _, hours in own)
            for scheduler, own in counts.items()
        }

    def errors(self, study: str, simulation: str) -> list[Error]:
        """Return the errors of a simulated engine, by scheduler in alphabetical order."""
        ((_, runs),) = [
            pair for pair in engine_pairs(self.runs(study)).items() if pair[0][0] == simulation
        ]
        by_system = {system: own for (system,), own in groups(runs, "system").items()}
        compared = {(one.system, one.metric): one for one in compare(runs)}
        return [
            Error(
                scheduler=options(own[0].stored)["scheduler"],
                jct=compared[system, "jct_mean_s"],
                makespan=compared[system, "makespan_s"],
                jobs=fmean(found) if (found := job_errors(own)) else None,
                other_trials=job_spread(own),
            )
            for system, own in sorted(by_system.items())
        ]

    @cached_property
    def step_ratios(self) -> list[Mapping[str, float]]:
        """Return ratio and interval of a stop-free step over a plain one, of every cell."""
        paths = sorted(self._reference.glob("*/bench_overhead/record_stop_free.json"))
        return [cell["median"]["ratio"] for path in paths for cell in _json(path)["cells"]]

    @cached_property
    def same_bits(self) -> Sequence[Mapping[str, Any]]:
        """Return the trainings by virtual workers that were compared with fixed-size ones."""
        return _lines(sorted(self._reference.glob("*/virtual_models/models.jsonl")))

    @cached_property
    def virtual_cost(self) -> dict[str, float]:
        """Return the step of four virtual workers on a slot over that of accumulation, by model.

        Of several records of a model the latest counts.
        """
        folders = ("virtual_phases_kept_heap", "virtual_phases_others")
        latest = (*folders, "virtual_phases_copied_states")
        paths = [path for name in latest for path in self._reference.glob(f"*/{name}/*.jsonl")]
        return {
            str(line["model"]): median(line["virtual_s"]) / median(line["plain_s"])
            for line in _lines(paths)
            if (line["logical_workers"], line["slots"]) == (4, 1)
        }

    @cached_property
    def gpu_parts(self) -> list[Mapping[str, Any]]:
        """Return the parts that passed of the checks on a GPU."""
        lines = _lines(sorted(self._reference.glob("*/gpu/parts.jsonl")))
        return [line for line in lines if line["outcome"] == "passed"]

    def gpu_pause_s(self, part: str, state_bytes_: int) -> float:
        """Return the median pause of a scale-out on the GPU, by part and size of the state."""
        (found,) = [each for each in self.gpu_parts if each["part"] == f"state/{part}"]
        changes = found["numbers"]["changes_by_state_bytes"][str(state_bytes_)]
        pauses_s = [each["stopping_time_s"] for each in changes if each["workers"] == [1, 2]]
        return float(median(pauses_s))


def _is_shown(run: ReportRun) -> bool:
    """Return whether a run is of the default transfer, so that each backend has one series."""
    return run.backend != FREE or run.stored.config["backend"]["transfer"] == "background"


def _step_s(run: ReportRun) -> float:
    """Return the padded step of one worker, in seconds, from the steps themselves."""
    alone = [step.duration_s for step in run.stored.rows("steps") if step.num_workers == 1]
    return float(round(median(alone), 2))


def _json(path: Path) -> Any:
    return json.loads(read_text(path))


def _lines(paths: Iterable[Path]) -> list[Mapping[str, Any]]:
    return [json.loads(line) for path in paths for line in read_text(path).splitlines()]
