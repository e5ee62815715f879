"""Writes the test vectors of ``docs/reference/bits.md``.

    python -m tests.consistency.run_bits --out docs/reference/bits.json

Trains the jobs of ``docs/examples/bits.yaml`` in two live runs, and writes what the runs recorded
beside what each job's training is derived from. ``test_bits.py`` compares the committed file with
what the code gives now, and the worked example in ``docs/reference/bits.md`` with the file.
"""

import argparse
import hashlib
import importlib.metadata
import json
import platform
import re
import sys
import tempfile
from pathlib import Path

import torch
import yaml

from harness.cli import main as harness_main
from harness.configuration.named_classes import locate
from harness.engines.live.consumed_samples import read_consumed, read_lines
from harness.engines.live.job import job_seed
from harness.files.safe_names import file_name
from harness.results.store import load_run, run_paths
from systems.runtime.data.position_order import PositionOrder
from systems.runtime.data.step_seed import step_seed
from systems.runtime.tensors.state import digests, hyper_parameters
from systems.runtime.wire.data_order import Range, epochs_of
from systems.runtime.worker.trainer import Trainer

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "reference" / "bits.json"
PAGE = ROOT / "docs" / "reference" / "bits.md"
EXAMPLES = ROOT / "docs" / "examples"
SEED = 7
STEPS = 3
FEW = 8
"""Ids that are shown of a permutation."""
RUNS = {"static": "per_step", "virtual_thread": "streams"}
"""Backends of the two runs, and the random states that their jobs have."""
SHOWN = "toy-3"
"""The job of the worked example."""


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m tests.consistency.run_bits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=VECTORS, help="file to write")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        runs = {backend: trained(Path(folder) / backend, backend) for backend in RUNS}
    jobs = {job_id: derived(job_id) for job_id in jobs_of_trace()}
    for job_id, job in jobs.items():
        job["runs"] = {backend: found[job_id] for backend, found in runs.items()}
        for found in job["runs"].values():
            assert found.pop("ranges") == job["ranges"], job_id
    vectors = {"seed": SEED, "made_with": made_with(), "jobs": jobs}
    options.out.write_text(written(vectors), encoding="utf-8")
    print(example(vectors))
    return 0


def written(vectors):
    """As JSON, with a line for each key of a job."""
    jobs = [
        f'  "{job_id}": {{\n'
        + ",\n".join(f'   "{key}": {json.dumps(value)}' for key, value in job.items())
        + "\n  }"
        for job_id, job in vectors["jobs"].items()
    ]
    head = [f' "{key}": {json.dumps(vectors[key])}' for key in ("seed", "made_with")]
    text = ",\n".join([*head, ' "jobs": {\n' + ",\n".join(jobs) + "\n }"])
    return f"{{\n{text}\n}}\n"


def made_with():
    """All that the bits of floating-point numbers depend on here."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    names = ("vendor_id", "cpu family", "model", "stepping", "model name", "cache size")
    flags = " ".join(sorted(facts.get("flags", "").split()))
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": importlib.metadata.version("torch"),
        "numpy": importlib.metadata.version("numpy"),
        "libc": " ".join(platform.libc_ver()),
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "processor": {name: facts.get(name) for name in names},
        "flags_sha256": hashlib.sha256(flags.encode()).hexdigest(),
    }


def jobs_of_trace():
    """Rows of the trace, by job."""
    header, *rows = (EXAMPLES / "bits.csv").read_text(encoding="utf-8").split()
    names = header.split(",")
    found = [dict(zip(names, row.split(","), strict=True)) for row in rows]
    return {row["job"]: row for row in found}


def derived(job_id):
    """What a job's training follows from, before anything is trained."""
    row = jobs_of_trace()[job_id]
    pool = yaml.safe_load((EXAMPLES / "bits_pool.yaml").read_text(encoding="utf-8"))["pool"]
    options = dict(pool[row["workload"]])
    target = options.pop("_target_")
    del options["memory_bytes_per_worker"]
    num_workers, batch = int(row["slots"]), int(row["batch"])
    seed = job_seed(SEED, job_id)
    workload = locate(target, "workload", job_id)(**options)
    order = PositionOrder(seed, workload.num_samples)
    plans, state = [], order.initial()
    for _ in range(STEPS):
        plans.append(order.plan(state, num_workers, batch))
        state = plans[-1].after
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    begun = digests(model, optimizer)
    rates = []
    for step in range(STEPS):
        workload.update(optimizer, batch, step)
        rates.append(optimizer.param_groups[0]["lr"])
    part = plans[0].parts[0]
    first = workload.samples(order.ids(part), epochs_of(part))
    return {
        "workload": target,
        "options": options,
        "num_workers": num_workers,
        "global_batch": batch,
        "num_samples": workload.num_samples,
        "job_seed": seed,
        "permutations": {
            str(epoch): order.ids([Range(epoch, 0, FEW)])
            for epoch in range(STEPS * batch // workload.num_samples + 1)
        },
        "ranges": [[[list(piece) for piece in part] for part in plan.parts] for plan in plans],
        "first_ids": [[order.ids(part)[:FEW] for part in plan.parts] for plan in plans],
        "weights": [weight(rank, num_workers, batch) for rank in range(num_workers)],
        "step_seeds": [
            [step_seed(seed, step, rank) for rank in range(num_workers)] for step in range(STEPS)
        ],
        "learning_rates": rates,
        "samples": {name: tensor_facts(value) for name, value in first.items()},
        "digests_before": begun,
        # All state of SGD with momentum and of Adam is tensors: there are no other values.
        "optimizer_json": json.dumps([{}, hyper_parameters(optimizer)], sort_keys=True),
    }


def tensor_facts(tensor):
    """Type, shape and SHA-256 of a tensor's bytes."""
    values = tensor.contiguous().numpy()
    return [
        str(tensor.dtype),
        list(tensor.shape),
        hashlib.sha256(values.tobytes()).hexdigest(),
    ]


def weight(rank, num_workers, batch):
    """What the code multiplies the loss of a worker by."""
    trainer = Trainer(None, None)
    trainer.rank, trainer.num_workers = rank, num_workers
    trainer._set_batch(batch)
    return trainer.weight


def words(folder, backend):
    """Words of the live run on one of the backends."""
    return [
        *(f"results_dir={folder}", "tracking=none", "progress=false", f"seed={SEED}"),
        *(f"trace={EXAMPLES / 'bits.yaml'}", f"workload={EXAMPLES / 'bits_pool.yaml'}"),
        *("cluster=cpu4", "profile=recorded", "scheduler=fifo", "engine=live"),
        *("engine.fast_forward=false", "engine.digest_every=1"),
        *(f"backend={backend}", "backend.start=preimported"),
    ]


def trained(folder, backend, *more):
    """What a live run recorded of every job."""
    code = harness_main([*words(folder, backend), *more])
    assert code == 0, f"the run ended with {code}"
    (path,) = run_paths(folder)
    records = load_run(path).records
    return {job_id: recorded(records, path, job_id) for job_id in jobs_of_trace()}


def recorded(records, run, job_id):
    """Losses, digests and sample ids of one job."""
    job_dir = run / "jobs" / file_name(job_id)
    lines = {line["step"]: line for line in read_lines(job_dir / "steps.jsonl")}
    found = {
        "loss": [step.loss_hex for step in records.steps if step.job_id == job_id],
        "losses": [lines[step].get("losses") for step in sorted(lines)],
        "digests": [{} for _ in range(STEPS)],
    }
    for result in records.evaluations:
        if result.job_id == job_id and result.name.startswith("digest_"):
            found["digests"][result.step - 1][result.name] = result.value
    if found["losses"][0] is None:
        del found["losses"]
    ranges = [[] for _ in range(STEPS)]
    for part in read_consumed(job_dir):
        ranges[part.step - 1].append([list(piece) for piece in part.ranges])
    return found | {"ranges": ranges}


def example(vectors):
    """The worked example of the page: one job, number by number."""
    job = vectors["jobs"][SHOWN]
    static, virtual = (job["runs"][backend] for backend in RUNS)
    lines = [
        f"run seed {vectors['seed']}, job id {SHOWN}",
        f"job seed            {job['job_seed']}",
        f"permutation 0       {' '.join(map(str, job['permutations']['0']))} ...",
    ]
    for rank, (part, ids) in enumerate(zip(job["ranges"][0], job["first_ids"][0], strict=True)):
        ((epoch, start, stop),) = part
        lines += [
            f"step 1, worker {rank}    positions {start} to {stop - 1} of epoch {epoch}:"
            f" ids {' '.join(map(str, ids))} ...",
            f"                    weight {job['weights'][rank]!r},"
            f" random states from {job['step_seeds'][0][rank]}",
        ]
    lines += [f"before step 1       {n} {d}" for n, d in job["digests_before"].items()]
    for step in range(STEPS):
        lines += [
            f"step {step + 1}              learning rate {job['learning_rates'][step]!r}",
            f"  losses            {' '.join(virtual['losses'][step])}",
            f"  loss, static      {static['loss'][step]}",
            f"  loss, virtual     {virtual['loss'][step]}",
            f"  (plain mean       {plain_mean(virtual['losses'][step])})",
        ]
    lines += [f"after step {STEPS}        {n} {d}" for n, d in static["digests"][-1].items()]
    return "\n".join(lines)


def plain_mean(losses):
    """The mean of workers' losses that literal DistributedDataParallel would minimise."""
    return (sum(map(float.fromhex, losses)) / len(losses)).hex()


if __name__ == "__main__":
    sys.exit(main())
