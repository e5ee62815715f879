"""``python -m harness.tracking``: fill MLflow from stored runs, attach a report, or open the UI."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.command_names import is_program, spelt
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.results.store import RESULT_DIRS
from harness.tracking.mirror import (
    COLUMNS,
    Target,
    TrackingError,
    attach_report,
    prepare,
    refill,
    target,
)

END_TIMEOUT_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill MLflow from results, or open it; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = CommandParser(
        prog=spelt("harness.tracking", *words[:1]) if is_program() else spelt("harness.tracking"),
        description="Fill MLflow from stored runs (default), attach a report, or open the UI.",
    )
    parser.add_argument(
        "action", nargs="?", choices=("fill", "ui"), default="fill",
        help=argparse.SUPPRESS if is_program() else "fill MLflow (default), or open it",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, nargs="+", default=RESULT_DIRS, metavar="DIR",
        help=f"folders of the runs to fill it from (default: {' '.join(map(str, RESULT_DIRS))})",
    )  # fmt: skip
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="folder of a drawn report to attach"
    )
    parser.add_argument("--uri", default=Target().uri, help="database or server")
    parser.add_argument(
        "--artifacts", default=Target().artifacts, metavar="DIR", help="folder of figures and files"
    )
    parser.add_argument("--experiment", default=Target().experiment, help="its name in MLflow")
    parser.add_argument("--port", type=int, default=5000, help="port of the UI")
    chosen = parser.parse_args(words)
    config = {key: getattr(chosen, key) for key in ("uri", "artifacts", "experiment")}
    try:
        if chosen.action == "ui":
            return open_ui(target(config), chosen.port, prepare(config))
        mirrored, present, unreadable = refill(chosen.results, config)
        print(f"MLflow: {mirrored} runs added, {present} were in MLflow already")
        for text in unreadable:
            print(text, file=sys.stderr)
        if chosen.report is not None:
            count = attach_report(chosen.report / "figures.json", config)
            print(f"MLflow: {count} figures attached")
    except TrackingError as error:
        print(error, file=sys.stderr)
        return 2
    return 2 if unreadable else 0


def open_ui(where: Target, port: int, experiment: str) -> int:
    """Serve MLflow on the loopback address until Ctrl-C or SIGTERM; return its exit code.

    Args:
        where: the store.
        port: port on the loopback address.
        experiment: id of the experiment that the printed address opens.
    """
    words = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--workers", "1", "--backend-store-uri", where.uri]
    words += ["--default-artifact-root", where.artifacts]
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    address = f"http://127.0.0.1:{port}"
    view = f"workflowType=machine_learning&viewStateShareKey={COLUMNS}"
    page = f"{address}/#/experiments/{experiment}/runs?{view}"
    print(f"MLflow: {address} (Ctrl-C ends it)\nRuns:   {page}", flush=True)
    server = subprocess.Popen(words, env=environment, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        for signum in (
            signal.SIGTERM,
            signal.SIGKILL,
        ):  # SIGKILL, in case the server is stopped (SIGSTOP)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signum)  # MLflow's child processes end too
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(END_TIMEOUT_S)
                break


if __name__ == "__main__":
    run_command(main)
