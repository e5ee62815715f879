"""Models of the catalogue under virtual threads, each held to stock training bit by bit.

    python -m tests.virtual.run_models --out results/reference/HARDWARE/virtual_models

Every model is trained with SGD (momentum) and with AdamW as 2, 3, 4 and 8 logical workers on slots
that change at least twice, while it trains on or by checkpoints, and then by stock
DistributedDataParallel on as many processes. Adds one line to ``models.jsonl`` for each: whether
every loss of every worker and the digests of parameters, buffers and optimizer state are equal.
What is in the file for this version of torch is not trained again, so that the command may be
stopped at any time. ``--steps 10000 --models ncf --workers 4`` trains one model for long.
Ends with 1 if anything was unequal.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import yaml

from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from tests.backends.world import CONFIGS, warm_launcher
from tests.elastic.run_lives import describe
from tests.virtual.worlds import SEED, check_same_bits, virtual

PROGRAM = "tests.virtual.run_models"
MODELS = (
    *("resnet50", "vgg16", "vgg19", "shufflenetv2", "bert", "electra", "ncf", "swin_t", "gpt2"),
    "transformer",
)
TARGET = "tests.virtual.any_optimizer.AnyOptimizer"
BATCH = 16
STEP_S = 0.1
"""Least time of a step of a short training, so that few are made while newcomers prepare."""


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of models.jsonl")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--optimizers", nargs="*", default=("sgd", "adamw"))
    parser.add_argument("--workers", nargs="*", type=int, default=(2, 3, 4, 8))
    parser.add_argument("--steps", type=int, default=30, help="at least so many of each")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "models.jsonl"
    lines = read(path)
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    launcher = warm_launcher()
    launcher.open()
    try:
        for point in points(options):
            if (*point, torch.__version__) in lines:
                continue
            line = {**compared(launcher, *point), "commit": now["git_commit"]}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            lines[*point, torch.__version__] = line
            print(f"{len(lines)}: {line['model']} {line['problem'] or 'equal'}", file=sys.stderr)
    finally:
        launcher.close()
    unequal = [key for key, line in lines.items() if not line["equal"]]
    print(f"{len(lines)} trainings; unequal: {unequal}")
    return 1 if unequal else 0


def points(options):
    """(model, optimizer, logical workers, steps), every model early on."""
    return [
        (model, optimizer, count, options.steps)
        for count in options.workers
        for optimizer in options.optimizers
        for model in options.models
    ]


def read(path):
    """The trainings in a file; a later line of the same counts."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    names = ("model", "optimizer", "logical_workers", "least_steps", "torch")
    return {tuple(line[name] for name in names): line for line in lines}


def compared(launcher, model, optimizer, num_workers, steps):
    """One training and its stock counterpart, as a line."""
    rng = random.Random(f"{model} {optimizer} {num_workers} {steps}")
    backend = {"reconfigure": rng.choice(["stop_free", "stop_free", "checkpoint"])}
    plan = random_plan(rng, num_workers, 2 if steps < 1000 else 6)
    entry = yaml.safe_load((CONFIGS / "workload" / "tiny.yaml").read_text())["pool"][model]
    kept = {k: v for k, v in entry.items() if k not in ("_target_", "memory_bytes_per_worker")}
    options = {"target": entry["_target_"], "options": kept, "optimizer": optimizer}
    started, problem, made = time.monotonic(), "", 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            end, world = trained(launcher, folder, plan, num_workers, steps, options, **backend)
            made = end.step
            check_same_bits(world, folder, end, num_workers, BATCH, workload=TARGET, **options)
        except Exception:
            problem = traceback.format_exc(limit=3)
    return {
        "model": model,
        "optimizer": optimizer,
        "logical_workers": num_workers,
        "least_steps": steps,
        "steps": made,
        "plan": plan,
        **backend,
        "equal": not problem,
        "problem": problem,
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - started, 1),
    }


def random_plan(rng, num_workers, num_changes):
    """Slots, one after the other, no two the same."""
    plan = []
    while len(plan) < 1 + num_changes:
        slots = rng.sample(range(4), rng.randint(1, min(4, num_workers)))
        if not plan or set(slots) != set(plan[-1]):
            plan.append(slots)
    return plan


def trained(launcher, folder, plan, num_workers, steps, options, **backend):
    """The end of a training on the slots of ``plan``, and its world."""
    world = virtual(launcher, folder, **backend)
    floors = dict.fromkeys(range(1, 5), STEP_S) if steps < 1000 else {}
    try:
        start = world.start(
            tuple(plan[0]),
            batch=BATCH,
            seed=SEED,
            logical_workers=num_workers,
            workload=WorkloadSpec("model", TARGET, options),
            floors=floors,
        )
        world.until_change(start)
        for number, slots in enumerate(plan[1:], start=1):
            world.until(lambda r, n=number: r.step >= n * steps // len(plan), 900)
            world.do(ChangeKind.RESCALE, tuple(slots), batch=BATCH)
        world.until(lambda r: r.step >= steps, 900)
        world.backend.set_target_step("job", 0)
        return world.until_end(), world
    finally:
        world.backend.close()


if __name__ == "__main__":
    sys.exit(main())
