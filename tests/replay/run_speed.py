"""How fast do several checkouts replay the same trace? Side by side, in turns.

    python -m tests.replay.run_speed --checkouts before=PATH now=. --out FOLDER

What was tried to make replays faster is told from what a machine did that day by this alone:
every trial runs each scheduler in every checkout once, in drawn order, each in a process of its
own on one core. Adds a line to ``replays.jsonl`` for each, with the time of the whole replay, its
events and a digest of the records; trials that are in the file are not run again. Ends with
medians, and with 1 if checkouts that replay one trace disagree about what happened.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.elastic.run_lives import describe

PROGRAM = "tests.replay.run_speed"
COMMON = ("engine=simulated", "tracking=none", "cluster=slots400")
REPLAYS = {
    "fifo": ("trace=philly", "profile=recorded", "scheduler=fifo"),
    "tiresias": ("trace=philly", "profile=recorded", "scheduler=tiresias"),
    "elasticflow": (
        "trace=philly_deadlines",
        "profile=a100_elasticflow",
        "scheduler=elasticflow",
    ),
}
SEED = 7
INSIDE = """
import hashlib, json, sys, time
from harness import experiment
from harness.replay.loop import replay
from harness.sweep.runner import read_words

config = read_words(sys.argv[1:])
plan = experiment.plan(config, check_workloads=False)
setup = plan.setup
engine = plan.engine.open(setup)
shown = setup.profile.as_shown(config.seed)
wall_s, cpu_s = time.perf_counter(), time.process_time()
records = replay(
    jobs=setup.jobs, cluster=setup.cluster, scheduler=plan.scheduler, placement=plan.placement,
    engine=engine, profile=setup.profile, scaling=config.scaling, shown=shown,
)
wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
digest = hashlib.sha256()
for table in (records.jobs, records.grants, records.changes):
    for row in table:
        digest.update(repr(row).encode())
found = {"wall_s": wall_s, "cpu_s": cpu_s, "num_events": records.facts["num_events"]}
print(json.dumps({**found, "digest": digest.hexdigest()}))
"""


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of replays.jsonl")
    parser.add_argument(
        "--checkouts", nargs="+", required=True, metavar="NAME=PATH", help="what is compared"
    )
    parser.add_argument("--replays", nargs="+", choices=REPLAYS, default=list(REPLAYS))
    parser.add_argument("--trials", type=int, default=5, help="of each (5)")
    parser.add_argument("--core", type=int, default=1, help="on which all run (1)")
    options = parser.parse_args(argv)
    checkouts = {}
    for word in options.checkouts:
        name, _, path = word.partition("=")
        if not (Path(path) / "harness" / "replay").is_dir():
            parser.error(f"{word}: no checkout there; give NAME=PATH")
        checkouts[name] = Path(path).resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "replays.jsonl"
    given = [f"{name}=PATH" for name in checkouts]
    describe(options.out / "machine.json", PROGRAM, ["--checkouts", *given])
    lines = read(path)
    known = {(line["trial"], line["replay"], line["checkout"]) for line in lines}
    for trial in range(options.trials):
        turns = [(replay, name) for replay in options.replays for name in checkouts]
        random.Random(f"{SEED} {trial}").shuffle(turns)
        for replay, name in turns:
            if (trial, replay, name) in known:
                continue
            line = {
                "trial": trial,
                "replay": replay,
                "checkout": name,
                "commit": commit(checkouts[name]),
                **run(checkouts[name], REPLAYS[replay], options.core),
            }
            lines.append(line)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"\r{len(lines)} replays", end="", file=sys.stderr)
    print(file=sys.stderr)
    return summarise(lines, list(checkouts))


def read(path):
    """The lines of a file, if it is there."""
    if not path.exists():
        return []
    return list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))


def commit(checkout):
    """What is checked out, with a plus if it was changed."""
    found = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
        cwd=checkout, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.strip()


def run(checkout, words, core):
    """One replay in a process of its own."""
    found = subprocess.run(
        ["taskset", "-c", str(core), sys.executable, "-c", INSIDE, *COMMON, *words],
        cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return json.loads(found.stdout.splitlines()[-1])


def summarise(lines, names):
    """Medians by replay and checkout, ratios to the first checkout within a trial; 1 if records
    differ."""
    by_replay = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        by_replay[line["replay"]][line["checkout"]][line["trial"]] = line
    print(f"{'replay':12} {'checkout':12} {'median s':>9} {'over first':>11} {'trials':>7}")
    for replay, checkouts in by_replay.items():
        first = checkouts[names[0]]
        for name in names:
            trials = checkouts[name]
            median_s = statistics.median(line["wall_s"] for line in trials.values())
            ratios = [
                line["wall_s"] / first[trial]["wall_s"]
                for trial, line in trials.items()
                if trial in first
            ]
            ratio = statistics.median(ratios)
            print(f"{replay:12} {name:12} {median_s:9.2f} {ratio:11.3f} {len(trials):7}")
    differ = [
        replay
        for replay in by_replay
        if len({line["digest"] for line in lines if line["replay"] == replay}) > 1
    ]
    if differ:
        print(f"the records of {', '.join(differ)} are not the same in all checkouts")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
