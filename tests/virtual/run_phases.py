"""What does taking turns cost, phase by phase?

    python -m tests.virtual.run_phases --out results/reference/HARDWARE/virtual_phases

Trains every model as several logical workers on one slot or on more, and in the plain way: one
slot accumulates the gradients of the same micro-batches, several have stock
DistributedDataParallel. Both train side by side in the same processes, one on each core, a step of
the one kind and a step of the other in turns, in drawn order, so that a machine that is slower for
a minute is so for both. Adds a line to ``phases.jsonl`` for each model, with the duration of every
step on the first slot and, of virtual workers' steps, of its phases. What is in the file is not
measured again. Ends with medians:

- over plain: the ratio of a step of virtual workers to a plain one (EasyScale: 1.01 at most), and
  the quartiles of the ratios of neighbouring steps;
- switch: random states, buffers and whatever else changes with the turn, over the step (EasyScale,
  section 5.1.3: 0.3 % on average, at most 2 %);
- sums: scaling gradients and adding them up in the order of the ring, over the step, by the C
  kernel where it is compiled (each line says so). Plain accumulation adds gradients up as well,
  within its backward pass, so that only a part of this is extra.
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
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from systems.restart.order import WorkerOrder
from systems.runtime.reduction.ordered import join_alone
from systems.runtime.wire.groups import Group, meet
from systems.runtime.wire.virtual_plan import ranges
from systems.runtime.worker import session as sessions
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.trainer import on_device
from systems.virtual.sum_kernel import load
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
TIMEOUT_S = 300.0
WARM_UP = 3
"""Steps of each kind until layouts are settled and all memory is allocated."""


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
    parser.add_argument("--slots", type=int, default=1, help="as many cores, from 0 (1)")
    parser.add_argument("--batch", type=int, default=32, help="global batch, samples (32)")
    parser.add_argument("--steps", type=int, default=24, help="steps of each kind (24)")
    options = parser.parse_args(argv)
    if unknown := sorted({*options.models} - {*names(options.pool)}):
        parser.error(f"{' '.join(unknown)}: not in the pool {options.pool}")
    if options.logical % options.slots or options.batch % options.logical:
        parser.error("--logical must be a multiple of --slots, and --batch one of --logical")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "phases.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    now = describe(options.out / "machine.json", PROGRAM, list(argv or sys.argv[1:]))
    case = {
        "pool": options.pool,
        "logical_workers": options.logical,
        "slots": options.slots,
        "batch": options.batch,
        "sum_kernel": "torch" if load() is None else "compiled",
    }
    for model in options.models:
        point = {"model": model, **case}
        if any(line | point == line for line in lines):
            continue
        found = measured(workload(options.pool, model), options)
        lines.append({**point, **found, "commit": now["git_commit"]})
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(told(lines[-1]), flush=True)
    return 0


def measured(spec, options):
    """Seconds of the steps of both kinds, in pairs, and of phases of those of virtual workers.

    New processes for each model: libraries keep memory and choices of kernels.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        case = (spec, options.logical, options.slots, options.batch, options.steps, folder)
        slots = [context.Process(target=train, args=(rank, *case)) for rank in range(options.slots)]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        if any(slot.exitcode for slot in slots):
            raise SystemExit(f"a slot ended with {[slot.exitcode for slot in slots]}")
        return json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))


def train(rank, spec, num_workers, num_slots, batch, num_steps, folder):
    """What one slot does; the first one writes down how long it took."""
    os.sched_setaffinity(0, {rank})
    drawn = random.Random(f"{spec.target} {num_workers} {num_slots}")  # the same on all slots
    pair = Pair(rank, spec, num_workers, num_slots, batch, folder)
    for _ in range(WARM_UP):
        pair.virtual()
        pair.plain()
    pair.watch()
    steps_s, phases_s = {"virtual": [], "plain": []}, defaultdict(list)
    for _ in range(num_steps):
        for kind in drawn.sample(("virtual", "plain"), 2):
            pair.spent_s.clear()
            began = time.perf_counter()
            getattr(pair, kind)()
            steps_s[kind].append(time.perf_counter() - began)
            for phase, spent_s in pair.spent_s.items():
                phases_s[phase].append(spent_s)
    pair.trainer.close()
    if rank == 0:
        found = {f"{kind}_s": own for kind, own in steps_s.items()} | {"phases_s": phases_s}
        Path(folder, "found.json").write_text(json.dumps(found), encoding="utf-8")
    pair.meet_again()
    os._exit(0)  # taking torch's threads down can fail


class Pair:
    """The same program twice in one process: of virtual workers, and as one would write it."""

    def __init__(self, rank, spec, num_workers, num_slots, batch, folder, device="cpu"):
        order = WorkerOrder(
            job_id="job", generation=1, rank=rank, num_workers=num_slots, num_slots=num_slots,
            workload=spec.target, options=spec.options, seed=SEED, global_batch=batch,
            target_step=0, job_dir=folder, checkpoint=None, checkpoint_every=0,
            digest_every=0, device=device, device_type=device, own_device=False,
            num_threads=1, address="", collective_timeout_s=TIMEOUT_S, replay_layout=True,
            logical_workers=num_workers, random_states="streams",
        )  # fmt: skip
        join_alone()
        self._store = dist.FileStore(f"{folder}/store", num_slots)
        group = Group(1, 0, 1, None)
        if num_slots > 1:
            group = meet(self._store, 1, rank, num_slots, TIMEOUT_S)
        self._rank, self._num_slots = rank, num_slots
        workload_class = sessions.import_workload(order)
        program = sessions.build(order, workload_class)
        self.reduction = ordered_reduction(program, num_workers)
        self.session = sessions.begin(order, program, self.reduction)
        self.trainer = trainer_of(self.session, PhaseMark(None), order)
        self.reduction.attach(group)
        counts = (num_workers // num_slots,) * num_slots
        self.trainer.set_share(rank, num_slots, batch, 1, counts)
        self.reduction.warm_up(self.trainer.dummy_loss)
        self.spent_s = defaultdict(float)
        self._local = ranges(counts)[rank]
        self._batch, self._size = batch, batch // num_workers
        self._plain = sessions.build(order, workload_class)
        self._model, self._hold = self._plain.model, nullcontext
        if num_slots > 1:
            self._model = DistributedDataParallel(
                self._model, process_group=stock_group(self._store, rank, num_slots)
            )
            self._hold = self._model.no_sync

    def virtual(self):
        """A step of virtual workers, one after the other on each slot."""
        self.trainer.compute()
        self.trainer.commit()

    def plain(self):
        """A step in which gradients are accumulated, and reduced by stock code."""
        session, optimizer = self.session, self._plain.optimizer
        optimizer.zero_grad()
        plan = self.trainer.plan()
        batch = session.prefetcher.batch(plan, self._local, self._batch)
        for number in range(len(self._local)):
            cut = slice(number * self._size, (number + 1) * self._size)
            part = {name: value[cut] for name, value in batch.items()}
            part = on_device(part, session.device)
            is_last = number == len(self._local) - 1
            with nullcontext() if is_last else self._hold():
                loss = session.workload.loss(self._model, part)
                torch.autograd.backward(loss * (1 / len(self._local)))
        session.workload.update(optimizer, self._batch, session.step, session.data_state.consumed)

    def settle(self):
        """Wait for the device."""
        if self.session.device.type == "cuda":
            torch.cuda.synchronize()

    def watch(self):
        """From now on add up what phases take; on a device each waits for what was asked of it."""
        trainer, reduction = self.trainer, self.reduction
        parts = [
            (trainer._contexts, ("enter", "leave", "begin_gather", "end_gather"), "contexts"),
            (reduction, ("begin_worker", "after_forward"), "buffers"),
            (reduction, ("begin_step", "begin", "finish"), "around"),
            (trainer, ("commit",), "update"),
        ]
        if reduction._gradients is not None:
            parts.append((reduction._gradients, ("take", "end_worker"), "sums"))
        for thing, calls, phase in parts:
            for name in calls:
                setattr(thing, name, partial(self._timed, getattr(thing, name), phase))

    def _timed(self, call, phase, *words):
        self.settle()
        began = time.perf_counter()
        try:
            return call(*words)
        finally:
            self.settle()
            self.spent_s[phase] += time.perf_counter() - began

    def meet_again(self):
        """All slots are done with each other."""
        self._store.set(f"done/{self._rank}", "")
        self._store.wait([f"done/{rank}" for rank in range(self._num_slots)])


def stock_group(store, rank, size):
    """A process group beside the default one, which is this process alone here."""
    keys = dist.PrefixStore("stock", store)
    group = dist.ProcessGroup(keys, rank, size)
    gloo = dist.ProcessGroupGloo(keys, rank, size, timedelta(seconds=TIMEOUT_S))
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    return group


def told(line):
    """One model's numbers for a person."""
    virtual_s, plain_s = np.array(line["virtual_s"]), np.array(line["plain_s"])
    low, high = np.percentile(virtual_s / plain_s, (25, 75))
    step_s = np.median(virtual_s)
    shares = {phase: np.median(own) / step_s for phase, own in line["phases_s"].items()}
    switch = sum(shares.get(phase, 0.0) for phase in SWITCH)
    return (
        f"{line['pool']}/{line['model']}, {line['logical_workers']} logical workers on"
        f" {line['slots']}, {len(virtual_s)} pairs: plain {1000 * np.median(plain_s):.1f} ms, over"
        f" plain {step_s / np.median(plain_s):.4f} (pairs {low:.3f} to {high:.3f}), switch"
        f" {100 * switch:.2f} %, sums {100 * shares.get('sums', 0.0):.2f} %, update"
        f" {100 * shares['update']:.2f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
