"""The tiny workload, in workers that lack one ingredient of bitwise equality.

Its constructor runs in the worker's process before anything is built there, and takes the
ingredient out of that process; the code itself has no switch for that.
"""

import random
from pathlib import Path

import numpy as np
import torch

from systems.runtime.data.random_states import ProcessRandom
from systems.runtime.wire.data_order import Plan
from systems.virtual import copied_gradients, ordered_sum, running_sum, sum_kernel
from systems.virtual.contexts import StreamContexts
from systems.virtual.virtual_reduction import VirtualReduction
from systems.virtual.virtual_trainer import VirtualTrainer
from tests.backends.tiny_workload import Tiny
from tests.virtual import carried as carried_on


class Noisy(Tiny):
    """Its loss draws from every random state that there is."""

    def loss(self, model, batch):
        noise = random.gauss(0, 0.1) + np.random.randn() * 0.1 + torch.randn(()) * 0.1
        return super().loss(model, batch) * (1 + noise)


class Without(Noisy):
    """``ingredient``: what to take out of this process; a key of ``REMOVE``. ``once``: a file; only
    processes that begin once it is there lack the ingredient. ``carried``: it is one of what a
    change of slots carries (``tests.virtual.carried``)."""

    def __init__(self, ingredient, once=None, carried=False, **options):
        if once is None or Path(once).exists():
            (carried_on.REMOVE if carried else REMOVE)[ingredient]()
        super().__init__(**options)


def _data_order():
    def plan(trainer):
        found = usual(trainer)
        return Plan(found.parts[1:] + found.parts[:1], found.after)

    usual, VirtualTrainer.plan = VirtualTrainer.plan, plan


def _keep(name):
    """A virtual worker goes on with what the one before it left of one random state."""

    def write(process, states):
        now = process.read()
        usual(process, states)
        if name == "torch":
            torch.default_generator.set_state(now.torch_cpu)
        elif name == "python":
            process._python.write(now.python_bits, now.python_gauss)
        else:
            usual(process, type(states)(*_with_numpy(states, now)))

    usual, ProcessRandom.write = ProcessRandom.write, write


def _with_numpy(states, now):
    parts = (states.torch_cpu, states.torch_device, states.python_bits, states.python_gauss)
    return (*parts, now.numpy_bits, now.numpy_gauss)


def _buffers():
    def begin_worker(reduction, worker):
        boundary = reduction._boundary
        reduction._boundary = reduction.buffers.gather().clone()
        usual(reduction, worker)
        reduction._boundary = boundary

    usual, VirtualReduction.begin_worker = VirtualReduction.begin_worker, begin_worker


def _layout():
    def begin_step(reduction, step):
        reduction.first_layout, reduction.first_places = reduction.layout, reduction._places
        usual(reduction, step)

    usual, VirtualReduction.begin_step = VirtualReduction.begin_step, begin_step


def _division():
    def scale(gradient, num_workers, out):
        torch.div(gradient, num_workers, out=out)

    sum_kernel.scale = copied_gradients.scale = scale
    sum_kernel._KERNEL = None


def _order():
    def in_turn(numel, element_bytes, num_workers):
        chunks = usual(numel, element_bytes, num_workers)
        order = tuple(reversed(range(num_workers)))
        return [type(c)(c.start, c.stop, order) for c in chunks]

    usual = ordered_sum.ring_chunks
    ordered_sum.ring_chunks = running_sum.ring_chunks = in_turn


def _threads():
    torch.set_num_threads(2)
    torch.set_num_threads = lambda number: None


def _streams():
    def enter(contexts, worker, step):
        contexts._process.read()

    StreamContexts.enter = enter


REMOVE = {
    "nothing": lambda: None,
    "data order": _data_order,
    "random state (torch": lambda: _keep("torch"),
    "random state (numpy": lambda: _keep("numpy"),
    "random state (python": lambda: _keep("python"),
    "random state": _streams,
    "buffers": _buffers,
    "bucket layout": _layout,
    "division": _division,
    "reduction order": _order,
    "kernel": _threads,
}
"""By the part of the stack that the comparison should name."""
