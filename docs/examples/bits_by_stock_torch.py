"""Train the jobs of the test vectors with stock torch, and compare every value with the file.

    python docs/examples/bits_by_stock_torch.py --vectors docs/reference/bits.json

Written from docs/reference/bits.md alone: seeds, samples and sums follow that page. The script
imports the classes of the workloads, as the page allows, and nothing else of the project.

Each value has a line, "PASS job step what" or "FAIL job step what: ..."; a value of no single step
has "-" in place of the step. The exit code is 0 if all values agree, and 1 if some differ.
"""

import os

# Before the imports of numpy and torch, which read it: more threads round differently.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import argparse
import datetime
import hashlib
import importlib
import json
import random
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

VECTORS = Path(__file__).parents[1] / "reference" / "bits.json"
KINDS = {"static": "per_step", "virtual_thread": "streams"}
"""Random states of each kind of run."""
TIMEOUT = datetime.timedelta(minutes=10)
"""Longest wait for another worker: a slow machine may need minutes to import torch."""


def make_job_seed(run_seed: int, job_id: str) -> int:
    """Derive the seed of a job from the seed of its run."""
    return zlib.crc32(f"{run_seed}/job/{job_id}".encode())


def make_step_seed(job_seed: int, step: int, worker: int) -> int:
    """Derive the seed of a worker in a step; steps count from 0."""
    text = f"step/{job_seed}/{step}/{worker}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def set_random_states(seed: int) -> None:
    """Set the random states of torch, numpy and Python."""
    torch.manual_seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)


def permute(job_seed: int, epoch: int, num_samples: int) -> list[int]:
    """List the sample ids of an epoch in the order in which the job consumes them."""
    generator = numpy.random.default_rng([job_seed, zlib.crc32(b"data order"), epoch])
    ids: list[int] = generator.permutation(num_samples).tolist()
    return ids


def cut(count: int, parts: int) -> list[int]:
    """Cut a number of positions into shares; the first ones take what is left over."""
    base, rest = divmod(count, parts)
    return [base + 1 if part < rest else base for part in range(parts)]


class Order:
    """The samples that each worker of a job consumes in each step."""

    def __init__(self, job_seed: int, num_samples: int, batch: int, workers: int) -> None:
        self.job_seed, self.num_samples, self.batch = job_seed, num_samples, batch
        self.shares = cut(batch, workers)
        self.permutations: dict[int, list[int]] = {}

    def permutation(self, epoch: int) -> list[int]:
        """Give the permutation of an epoch, made at its first use."""
        if epoch not in self.permutations:
            self.permutations[epoch] = permute(self.job_seed, epoch, self.num_samples)
        return self.permutations[epoch]

    def consume(self, step: int, worker: int) -> tuple[list[int], list[int]]:
        """List the ids that a worker consumes in a step, and the epoch of each."""
        start = step * self.batch + sum(self.shares[:worker])
        positions = range(start, start + self.shares[worker])
        places = [divmod(position, self.num_samples) for position in positions]
        ids = [self.permutation(epoch)[place] for epoch, place in places]
        return ids, [epoch for epoch, _ in places]

    def ranges(self, step: int, worker: int) -> list[list[int]]:
        """List a worker's ranges in a step, each as its epoch, start and stop."""
        start = step * self.batch + sum(self.shares[:worker])
        stop, ranges = start + self.shares[worker], []
        while start < stop:
            epoch, place = divmod(start, self.num_samples)
            length = min(stop - start, self.num_samples - place)
            ranges.append([epoch, place, place + length])
            start += length
        return ranges


def digest(tensors: dict[str, torch.Tensor], values: Any = None) -> str:
    """Hash named tensors, and values as JSON."""
    state = hashlib.blake2b(digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    if values is not None:
        state.update(json.dumps(values, sort_keys=True).encode())
    return state.hexdigest()


def split_optimizer(
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Split an optimizer into named tensors, and its other values with the groups' options."""
    tensors: dict[str, torch.Tensor] = {}
    others: dict[str, dict[str, Any]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"{number}/{key}"] = value
            else:
                others.setdefault(str(number), {})[key] = value
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    return tensors, [others, groups]


def digest_all(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Make the three digests of a worker's state."""
    return {
        "digest_parameters": digest(dict(model.named_parameters())),
        "digest_buffers": digest(dict(model.named_buffers())),
        "digest_optimizer": digest(*split_optimizer(optimizer)),
    }


def describe(batch: dict[str, torch.Tensor]) -> dict[str, list[Any]]:
    """Give type, shape and SHA-256 of each tensor of a batch."""
    return {
        name: [
            str(tensor.dtype),
            list(tensor.shape),
            hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest(),
        ]
        for name, tensor in batch.items()
    }


def make_workload(job: dict[str, Any]) -> Any:
    """Make the workload of a job from its class and options."""
    module, _, name = job["workload"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**job["options"])


def learning_rate(workload: Any, options: dict[str, Any], batch: int, step: int) -> float:
    """Compute the learning rate of a step, which counts from 0."""
    recipe = workload.sizes[workload.size].recipe

    def number(name: str) -> Any:
        given = options.get(name)
        return getattr(recipe, name) if given is None else given

    rate: float = number("learning_rate") * batch / recipe.reference_batch
    if number("gamma") != 1.0:
        epochs = step * batch / workload.num_samples
        rate *= number("gamma") ** (epochs // number("decay_epochs"))
    if number("warmup_steps"):
        rate *= min(1.0, (step + 1) / number("warmup_steps"))
    return rate


def train(worker: int, job: dict[str, Any], job_seed: int, kind: str) -> dict[str, Any]:
    """Train a job as one worker of a process group that exists, and report what the steps gave."""
    workers, batch_size = job["num_workers"], job["global_batch"]
    workload = make_workload(job)
    order = Order(job_seed, workload.num_samples, batch_size, workers)
    share = order.shares[worker]
    model = workload.build_model(job_seed)
    optimizer = workload.build_optimizer(model)
    report: dict[str, Any] = {key: [] for key in ("losses", "sums", "digests", "learning_rates")}
    report["digests_before"] = digest_all(model, optimizer)
    ddp = DistributedDataParallel(model)
    if KINDS[kind] == "streams":
        set_random_states(make_step_seed(job_seed, 0, worker))
    for step in range(len(job["runs"][kind]["loss"])):
        if KINDS[kind] == "per_step":
            set_random_states(make_step_seed(job_seed, step, worker))
        optimizer.zero_grad()
        batch = workload.samples(*order.consume(step, worker))
        if step == 0:
            report["samples"] = describe(batch)
        loss = workload.loss(ddp, batch)
        (loss * (share * workers / batch_size)).backward()
        workload.update(optimizer, batch_size, step)
        own = float(loss.detach())
        losses = [torch.zeros(1, dtype=torch.float64) for _ in range(workers)]
        torch.distributed.all_gather(losses, torch.tensor([own], dtype=torch.float64))
        total = torch.tensor([0.0, 0.0, own * (share / batch_size)], dtype=torch.float64)
        torch.distributed.all_reduce(total)
        report["losses"].append([float(value).hex() for value in losses])
        report["sums"].append(float(total[2]).hex())
        report["digests"].append(digest_all(model, optimizer))
        report["learning_rates"].append([group["lr"] for group in optimizer.param_groups])
    report["optimizer_json"] = json.dumps(split_optimizer(optimizer)[1], sort_keys=True)
    return report


def run_worker(worker: int, jobs: dict[str, Any], run_seed: int, folder: str) -> None:
    """Train as one worker of every job that has so many, under each kind of run.

    One process serves all jobs because importing torch takes longer than training them. Each
    training has a process group of its own. Worker 0 writes the reports.
    """
    torch.set_num_threads(1)
    groups = []
    reports: dict[str, dict[str, Any]] = {name: {} for name in jobs}
    for number, (name, job) in enumerate(jobs.items()):
        for kind in KINDS if worker < job["num_workers"] else ():
            torch.distributed.init_process_group(
                "gloo",
                f"file://{folder}/{number}-{kind}",
                rank=worker,
                world_size=job["num_workers"],
                timeout=TIMEOUT,
            )
            groups.append(torch.distributed.group.WORLD)
            reports[name][kind] = train(worker, job, make_job_seed(run_seed, name), kind)
            torch.distributed.barrier()
            torch.distributed.destroy_process_group()
    if worker == 0:
        Path(folder, "reports.json").write_text(json.dumps(reports), encoding="utf-8")
    # No group is freed before the process ends. That would wait, with the interpreter's lock held,
    # for threads of gloo that may need this lock to free a tensor (torch 2.13).
    os._exit(0)


def train_all(jobs: dict[str, Any], run_seed: int) -> dict[str, Any]:
    """Train jobs under both kinds; return the reports of worker 0 by job and kind."""
    with tempfile.TemporaryDirectory() as folder:
        most = max(job["num_workers"] for job in jobs.values())
        torch.multiprocessing.spawn(run_worker, (jobs, run_seed, folder), nprocs=most)
        reports: dict[str, Any] = json.loads(
            Path(folder, "reports.json").read_text(encoding="utf-8")
        )
    return reports


def add_from_left(terms: list[float]) -> float:
    """Add numbers from left to right without compensation, as Python's sum did before 3.12."""
    total = terms[0]
    for term in terms[1:]:
        total += term
    return total


def mean_static(losses: list[float], shares: list[int]) -> float:
    """Take the mean as gloo adds it up: worker 0, then the last, then the others downwards."""
    terms = [loss * (share / sum(shares)) for loss, share in zip(losses, shares, strict=True)]
    return add_from_left(terms[:1] + terms[:0:-1])


def mean_virtual(losses: list[float], shares: list[int], python: str) -> float:
    """Take the mean with Python's sum.

    From Python 3.12 on that sum compensates rounding. So vectors of such a Python need one here.
    """
    terms = [share * loss for loss, share in zip(losses, shares, strict=True)]
    old = tuple(map(int, python.split(".")[:2])) < (3, 12)
    return (add_from_left(terms) if old else sum(terms)) / sum(shares)


class Comparison:
    """A comparison value by value, which prints a line for each and counts those that differ."""

    def __init__(self) -> None:
        self.failures = 0

    def check(self, job: str, step: int | str, what: str, have: Any, want: Any) -> None:
        """Compare a value with the vectors'."""
        same = have == want
        self.failures += not same
        difference = "" if same else f": have {have}, want {want}"
        print("PASS" if same else "FAIL", job, step, what + difference, flush=True)


def check_derived(compare: Comparison, name: str, job: dict[str, Any], run_seed: int) -> None:
    """Compare what follows from seeds and sizes, without any training."""
    job_seed, workers = make_job_seed(run_seed, name), job["num_workers"]
    compare.check(name, "-", "job_seed", job_seed, job["job_seed"])
    workload = make_workload(job)
    num_samples = workload.num_samples
    compare.check(name, "-", "num_samples", num_samples, job["num_samples"])
    order = Order(job_seed, num_samples, job["global_batch"], workers)
    weights = [share * workers / job["global_batch"] for share in order.shares]
    compare.check(name, "-", "weights", weights, job["weights"])
    for step in range(len(job["runs"]["static"]["loss"])):
        rate = learning_rate(workload, job["options"], job["global_batch"], step)
        compare.check(name, step + 1, "learning_rate", rate, job["learning_rates"][step])
        ids = [order.consume(step, worker)[0][:8] for worker in range(workers)]
        ranges = [order.ranges(step, worker) for worker in range(workers)]
        seeds = [make_step_seed(job_seed, step, worker) for worker in range(workers)]
        compare.check(name, step + 1, "step_seeds", seeds, job["step_seeds"][step])
        compare.check(name, step + 1, "ranges", ranges, job["ranges"][step])
        compare.check(name, step + 1, "first_ids", ids, job["first_ids"][step])
    touched = {str(epoch): ids[:8] for epoch, ids in sorted(order.permutations.items())}
    compare.check(name, "-", "permutations", touched, job["permutations"])


def check_trained(
    compare: Comparison, name: str, job: dict[str, Any], reports: dict[str, Any], python: str
) -> None:
    """Compare samples, losses and digests of a job under both kinds."""
    shares = cut(job["global_batch"], job["num_workers"])
    for kind, report in reports.items():
        want = job["runs"][kind]

        def check(step: int | str, what: str, have: Any, want: Any, kind: str = kind) -> None:
            compare.check(name, step, f"{kind} {what}", have, want)

        check("-", "digests_before", report["digests_before"], job["digests_before"])
        check(1, "samples", report["samples"], job["samples"])
        for index, loss in enumerate(want["loss"]):
            step = index + 1
            losses = [float.fromhex(text) for text in report["losses"][index]]
            if "losses" in want:
                check(step, "losses", report["losses"][index], want["losses"][index])
            if kind == "static":
                check(step, "loss (gloo)", report["sums"][index], loss)
                mean = mean_static(losses, shares)
            else:
                mean = mean_virtual(losses, shares, python)
            check(step, "loss", mean.hex(), loss)
            rates = report["learning_rates"][index]
            check(step, "learning_rate", rates, [job["learning_rates"][index]] * len(rates))
            for key, value in want["digests"][index].items():
                check(step, key, report["digests"][index][key], value)
        check("-", "optimizer_json", report["optimizer_json"], job["optimizer_json"])


def main() -> int:
    """Compare jobs of the test vectors."""
    parser = argparse.ArgumentParser(
        description="Compare stock torch with the test vectors of docs/reference/bits.md."
    )
    parser.add_argument("--vectors", type=Path, default=VECTORS, metavar="PATH")
    parser.add_argument("--jobs", nargs="+", metavar="NAME", help="jobs to compare; else all")
    options = parser.parse_args()
    try:
        vectors = json.loads(options.vectors.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"--vectors {options.vectors}: {error}")
    known = vectors["jobs"]
    names = list(known) if options.jobs is None else options.jobs
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"--jobs: {', '.join(unknown)} not in the file; known: {', '.join(known)}")
    jobs, compare = {name: known[name] for name in names}, Comparison()
    for name, job in jobs.items():
        check_derived(compare, name, job, vectors["seed"])
    reports = train_all(jobs, vectors["seed"])
    for name, job in jobs.items():
        check_trained(compare, name, job, reports[name], vectors["made_with"]["python"])
    folder = Path(str(sys.modules["workloads"].__file__)).parent
    print(f"workloads from {folder}; {compare.failures} failures", file=sys.stderr)
    return 1 if compare.failures else 0


if __name__ == "__main__":
    sys.exit(main())
