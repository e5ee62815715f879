"""The GPU set: what this project can show on the CUDA devices that are there; one is enough.

    python -m tests.gpu.run_parts --out results/reference/HARDWARE/gpu

Runs one part after the other (``parts.py`` has them), each in a process of its own that is ended
after ``--limit-s``. ``parts.jsonl`` in the folder has a line for each part: passed or failed, what
was measured, and on which device, driver, torch and commit. A part that has passed is not run
again, one that has failed is; so the command may be stopped at any time, and given again.
``machine.json`` describes the machine. Needs neither Hydra nor MLflow. Ends with 1 if a part failed
or is left, with 2 if nothing could be run; without a CUDA device it skips all parts, and ends
with 0.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.engines.live.devices import num_cuda_devices
from harness.machine.interrupts import run_command
from harness.machine.manifest import environment, hardware_slug
from tests.gpu.parts import PARTS, Part

PROGRAM = "tests.gpu.run_parts"
LIMIT_S = 540.0
"""Under ten minutes, after which many a queue or lease ends a command."""
ROOT = Path(__file__).resolve().parents[2]
REFERENCE = Path("results/reference")
DESCRIBE = Part("device", "tests.gpu.device:describe")
LAST_LETTERS = 2000
"""Of what a part that failed had to say."""


def main(argv=None, parts=PARTS, describe=DESCRIBE):
    """Args: parts: of the set. describe: the one that says what the others ran on."""
    options = _options(argv)
    unknown = [word for word in options.part if not any(_is_called(part, word) for part in parts)]
    if unknown:
        known = ", ".join(sorted({part.name.partition("/")[0] for part in parts}))
        return _refuse(f"no part is called {' or '.join(unknown)}; known: {known}")
    words = options.part
    chosen = [p for p in parts if not words or any(_is_called(p, word) for word in words)]
    if options.list:
        print(*(part.name for part in chosen), sep="\n")
        return 0
    if options.device == "cuda" and num_cuda_devices() == 0:
        print(f"There is no CUDA device: all {len(chosen)} parts of the GPU set are skipped.")
        return 0
    call = Call(time.monotonic() + options.call_s, options)
    found = call.run(describe)
    if found is None or found.outcome != "passed":
        why = found.problem if found else f"not done within {options.call_s:g} s"
        return _refuse(f"the device could not be described: {why}")
    here = environment(["python", "-m", PROGRAM, *(sys.argv[1:] if argv is None else argv)])
    here["hardware"]["accelerators"] = [found.numbers["device"]] * found.numbers["num_devices"]
    if options.commit:
        here["git_commit"] = options.commit
    out = options.out or REFERENCE / hardware_slug(here["hardware"]) / "gpu"
    path = out / "parts.jsonl"
    known = read(path)
    others = {line["device"] for line in known.values()} - {found.numbers["device"]}
    if others:
        names = ", ".join(sorted(others))
        return _refuse(
            f"{path} is of {names}, this is {found.numbers['device']}; give another --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "machine.json").exists():
        (out / "machine.json").write_text(json.dumps(here, indent=1) + "\n", encoding="utf-8")
    where = {**found.numbers, "commit": here["git_commit"], "dirty": here["git_dirty"]}
    print(f"{where['device']}, torch {where['torch']}; records: {path}", flush=True)
    return _run_all(call, chosen, known, path, where)


def _run_all(call, chosen, known, path, where):
    left = []
    for part in chosen:
        if known.get(part.name, {}).get("outcome") == "passed" and not call.options.again:
            print(f"{part.name}: skipped, passed already", flush=True)
            continue
        found = call.run(part)
        if found is None:
            left.append(part.name)
            continue
        at = datetime.now(UTC).isoformat(timespec="seconds")
        known[part.name] = {"part": part.name, **found.line(), **where, "at": at}
        write(path, known)
        print(f"{part.name}: {found.outcome}, {found.seconds:.1f} s", flush=True)
        if found.problem:
            print(found.problem, flush=True)
    outcomes = [known[part.name]["outcome"] for part in chosen if part.name not in left]
    num_failed = outcomes.count("failed")
    text = f"{outcomes.count('passed')} of {len(chosen)} parts passed, {num_failed} failed"
    if left:
        text += f", {len(left)} left: give the command again"
    print(text)
    return 1 if num_failed or left else 0


@dataclass
class Found:
    """What became of a part."""

    outcome: str
    seconds: float
    numbers: dict
    problem: str = ""

    def line(self):
        """As it is kept."""
        line = {"outcome": self.outcome, "seconds": round(self.seconds, 2)}
        line |= {"numbers": rounded(self.numbers)}
        return {**line, "problem": self.problem} if self.problem else line


@dataclass
class Call:
    """This call of the program, which may last until a moment on ``time.monotonic``."""

    until_s: float
    options: argparse.Namespace

    def run(self, part):
        """What becomes of a part; None if the call's own time is over before."""
        began = time.monotonic()
        ends = min(began + self.options.limit_s, self.until_s)
        if ends <= began:
            return None
        with tempfile.TemporaryDirectory() as folder:
            code = self._process(part, Path(folder), ends - began)
            seconds = time.monotonic() - began
            if code is None and ends == self.until_s:
                return None
            if code is None:
                problem = f"not done within {self.options.limit_s:g} s"
                return Found("failed", seconds, {}, problem)
            numbers = Path(folder, "numbers.json")
            if code == 0 and numbers.exists():
                return Found("passed", seconds, json.loads(numbers.read_text(encoding="utf-8")))
            said = Path(folder, "said.txt").read_text(encoding="utf-8", errors="replace")
            said = said.replace(f"{ROOT}/", "")  # a record names no folder of its machine
            problem = said[-LAST_LETTERS:].strip() or f"ended with {code} and no word"
            return Found("failed", seconds, {}, problem)

    def _process(self, part, folder, limit_s):
        """Its exit code, or None if it had to be ended. Its workers end with it."""
        (folder / "work").mkdir()
        words = [str(os.getpid()), part.call, self.options.device]
        words += [str(folder / "work"), str(folder / "numbers.json")]
        with (folder / "said.txt").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.gpu.one_part", *words],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(part.options).encode(), timeout=limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return process.returncode


def read(path):
    """The parts on record, by name."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line["part"]: line for line in map(json.loads, lines)}


def write(path, lines):
    """All of them, in one step: whoever is stopped meanwhile loses at most the last."""
    text = "".join(json.dumps(line) + "\n" for line in lines.values())
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def rounded(value):
    """Numbers to six digits that count: more are noise here, and records are to be small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def _is_called(part, word):
    return part.name == word or part.name.startswith(f"{word}/")


def _refuse(text):
    print(text, file=sys.stderr)
    return 2


def _options(argv):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path,
        help="folder of the records (default: gpu, in the machine's own of results/reference)",
    )  # fmt: skip
    parser.add_argument(
        "--part", nargs="+", default=[], metavar="NAME",
        help="only these: bits/peer, or bits for all that begin so",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="only name the parts")
    parser.add_argument("--again", action="store_true", help="also those that have passed")
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, help=f"longest time of a part ({LIMIT_S:g})"
    )
    parser.add_argument(
        "--call-s", type=float, default=float("inf"),
        help="longest time of this call; what is not done then is left for the next (no limit)",
    )  # fmt: skip
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda",
        help="cpu: try the program where there is no other device",
    )  # fmt: skip
    parser.add_argument(
        "--commit", help="of the code, where this folder is no checkout that can be asked"
    )
    options = parser.parse_args(argv)
    if not (options.limit_s > 0 and options.call_s > 0):
        parser.error("--limit-s and --call-s are seconds above 0")
    return options


if __name__ == "__main__":
    run_command(main)
