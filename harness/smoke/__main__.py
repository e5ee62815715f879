"""``python -m harness.smoke`` (``make smoke``): check in a few minutes that Elastrace works here.

It has four parts, each run by the commands that a user would type:

1. replays: a quick simulated run of every recorded study is repeated from its own
   configuration, and must give the same records and metrics.
2. training: ``study=smoke`` trains for real under three elastic backends; the checks do not
   depend on the machine's speed.
3. verdicts: the report is drawn from the committed records; every verdict must be the accepted one.
4. mlflow: MLflow is filled, and must have the runs of 1 and 2 with their metrics.

The command prints PASS or FAIL, one line for each check. Exit code 0: all passed; 1: something
failed; 130: Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.command_names import spelt
from harness.errors import Problem, UserError
from harness.files.gz_text import text_path
from harness.machine.child_process import PointProcess
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import Interrupted, interruptible, run_command
from harness.machine.terminal import seconds
from harness.results.store import CONFIG, REFERENCE, RunStore, StoredRun, StoreError, iter_runs
from harness.results.tables import TableError
from harness.smoke.checks import Finding, mirrored, replays, same_replay, sound_training
from harness.smoke.commands import Commands
from harness.tracking.mirror import mirrored_metrics

STUDY = "smoke"
OUTDATED = (
    "its trace or profile has changed since it was recorded; run its study and"
    " `python -m harness.reference` again"
)
VERDICTS = "verdicts.json"
"""File of the accepted verdicts, in the folder of the committed records."""
_LOG_LINES = 4


class _Smoke:
    """Runner of the parts of the check; it reports each finding at once."""

    def __init__(self, reference: Path, out: Path, expected: Sequence[StoredRun]) -> None:
        self._reference = reference
        self._out = out
        self._runs = out / "runs"
        self._expected = expected
        self._made: list[StoredRun] = []
        self._commands = Commands(out / "logs", total=len(expected) + 3)
        self.findings: list[Finding] = []

    def run(self) -> None:
        """Run all parts, one after another."""
        self._replay()
        self._train()
        self._judge()
        self._mirror()

    def _say(self, *findings: Finding) -> None:
        for finding in findings:
            self.findings.append(finding)
            print(finding, flush=True)

    def _failed(self, what: str, process: PointProcess) -> None:
        last = " ".join(process.tail(_LOG_LINES))
        self._say(Finding(what, f"exit code {process.returncode}: {last} ({process.log_path})"))

    def _replay(self) -> None:
        common = [f"results_dir={self._runs}", "tracking=none", "progress=false", "force=true"]
        for run in self._expected:
            name = f"replay of {run.manifest.get('sweep')}"
            words = ["--from", str(text_path(run.path, CONFIG)), *common]
            # A run left by an earlier check must not count as a run of this check.
            shutil.rmtree(self._runs / run.run_id, ignore_errors=True)
            process = self._commands.run(name.replace(" ", "-"), "harness", words)
            if process.returncode:
                self._failed(name, process)
                continue
            found = RunStore(self._runs).find(run.run_id)
            if found is None:
                self._say(Finding(name, f"{run.run_id} has another id today: {OUTDATED}"))
                continue
            self._made.append(found)
            self._say(same_replay(run, found))

    def _train(self) -> None:
        words = [f"study={STUDY}", f"results_dir={self._runs}", "tracking=none", "force=true"]
        process = self._commands.run("training", "harness", words)
        if process.returncode:
            self._failed("training", process)
            return
        listing = self._out / "sweeps" / STUDY / "points.json"
        points = json.loads(listing.read_text(encoding="utf-8"))["points"]
        runs = [RunStore(self._runs).find(point["run_id"]) for point in points]
        for run in runs:
            assert run is not None  # if the sweep succeeded
            self._made.append(run)
            self._say(*sound_training(run))

    def _judge(self) -> None:
        accepted = json.loads((self._reference / VERDICTS).read_text(encoding="utf-8"))
        words = ["--results", str(self._reference), "--out", str(self._out / "report")]
        process = self._commands.run("verdicts", "reports", [*words, "--formats", "svg"])
        what = f"verdicts: all {len(accepted)} entries are as they were accepted"
        if process.returncode:
            self._failed(what, process)
        else:
            self._say(Finding(what))

    def _mirror(self) -> None:
        folder = self._out / "mlflow"
        where = {
            "uri": f"sqlite:///{folder / 'mlflow.db'}",
            "artifacts": str(folder / "artifacts"),
        }
        words = ["--results", str(self._runs)]
        words += [word for key, value in where.items() for word in (f"--{key}", value)]
        process = self._commands.run("mlflow", "harness.tracking", ["fill", *words])
        if process.returncode:
            self._failed("mlflow", process)
            return
        shown = mirrored_metrics(where)
        self._say(*(mirrored(run, shown) for run in self._made))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts and print their results; return the exit code."""
    parser = CommandParser(
        prog=spelt("harness.smoke"),
        description="Check in a few minutes that this artifact works here: replays of committed "
        "runs, real training, verdicts and MLflow. Prints one line with PASS or FAIL for each "
        "check.",
    )
    parser.add_argument(
        "--reference", type=Path, default=REFERENCE, metavar="DIR",
        help=f"committed records (default: {REFERENCE})",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("results/smoke"), metavar="DIR",
        help="folder for its runs, logs and report (default: results/smoke)",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        expected = replays(iter_runs(chosen.reference))
        if not expected or not (chosen.reference / VERDICTS).is_file():
            fact = f"holds no quick simulated run, or no {VERDICTS}"
            hint = "give the folder of the committed records: --reference results/reference"
            print(Problem(str(chosen.reference), fact, hint), file=sys.stderr)
            return 2
        smoke = _Smoke(chosen.reference, chosen.out, expected)
        with interruptible():
            smoke.run()
    except Interrupted as interrupted:
        print("Stopped: workers are gone. The same command begins again.", file=sys.stderr)
        return interrupted.exit_code
    except (StoreError, TableError, UserError) as error:
        print(error, file=sys.stderr)
        return 1
    failed = sum(bool(finding.problem) for finding in smoke.findings)
    passed = len(smoke.findings) - failed
    took = seconds(time.monotonic() - began_s)
    word = "FAIL" if failed else "PASS"
    print(f"{word}: {passed} of {passed + failed} checks passed in {took}; files: {chosen.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    run_command(main)
