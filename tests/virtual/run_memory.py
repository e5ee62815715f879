"""How much memory does each virtual worker on a slot cost?

    python -m tests.virtual.run_memory --out results/reference/HARDWARE/virtual_memory

Trains every model as 1, 2, 4, 8 and 16 logical workers with the same batch each, all on one slot,
and adds a line to ``memory.jsonl`` for each: the most memory that the slot's process has held
(``VmHWM``), and the bytes of all gradients. What a step holds for a moment may or may not fall
together, so that two peaks differ by up to about one such copy. What is in the file is not
measured again. Ends with the slope over workers in gradient copies, by least squares; EasyScale
(section 3.2) says 1.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml

from harness.build import locate
from harness.contracts.training import WorkloadSpec
from tests.backends.world import CONFIGS, warm_launcher, workers
from tests.elastic.run_lives import describe
from tests.virtual.worlds import SEED, virtual

PROGRAM = "tests.virtual.run_memory"
MODELS = ("resnet50", "vgg16", "bert", "transformer", "shufflenetv2", "ncf", "swin_t", "gpt2")
COUNTS = (1, 2, 4, 8, 16)
BATCH = 4
"""Of each logical worker."""
STEPS = 8
"""After so many steps everything has been allocated once."""


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of memory.jsonl")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--pool", default="small", help="option of the group workload")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "memory.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    known = {(line["model"], line["pool"], line["logical_workers"]) for line in lines}
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    launcher = warm_launcher()
    launcher.open()
    try:
        for model in options.models:
            for count in COUNTS:
                if (model, options.pool, count) not in known:
                    line = {"model": model, "pool": options.pool, "logical_workers": count}
                    line |= measured(launcher, workload(options.pool, model), count)
                    lines.append({**line, "commit": now["git_commit"]})
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    finally:
        launcher.close()
    for (model, pool), found in slopes(lines).items():
        print(f"{pool}/{model}: {found:.3f} gradient copies a virtual worker")
    return 0


def names(pool):
    """The workloads of a pool."""
    return yaml.safe_load((CONFIGS / "workload" / f"{pool}.yaml").read_text())["pool"]


def workload(pool, model):
    """The workload of a pool as a specification."""
    entry = names(pool)[model]
    kept = {k: v for k, v in entry.items() if k not in ("_target_", "memory_bytes_per_worker")}
    return WorkloadSpec(model, entry["_target_"], kept)


def measured(launcher, spec, num_workers):
    """Most memory of the one process that all logical workers take turns in."""
    with tempfile.TemporaryDirectory() as name:
        world = virtual(launcher, Path(name))
        try:
            world.until_change(
                world.start(
                    (0,),
                    batch=BATCH * num_workers,
                    seed=SEED,
                    logical_workers=num_workers,
                    workload=spec,
                )
            )
            world.until(lambda report: report.step >= STEPS, 900)
            (worker,) = workers()
            status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
            (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
            world.backend.hold("job", 0)
            world.until_end()
        finally:
            world.backend.close()
    return {"peak_bytes": 1024 * int(line.split()[1]), "gradient_bytes": gradient_bytes(spec)}


def gradient_bytes(spec):
    """Of all gradients of the model, one copy."""
    model = locate(spec.target, "workload")(**spec.options).build_model(SEED)
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def slopes(lines):
    """Memory over logical workers, in gradient copies, by model."""
    found = {}
    for line in lines:
        found.setdefault((line["model"], line["pool"]), []).append(line)
    return {
        key: float(
            np.polyfit([o["logical_workers"] for o in own], [o["peak_bytes"] for o in own], 1)[0]
        )
        / own[0]["gradient_bytes"]
        for key, own in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())
