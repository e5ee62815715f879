"""``python -m systems.script``: run a script elastically, and change its workers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import psutil

from harness.cluster import Cluster, uniform_cluster
from harness.command_names import spelt
from harness.contracts.backend import Backend
from harness.contracts.backend_reports import ReportKind
from harness.contracts.process import Warmth
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.machine.parent_death import adopt_orphans
from systems.backends.stop_free import StopFree
from systems.launchers.local import PREIMPORT, Local
from systems.runtime.driver.warm_pool import RuntimeSetupError
from systems.runtime.wire.protocol import ControlError, Message
from systems.script.messages import Finish, Migrate, Profile, ScaleIn, ScaleOut, Status
from systems.script.request_channel import RequestServer, ask
from systems.script.user_job import UserJob

POLL_S = 0.02
END_TIMEOUT_S = 5.0
RETRY_EXIT = 75
"""Exit code EX_TEMPFAIL of sysexits.h: the user should ask again later."""
REQUESTS: dict[str, type[Message]] = {
    "scale-out": ScaleOut,
    "scale-in": ScaleIn,
    "migrate": Migrate,
    "profile": Profile,
    "status": Status,
    "finish": Finish,
}
"""Request of each command; its fields are the command's options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a script, or send a running job a request.

    Returns:
        Exit code: 0 done; 1 failed; 2 wrong usage; 75 RETRY, another change is under way.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    split = given.index("--") if "--" in given else len(given)
    arguments = _parser().parse_args(given[:split])
    arguments.arguments = given[split + 1 :]
    if arguments.command == "run":
        return _run(arguments)
    request_class = REQUESTS[arguments.command]
    values = {name: getattr(arguments, name) for name in request_class.__struct_fields__}
    request = request_class(**{k: v for k, v in values.items() if v is not None})
    try:
        answer = ask(arguments.job, request, arguments.timeout)
    except ControlError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(answer.fields()))
    return {"done": 0, "retry": RETRY_EXIT}.get(answer.status, 1)


def _run(arguments: argparse.Namespace) -> int:
    job_dir: Path = arguments.job or Path("elastic-jobs") / arguments.script.stem
    problems = _problems(arguments, job_dir)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    job_dir.mkdir(parents=True, exist_ok=True)
    before = set(psutil.Process().children())
    adopt_orphans()
    launcher = Local([*PREIMPORT, "systems.script.run", *arguments.preimport])
    try:
        backend = StopFree(
            transfer=arguments.transfer,
            recovery=arguments.recovery,
            start=arguments.start,
            checkpoint_every=arguments.checkpoint_every,
            data_order=arguments.data_order,
            store="etcd" if arguments.etcd else "embedded",
            etcd_endpoints=tuple(arguments.etcd),
        )
        cluster = _cluster(arguments)
        problems = backend.problems(cluster)
    except ValueError as error:
        problems = [str(error)]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    job = UserJob(cast(Backend, backend), cluster, job_dir)
    requests: RequestServer | None = None
    try:
        launcher.open()
        backend.open(cluster, launcher)
        requests = RequestServer(job, job_dir)
        print(f"job {job_dir}", flush=True)
        job.start(arguments.script, arguments.arguments, arguments.workers, arguments.seed)
        while job.end is None:
            job.poll(POLL_S)
            requests.serve()
    except (OSError, RuntimeSetupError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if requests is not None:
            requests.close()
        backend.close()
        launcher.close()
        _end_children(before)
    end = job.end
    if end.kind is not ReportKind.FINISHED:
        print(end.reason, file=sys.stderr)
        return 1
    print(json.dumps({"step": end.step, "samples": end.samples, **end.results}))
    return 0


def _end_children(others: set[psutil.Process]) -> None:
    """Kill the processes that the job's script has left behind, except ``others``.

    A killed process leaves its own children to this process, so the search is repeated.
    """
    until = time.monotonic() + END_TIMEOUT_S
    while time.monotonic() < until:
        left = set(psutil.Process().children()) - others
        if not left:
            return
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)


def _problems(arguments: argparse.Namespace, job_dir: Path) -> list[str]:
    """Return the problems of a command line, a text for each."""
    problems = []
    if not arguments.script.is_file():
        problems.append(f"{arguments.script}: no such file")
    if not 1 <= arguments.workers <= arguments.slots:
        problems.append(
            f"--workers is {arguments.workers} and --slots is {arguments.slots};"
            " there must be a slot for every worker, and 1 worker at least"
        )
    if job_dir.exists() and (not job_dir.is_dir() or any(job_dir.iterdir())):
        problems.append(f"{job_dir} holds another job; give an empty folder with --job")
    if arguments.start == Warmth.STANDBY:
        problems.append("--start is standby, but no script is built in advance; use --start spare")
    if arguments.devices and arguments.slots % arguments.devices:
        problems.append(f"--slots {arguments.slots} is no multiple of --devices")
    return problems


def _cluster(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster that is this machine."""
    devices = arguments.devices or arguments.slots
    return uniform_cluster(
        name="here",
        num_hosts=1,
        devices_per_host=devices,
        device_type="cuda" if arguments.devices else "cpu",
        slots_per_device=arguments.slots // devices,
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog=spelt("systems.script"),
        description="Run a training script elastically on this machine"
        " (docs/how-to/elastic-script.md).",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 75 RETRY (another change is under"
        " way). Requests are answered when the change has happened.",
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    run = commands.add_parser(
        "run",
        help="run a script; ends with its training",
        usage="%(prog)s [options] script [-- ARGUMENTS OF THE SCRIPT]",
    )
    run.add_argument("script", type=Path, help="Python file of the training")
    run.add_argument("--slots", type=int, default=4, help="most workers there may be")
    run.add_argument("--workers", type=int, default=1, help="workers at first")
    run.add_argument(
        "--job",
        type=Path,
        help="an empty folder for logs, and to ask the job by (default: elastic-jobs/SCRIPT)",
    )
    run.add_argument("--devices", type=int, default=0, help="CUDA devices; 0: the CPU")
    run.add_argument("--seed", type=int, default=0, help="of the samples' order")
    run.add_argument("--transfer", default="background", help="background, peer, broadcast")
    run.add_argument("--recovery", default="exact", help="none, consistent, approximate, exact")
    run.add_argument("--checkpoint-every", type=int, default=0, help="steps; 0: never")
    run.add_argument("--data-order", default="positions", help="positions, blocks")
    run.add_argument("--start", default="preimported", help="cold, preimported, spare")
    run.add_argument(
        "--etcd",
        action="append",
        default=[],
        metavar="URL",
        help="elect the leader in this etcd; may be given for each of its members",
    )
    run.add_argument(
        "--preimport", action="append", default=[], metavar="MODULE", help="imported once, forked"
    )
    for name, text in (
        ("scale-out", "more workers"),
        ("scale-in", "fewer workers"),
        ("migrate", "other slots"),
        ("profile", "throughput and efficiency by number of workers"),
        ("status", "where the job is"),
        ("finish", "end the training after the present step"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("job", type=Path, help="the folder that run was given")
        command.add_argument(
            "--timeout", type=float, default=300.0, help="seconds to wait for the answer"
        )
        if name in ("scale-out", "scale-in"):
            which = command.add_mutually_exclusive_group(required=True)
            which.add_argument("--to", type=int, help="workers, on whichever slots")
            option, text = ("--join", "take") if name == "scale-out" else ("--leave", "leave")
            which.add_argument(option, type=int, nargs="+", metavar="SLOT", help=f"slots to {text}")
        elif name == "migrate":
            command.add_argument(
                "--leave",
                type=int,
                nargs="+",
                required=True,
                metavar="SLOT",
                help="slots to leave; as many others are taken",
            )
        elif name == "profile":
            command.add_argument("--min", type=int, default=1, help="fewest workers")
            command.add_argument("--max", type=int, help="most workers; left out: only as now")
            command.add_argument("--steps", type=int, default=20, help="at each size")
    return parser


if __name__ == "__main__":
    run_command(main)
