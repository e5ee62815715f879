"""Random lives of elastic jobs in any number, each held to the bits of its history.

    python -m tests.elastic.run_lives --lives 2000 --out results/reference/HARDWARE/random_lives

Adds one line to ``lives.jsonl`` for each life: what was done to it, by which code, and whether
digests, samples and processes were as they must be; ``machine.json`` describes the machine. A
life that is in the file is not lived again, so that the command may be stopped at any time; where
one has been lived by later code as well, its last line counts. Other ways of recovery, and
lives in which workers hang as well, want a folder of their own.
Ends with 1 if any life went wrong.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from harness.machine.manifest import environment
from tests.backends.world import descendants, warm_launcher
from tests.elastic.histories import RECOVERIES, STOPPED, TRANSFERS, run_life

PROGRAM = "tests.elastic.run_lives"
NUM_ACTS = 8
AS_BEFORE = {"recovery": RECOVERIES[0], "hangs": False}
"""Of lives that were lived before there were others."""
ROOT = Path(__file__).parents[2]


def main(argv=None):
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    parser.add_argument("--lives", type=int, default=50, help="how many there are to be in all")
    parser.add_argument("--out", type=Path, required=True, help="folder of lives.jsonl")
    parser.add_argument("--share", default="0/1", help="only those whose number mod N is K: K/N")
    parser.add_argument(
        "--besides", type=Path, nargs="+", default=[], metavar="DIR",
        help="folders of other machines; the lives that went well there are not lived again",
    )  # fmt: skip
    parser.add_argument("--recovery", choices=RECOVERIES, default=RECOVERIES[0])
    parser.add_argument("--hangs", action="store_true", help="half of who is struck hangs")
    parser.add_argument(
        "--transfer", choices=[*TRANSFERS, STOPPED], help="of all lives (default: in turn)"
    )
    options = parser.parse_args(argv)
    ways = {"recovery": options.recovery, "hangs": options.hangs}
    elsewhere = {
        number
        for folder in options.besides
        for number, line in read(folder / "lives.jsonl").items()
        if line["as_it_must_be"]
    }
    part, parts = map(int, options.share.split("/"))
    path = options.out / "lives.jsonl"
    known = read(path)
    asked = {**ways, "transfer": options.transfer}
    for number, line in known.items():
        for name, wanted in asked.items():
            if line.get(name, AS_BEFORE.get(name)) != wanted and wanted is not None:
                parser.error(
                    f"life {number} in {path} has another {name} than {wanted}: give --out another"
                    " folder for these, or ask for what is there"
                )
    options.out.mkdir(parents=True, exist_ok=True)
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    launcher = warm_launcher()
    launcher.open()
    try:
        for number in range(part, options.lives, parts):
            if number in known or number in elsewhere:
                continue
            transfer = options.transfer or TRANSFERS[number % len(TRANSFERS)]
            life = live(launcher, number, options.out, transfer, ways)
            line = {**life, "commit": now["git_commit"]}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            known[number] = line
            wrong = sum(not line["as_it_must_be"] for line in known.values())
            lived = len(known.keys() | elsewhere)
            print(f"\r{lived} of {options.lives}, {wrong} wrong", end="", file=sys.stderr)
    finally:
        launcher.close()
        print(file=sys.stderr)
    wrong = [number for number, line in known.items() if not line["as_it_must_be"]]
    print(
        f"{len(known)} lives, {sum(line['kills'] for line in known.values())} kills; wrong: {wrong}"
    )
    return 1 if wrong else 0


def describe(path, module, arguments):
    """Machine and code of the present call; the first one's are kept beside what it measured."""
    now = environment(["python", "-m", module, *arguments])
    if not path.exists():
        path.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return now


def read(path):
    """The lives in a file, by number."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line["number"]: line for line in map(json.loads, lines)}


def live(launcher, number, out, transfer, ways):
    """One life as a line; of one that goes wrong the logs stay, in ``out``."""
    started = time.monotonic()
    problem = ""
    with tempfile.TemporaryDirectory() as folder:
        story = []
        try:
            life = run_life(launcher, Path(folder), number, transfer, NUM_ACTS, story, **ways)
        except Exception:
            # Where this machine keeps things is nobody's business.
            problem = traceback.format_exc(limit=3).replace(folder, "FOLDER")
            problem, life = problem.replace(f"{ROOT}/", ""), None
            shutil.copytree(folder, out / f"wrong_{number}", dirs_exist_ok=True)
        left = [process.pid for process in descendants()]
        if left:
            problem += f"\nprocesses left: {left}"
    return {
        "number": number,
        "transfer": transfer,
        "as_it_must_be": not problem,
        "steps": life.num_steps if life else None,
        **ways,
        "kills": sum(act[0] == "kill" for act in story),
        "hung": sum(act[0] == "hang" for act in story),
        "changes": sum(act[0] == "change" for act in story),
        "story": story,
        "seconds": round(time.monotonic() - started, 2),
        "problem": problem,
    }


if __name__ == "__main__":
    sys.exit(main())
