"""How much memory does each virtual worker on a slot cost?

    python -m tests.virtual.run_memory --out results/reference/HARDWARE/virtual_memory

Trains every model as 1, 2, 4, 8 and 16 logical workers with the same batch each, all on one slot
(or evenly on ``--slots``), and adds a line to ``memory.jsonl`` for each: the most memory that the
slot's process has held (``VmHWM``), and the bytes of all gradients. On several slots it is the sum
over their processes, in which memory that they share counts once. What is in the file is not
measured again.

All that with two heaps:

- ``live``: every block of 128 KiB or more is a mapping of its own (``MALLOC_MMAP_THRESHOLD_``), so
  that what is freed is gone, and the peak is that of what is in use;
- ``malloc``: glibc's heap, as workers keep it (``machine/malloc.py``). How far it grows differs
  from one pass to the next, and its peak grows with how many there were; so all numbers of workers
  make as many turns.

Ends with the slope over workers in gradient copies, by least squares, from two workers a slot on:
one alone is stock DistributedDataParallel, which needs no sum of our own. EasyScale (section 3.2)
says 1. One slot adds gradients up as they come, and keeps half a copy a worker; several keep one.
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import yaml

from harness.configuration.named_classes import locate
from harness.contracts.workload import WorkloadSpec
from tests.backends.world import CONFIGS, ENDS, warm_launcher, workers
from tests.elastic.run_lives import describe
from tests.virtual.worlds import SEED, virtual

PROGRAM = "tests.virtual.run_memory"
MODELS = ("resnet50", "vgg16", "bert", "transformer", "shufflenetv2", "ncf", "swin_t", "gpt2")
COUNTS = (1, 2, 4, 8, 16)
BATCH = 4
"""Of each logical worker."""
STEPS = 3
"""After so many everything has been allocated once: the second step has other buckets."""
TURNS = 48
"""With the heap ``malloc``; of them all, whoever's they are."""
TIMEOUT_S = 900.0
"""Also of the end, which waits for steps: without a heap to reuse they take long."""
THRESHOLD = "MALLOC_MMAP_THRESHOLD_"
HEAPS = {"live": {THRESHOLD: str(128 << 10)}, "malloc": {}}
"""What is in the environment of the slot's process."""


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of memory.jsonl")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--pool", default="small", help="option of the group workload")
    parser.add_argument("--slots", type=int, default=1, help="as many processes (1)")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "memory.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    known = {(o["heap"], *case_of(o), o["logical_workers"]) for o in lines}
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    for heap in HEAPS:
        missing = [
            (model, count)
            for model in options.models
            for count in COUNTS
            if count % options.slots == 0
            and (heap, model, options.pool, options.slots, count) not in known
        ]
        with launcher_with(heap) as launcher, path.open("a", encoding="utf-8") as file:
            for model, count in missing:
                line = {"heap": heap, "model": model, "pool": options.pool}
                spec = workload(options.pool, model)
                line |= measured(launcher, spec, count, steps(heap, count), options.slots)
                lines.append({**line, "commit": now["git_commit"]})
                print(json.dumps(lines[-1]), file=file, flush=True)
    for (heap, model, pool, slots), found in slopes(lines).items():
        case = f"{heap} {pool}/{model} on {slots}"
        print(f"{case}: {found:.3f} gradient copies a virtual worker")
    return 0


def case_of(line):
    """What a slope is of, beside the heap."""
    return line["model"], line["pool"], line.get("slots", 1)


@contextmanager
def launcher_with(heap):
    """A launcher whose processes have a heap; this process's own environment stays what it was."""
    before = os.environ.pop(THRESHOLD, None)
    os.environ.update(HEAPS[heap])
    launcher = warm_launcher()
    try:
        launcher.open()
        yield launcher
    finally:
        launcher.close()
        os.environ.pop(THRESHOLD, None)
        if before is not None:
            os.environ[THRESHOLD] = before


def steps(heap, num_workers):
    """How long so many workers are watched."""
    return max(STEPS, TURNS // num_workers) if heap == "malloc" else STEPS


def names(pool):
    """The workloads of a pool."""
    return yaml.safe_load((CONFIGS / "workload" / f"{pool}.yaml").read_text())["pool"]


def workload(pool, model):
    """The workload of a pool as a specification."""
    entry = names(pool)[model]
    kept = {k: v for k, v in entry.items() if k not in ("_target_", "memory_bytes_per_worker")}
    return WorkloadSpec(model, entry["_target_"], kept)


def measured(launcher, spec, num_workers, num_steps, num_slots=1):
    """Most memory of the processes that logical workers take turns in, over some steps."""
    with tempfile.TemporaryDirectory() as name:
        world = virtual(launcher, Path(name))
        try:
            world.until_change(
                world.start(
                    tuple(range(num_slots)),
                    batch=BATCH * num_workers,
                    seed=SEED,
                    logical_workers=num_workers,
                    workload=spec,
                )
            )
            world.until(lambda report: report.step >= num_steps, TIMEOUT_S)
            found = [peak_bytes(worker.pid) for worker in workers()]
            assert len(found) == num_slots
            world.backend.set_target_step("job", 0)
            world.until(lambda report: report.kind in ENDS, TIMEOUT_S)
        finally:
            world.backend.close()
    return {
        "slots": num_slots,
        "logical_workers": num_workers,
        "steps": num_steps,
        "peak_bytes": sum(found),
        "gradient_bytes": gradient_bytes(spec),
    }


def peak_bytes(process):
    """The most that a process has held, and of what it shares with others only its part.

    What workers share is there until they end, so that what is resident of it now was part of
    the peak.
    """
    folder = Path("/proc", str(process))
    sizes = {}
    for name in ("status", "smaps_rollup"):
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if value.endswith(" kB"):
                sizes[key] = 1024 * int(value.removesuffix(" kB"))
    return sizes["VmHWM"] - sizes["RssShmem"] + sizes["Pss_Shmem"]


def gradient_bytes(spec):
    """Of all gradients of the model, one copy."""
    model = locate(spec.target, "workload", "workload")(**spec.options).build_model(SEED)
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def slopes(lines):
    """Memory over logical workers, in gradient copies, by heap, model, pool and slots."""
    found = {}
    for line in lines:
        if line["logical_workers"] > line.get("slots", 1):
            found.setdefault((line["heap"], *case_of(line)), []).append(line)
    return {
        key: float(
            np.polyfit([o["logical_workers"] for o in own], [o["peak_bytes"] for o in own], 1)[0]
        )
        / own[0]["gradient_bytes"]
        for key, own in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())
