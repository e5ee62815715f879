"""One trial: a live replay is struck, and the same command resumes it if it failed.

A trial is right if every command ends within its bound and leaves no process. Also, either the
first command finishes the run, or it says why the run failed and the second command finishes it. In
a finished run all jobs are finished, and no sample is missed or repeated. For backends that promise
them, the bits are those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.results.store import StoreError, iter_runs
from harness.strikes.plan import BACKENDS, CHECKS_BITS, Strike, TrialPlan
from harness.strikes.running import Outcome, Running

WITHIN_S: Final = 240.0
"""Longest time of a command: twice the longest time-out of a worker (``stop_timeout_s``)."""
START_TIMEOUT_S: Final = 40.0
"""Longest time of a job's start, seconds. Only this time-out finds a process that stops before its
first heartbeat. The default, 300 s, allows for slow disks and is longer than a trial."""
_RUNS: Final = "runs"
TRACE: Final = """\
name: struck
source: made for trials in which processes are struck from outside
licence: Apache-2.0
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: struck.csv
  columns: {arrival: arrival, slots: slots, max_slots: max_slots, work: work}
  constants: {workload: toy, batch: 24}
transforms: []
"""
_JOBS: Final = """\
arrival,slots,max_slots,work
0,1,3,144000
1,2,4,180000
4,1,2,108000
6,1,4,144000
"""
WORDS: Final = (
    "workload=toy",
    "cluster=cpu4",
    "profile=recorded",
    "engine=live",
    "engine.fast_forward=false",
    "tracking=none",
    f"backend.start_timeout_s={START_TIMEOUT_S:g}",
)


@dataclass(slots=True)
class StrikeTrial:
    """Record of one trial."""

    plan: TrialPlan
    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes of the commands, in order."""
    problems: list[str] = field(default_factory=list)
    """Violations of the guarantees of a right trial."""

    def record(self) -> dict[str, Any]:
        """Return the trial as JSON values."""
        return {
            "number": self.plan.number,
            "backend": self.plan.backend,
            "is_right": not self.problems,
            "commands": [asdict(outcome) for outcome in self.outcomes],
            "problems": self.problems,
        }


def run_trial(plan: TrialPlan, folder: Path, logs: Path) -> StrikeTrial:
    """Run a trial, strike it, and judge the result.

    Args:
        plan: plan of the trial.
        folder: empty folder for the run's results. Its disk is filled if the plan says so.
        logs: folder on another disk; takes the commands' output.
    """
    trial = StrikeTrial(plan)
    words = _prepare(folder, plan.backend)
    code = _command(trial, words, folder, logs, plan.strikes)
    if plan.strikes and not trial.outcomes[0].struck:
        trial.problems.append("nothing was struck")
    if code == 0 or code is None:
        if code == 0:
            trial.problems += judge(folder, plan.backend)
        return trial
    if not trial.outcomes[-1].said and code > 0:
        trial.problems.append(f"the command ended with {code} and said nothing")
    again = _command(trial, words, folder, logs, ())
    if again == 0:
        trial.problems += judge(folder, plan.backend)
    elif again is not None:
        trial.problems.append(f"the second command ended with {again}: {trial.outcomes[-1].said}")
    return trial


def judge(folder: Path, backend: str) -> list[str]:
    """Return the mistakes of a backend's finished run; more or fewer than one run is a mistake
    too."""
    try:
        runs = list(iter_runs(folder / _RUNS))
    except StoreError as error:
        return [str(error)]
    if len(runs) != 1:
        return [f"{len(runs)} finished runs after the command ended with 0"]
    metrics = runs[0].metrics
    wanted = {"jobs_submitted": 4, "jobs_finished": 4, "samples_missed": 0, "samples_repeated": 0}
    if CHECKS_BITS in BACKENDS[backend]:  # a run without the bitwise comparison is wrong as well
        wanted["bitwise_equal"] = 1
    return [
        f"{name} is {metrics.get(name)}, not {value}"
        for name, value in wanted.items()
        if metrics.get(name) != value
    ]


def _prepare(folder: Path, backend: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "struck.yaml").write_text(TRACE, encoding="utf-8")
    (folder / "struck.csv").write_text(_JOBS, encoding="utf-8")
    return [
        f"trace={folder / 'struck.yaml'}",
        f"results_dir={folder / _RUNS}",
        *WORDS,
        *BACKENDS[backend],
    ]


def _command(
    trial: StrikeTrial, words: Sequence[str], folder: Path, logs: Path, strikes: Sequence[Strike]
) -> int | None:
    """Run the command once, strike it, and record violations.

    Returns:
        The exit code; None if the command had to be killed.
    """
    log_path = logs / f"command-{len(trial.outcomes)}.txt"
    outcome = Running(words, folder, log_path, WITHIN_S).finish(strikes)
    # Records are published, so they must not contain a path of this machine.
    outcome = replace(outcome, said=outcome.said.replace(str(folder), "FOLDER"))
    trial.outcomes.append(outcome)
    if outcome.exit_code is None:
        trial.problems.append(f"the command did not end within {WITHIN_S:g} s")
    if outcome.left:
        trial.problems.append(f"processes left: {outcome.left}")
    return outcome.exit_code
