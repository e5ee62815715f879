"""What does taking turns cost, phase by phase?

    python -m tests.virtual.run_phases --out results/reference/HARDWARE/virtual_phases

Trains every model as several logical workers on one slot, and with plain accumulation of the
gradients of the same micro-batches: the same model and optimizer in one process on one core, a
step of the one kind and a step of the other in turns, in drawn order, so that a machine that is
slower for a minute is so for both. Adds a line to ``phases.jsonl`` for each model, with the
duration of every step and, of virtual workers' steps, of its phases. What is in the file is not
measured again. Ends with medians:

- over plain: the ratio of a step of virtual workers to one of plain accumulation (EasyScale: 1.01
  at most), and the quartiles of the ratios of neighbouring steps;
- switch: random states, buffers and whatever else changes with the turn, over the step (EasyScale,
  section 5.1.3: 0.3 % on average, at most 2 %);
- sums: scaling gradients and adding them up in the order of the ring, over the step. Plain
  accumulation adds gradients up as well, within its backward pass, so that only a part of this
  is extra.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

from systems.runtime import session as sessions
from systems.runtime.mark import Mark
from systems.runtime.order import WorkerOrder
from systems.runtime.reduction import join_alone
from systems.virtual.workers import ordered_reduction, trainer_of
from tests.elastic.run_lives import describe
from tests.virtual.run_memory import names, workload

PROGRAM = "tests.virtual.run_phases"
MODELS = (
    *("resnet50", "vgg16", "bert", "transformer", "vgg19", "shufflenetv2", "electra", "ncf"),
    *("swin_t", "gpt2"),
)
SWITCH = ("contexts", "buffers")
SEED = 7


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of phases.jsonl")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--pool", default="small", help="option of the group workload")
    parser.add_argument("--logical", type=int, default=4, help="logical workers (4)")
    parser.add_argument("--batch", type=int, default=32, help="global batch, samples (32)")
    parser.add_argument("--steps", type=int, default=24, help="steps of each kind (24)")
    parser.add_argument("--core", type=int, default=0, help="core to stay on (0)")
    options = parser.parse_args(argv)
    if unknown := sorted({*options.models} - {*names(options.pool)}):
        parser.error(f"{' '.join(unknown)}: not in the pool {options.pool}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "phases.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    os.sched_setaffinity(0, {options.core})
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    known = [(line["model"], line["pool"], line["logical_workers"]) for line in lines]
    for model in options.models:
        if (model, options.pool, options.logical) in known:
            continue
        # A process for each: libraries keep memory and choices of kernels from model to model.
        spec = workload(options.pool, model)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            task = alone.submit(measured, spec, options.logical, options.batch, options.steps)
            found = task.result()
        line = {"model": model, "pool": options.pool, "logical_workers": options.logical}
        lines.append({**line, "batch": options.batch, **found, "commit": now["git_commit"]})
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(told(lines[-1]), flush=True)
    return 0


def measured(spec, num_workers, batch, num_steps):
    """Seconds of the steps of both kinds, in pairs, and of phases of those of virtual workers."""
    drawn = random.Random(f"{spec.target} {num_workers}")
    with tempfile.TemporaryDirectory() as name:
        pair = Pair(spec, num_workers, batch, Path(name))
        try:
            for _ in range(2):  # layouts, and memory that is allocated once
                pair.virtual()
                pair.plain()
            pair.watch()
            virtual_s, plain_s, phases_s = [], [], defaultdict(list)
            for _ in range(num_steps):
                for kind in drawn.sample(("virtual", "plain"), 2):
                    began = time.perf_counter()
                    if kind == "plain":
                        pair.plain()
                        plain_s.append(time.perf_counter() - began)
                        continue
                    pair.spent_s.clear()
                    pair.virtual()
                    virtual_s.append(time.perf_counter() - began)
                    for phase, spent_s in pair.spent_s.items():
                        phases_s[phase].append(spent_s)
        finally:
            pair.trainer.close()
    return {"virtual_s": virtual_s, "plain_s": plain_s, "phases_s": dict(phases_s)}


class Pair:
    """One model, one optimizer, two ways to make a step."""

    def __init__(self, spec, num_workers, batch, folder):
        order = WorkerOrder(
            job_id="job", generation=1, rank=0, num_workers=1, num_slots=1,
            workload=spec.target, options=spec.options, seed=SEED, global_batch=batch,
            target_step=0, job_dir=str(folder), checkpoint=None, checkpoint_every=0,
            digest_every=0, step_floor_s=0.0, device="cpu", device_type="cpu", own_device=False,
            num_threads=1, address="", collective_timeout_s=60.0, replay_layout=True,
            logical_workers=num_workers, random_states="streams",
        )  # fmt: skip
        join_alone()
        program = sessions.build(order, sessions.import_workload(order))
        self.reduction = ordered_reduction(program, num_workers)
        self.session = sessions.begin(order, program, self.reduction)
        self.trainer = trainer_of(self.session, Mark(None), order)
        self.reduction.attach(None)
        self.trainer.set_share(0, 1, batch, 1, (num_workers,))
        self.reduction.warm_up(self.trainer.dummy_loss)
        self.num_workers, self.batch = num_workers, batch
        self.spent_s = defaultdict(float)

    def virtual(self):
        """A step of virtual workers, one after the other."""
        self.trainer.compute()
        self.trainer.commit()

    def plain(self):
        """A step in which gradients are accumulated, as one would write it by hand."""
        session, optimizer = self.session, self.session.optimizer
        optimizer.zero_grad()
        plan = self.trainer.plan()
        batch = session.prefetcher.batch(plan, (*range(self.num_workers),), self.batch)
        size = self.batch // self.num_workers
        for start in range(0, self.batch, size):
            part = {name: value[start : start + size] for name, value in batch.items()}
            loss = session.workload.loss(session.model, part)
            torch.autograd.backward(loss * (1 / self.num_workers))
        session.workload.update(optimizer, self.batch, session.step, session.data_state.consumed)
        optimizer.zero_grad()

    def watch(self):
        """From now on add up what phases take."""
        trainer, reduction = self.trainer, self.reduction
        for thing, calls, phase in (
            (trainer._contexts, ("enter", "leave", "begin_gather", "end_gather"), "contexts"),
            (reduction, ("begin_worker", "after_forward"), "buffers"),
            (reduction._gradients, ("take", "end_worker"), "sums"),
            (reduction, ("begin_step", "begin", "finish"), "around"),
            (trainer, ("commit",), "update"),
        ):
            for name in calls:
                setattr(thing, name, self._timed(getattr(thing, name), phase))

    def _timed(self, call, phase):
        def timed(*words):
            began = time.perf_counter()
            try:
                return call(*words)
            finally:
                self.spent_s[phase] += time.perf_counter() - began

        return timed


def told(line):
    """One model's numbers for a person."""
    virtual_s, plain_s = np.array(line["virtual_s"]), np.array(line["plain_s"])
    low, high = np.percentile(virtual_s / plain_s, (25, 75))
    step_s = np.median(virtual_s)
    shares = {phase: np.median(own) / step_s for phase, own in line["phases_s"].items()}
    switch = sum(shares.get(phase, 0.0) for phase in SWITCH)
    return (
        f"{line['pool']}/{line['model']}, {line['logical_workers']} logical workers,"
        f" {len(virtual_s)} pairs: plain {1000 * np.median(plain_s):.1f} ms, over plain"
        f" {step_s / np.median(plain_s):.4f} (pairs {low:.3f} to {high:.3f}), switch"
        f" {100 * switch:.2f} %, sums {100 * shares['sums']:.2f} %, update"
        f" {100 * shares['update']:.2f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
