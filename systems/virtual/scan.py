"""``python -m systems.virtual.scan``: the operators of a model that level D2 would make slow.

Source: EasyScale (Li et al., SC '23), section 3.3: a scan of its modules analyses a model. If none
relies on kernels that the vendor tunes for each type of device, D2 is switched on. The job may then
use slots of all types. Otherwise it stays on slots of one type. Differs: the operators of a real
step are observed, so that those called by no module count too, and timed with both kinds of
kernels. The user acts on the answer by setting ``backend.level``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harness.configuration.compose import CONFIG_DIR, options
from harness.contracts.workload import WorkloadSpec
from harness.errors import Problem, RunError, UserError, render, suggest
from harness.machine.interrupts import run_command
from harness.run.workload_pool import read_pool
from systems.runtime.wire.kernels import NEWEST_COMMON, Kernels

TUNED = ("convolution", "rnn")
"""Parts of the names of operators for which D2 does not use the vendor's kernels: oneDNN's on CPUs,
cuDNN's on CUDA."""
_SHOWN = 12
_SHOWN_MODULES = 2
TIMEOUT_S = 600.0


class ScanError(RunError):
    """A step could not be measured; the text has the last output."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Operator of a step, with the best kernels and with common ones."""

    name: str
    calls: int
    """Number of calls in a step."""
    best_s: float
    """Processor time in a step with the best kernels; 0 if these do not use the operator."""
    common_s: float
    modules: tuple[str, ...]

    @property
    def is_tuned(self) -> bool:
        """True if D2 does not use the vendor's kernels for it."""
        return any(part in self.name for part in TUNED)


def scan(spec: WorkloadSpec, batch: int, steps: int, num_threads: int) -> list[Operator]:
    """Return the operators of a workload's step, slowest first.

    Args:
        spec: the workload.
        batch: samples of a step.
        steps: number of timed steps.
        num_threads: threads of an operator.

    Raises:
        ScanError: a step could not be made.
    """
    asked = {"target": spec.target, "options": dict(spec.options), "batch": batch, "steps": steps}
    best = _watch(asked, Kernels(num_threads))
    common = _watch(asked, Kernels(num_threads, NEWEST_COMMON, are_common=True))
    found = []
    for name in {**best, **common}:
        one, other = best.get(name, {}), common.get(name, {})
        found.append(
            Operator(
                name,
                calls=one.get("calls") or other.get("calls", 0),
                best_s=one.get("seconds", 0.0),
                common_s=other.get("seconds", 0.0),
                modules=tuple(one.get("modules") or other.get("modules", ())),
            )
        )
    return sorted(found, key=lambda op: max(op.best_s, op.common_s), reverse=True)


def _watch(asked: Mapping[str, Any], kernels: Kernels) -> dict[str, Any]:
    """Return the answer of ``operators``, from a separate process with these kernels."""
    threads = str(kernels.num_threads)
    # A process of its own: torch reads these variables when it is imported.
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, threads), **kernels.environment}
    told = {**asked, "num_threads": kernels.num_threads, "common": kernels.are_common}
    done = subprocess.run(
        [sys.executable, "-m", "systems.virtual.operators"],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise ScanError(
            f"a step of {asked['target']} could not be made:\n{done.stderr.strip()[-2000:]}"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(name: str, operators: Sequence[Operator], batch: int, num_threads: int) -> str:
    """Return the result of a scan as text."""
    best_s, common_s = (
        sum(getattr(op, field) for op in operators) for field in ("best_s", "common_s")
    )
    threads = "one thread" if num_threads == 1 else f"{num_threads} threads"
    lines = [
        f"{name}, {batch} samples a step, {threads}: operators take {best_s * 1e3:.1f} ms of"
        f" the CPU, and {common_s * 1e3:.1f} ms with kernels that all types of slots have (D2):"
        f" {common_s / best_s:.2f} times as long.",
        "",
        f"{'operator':<34}{'calls':>7}{'best ms':>10}{'D2 ms':>9}   used in",
    ]
    for op in operators[:_SHOWN]:
        mark = "*" if op.is_tuned else " "
        lines.append(
            f"{mark}{op.name:<33}{op.calls:>7}{op.best_s * 1e3:>10.2f}{op.common_s * 1e3:>9.2f}"
            f"   {_some(op.modules)}"
        )
    if len(operators) > _SHOWN:
        lines.append(f" and {len(operators) - _SHOWN} that take less")
    tuned = [op.name for op in operators if op.is_tuned]
    lines.append("")
    if tuned:
        lines += [
            "* relies on kernels that the vendor tunes for each type of device, which D2 leaves"
            f" out: {', '.join(tuned)}.",
            "By the paper's rule such a job stays on slots of one type (backend.level=D1); with"
            " backend.level=D2 it can use all, and takes as much longer as was measured here.",
        ]
    else:
        lines.append(
            "No operator relies on kernels that the vendor tunes for each type of device:"
            " backend.level=D2 lets the job use slots of all types."
        )
    return "\n".join(lines)


def _some(modules: Sequence[str]) -> str:
    more = len(modules) - _SHOWN_MODULES
    names = ", ".join(modules[:_SHOWN_MODULES])
    return f"{names} and {more} more" if more > 0 else names


def find(name: str) -> WorkloadSpec:
    """Return the workload called ``POOL/NAME``, such as ``tiny/resnet50``.

    Raises:
        UserError: there is none of this name.
    """
    pool, _, own = name.partition("/")
    pools = options("workload")
    if pool not in pools:
        raise UserError([Problem("WORKLOAD", f"no pool {pool!r}", suggest(pool, pools))])
    path = CONFIG_DIR / "workload" / f"{pool}.yaml"
    specs = read_pool(yaml.safe_load(path.read_text(encoding="utf-8")))
    if own not in specs:
        fact = f"pool {pool!r} has no workload {own!r}"
        raise UserError([Problem("WORKLOAD", fact, suggest(own, list(specs)))])
    return specs[own]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m systems.virtual.scan",
        description=(
            "Which operators of a workload would level D2 (the same bits on slots of different"
            " types, backend=virtual_thread) make slow? Trains a few steps with the best kernels"
            " and with common ones, and compares."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("workload", metavar="POOL/NAME", help="such as tiny/resnet50 or small/bert")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step")
    parser.add_argument("--steps", type=int, default=5, help="steps that are timed")
    parser.add_argument("--threads", type=int, default=1, help="of an operator")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Scan a workload and print the result; return 1 if a step failed, 2 for a wrong argument."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    for option in ("batch", "steps", "threads"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} is {getattr(arguments, option)}; it must be at least 1")
    try:
        spec = find(arguments.workload)
        operators = scan(spec, arguments.batch, arguments.steps, arguments.threads)
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    except ScanError as error:
        print(error, file=sys.stderr)
        return 1
    print(report(arguments.workload, operators, arguments.batch, arguments.threads))
    return 0


if __name__ == "__main__":
    run_command(main)
