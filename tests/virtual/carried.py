"""What a change of slots must carry, and how to lose it on the way.

``REMOVE`` takes out what a worker that takes a job over is given; ``tests.virtual.without`` what it
does with it.
"""

import torch

from systems.runtime.worker.session import Session
from systems.virtual.contexts import StreamContexts
from systems.virtual.virtual_reduction import VirtualReduction


def _random_states():
    StreamContexts.adopt = lambda contexts, values: None


def _position():
    def adopt(session, values):
        usual(session, values)
        session.data_state = session.data.initial()

    usual, Session.adopt = Session.adopt, adopt


def _fresh(kept):
    """Some of the model's tensors are those that it was built with."""

    @torch.no_grad()
    def adopt(session, values):
        usual(session, values)
        built = session.workload.build_model(session.seed)
        for mine, fresh in zip(kept(session.model), kept(built), strict=True):
            mine.copy_(fresh)

    usual, Session.adopt = Session.adopt, adopt


def _optimizer():
    def adopt(session, values):
        usual(session, values)
        session.optimizer.state.clear()

    usual, Session.adopt = Session.adopt, adopt


def _layout():
    """The first step after the change has the buckets of a job's very first one."""

    def assign(reduction, counts):
        assigned(reduction, counts)
        reduction.is_new = True

    def begin_step(reduction, step):
        begun(reduction, step)
        if reduction.is_new:
            reduction._by_hand = True
            reduction._use(reduction.first_layout, reduction.first_places)

    def commit(reduction):
        committed(reduction)
        reduction.is_new = False

    assigned, VirtualReduction.assign = VirtualReduction.assign, assign
    begun, VirtualReduction.begin_step = VirtualReduction.begin_step, begin_step
    committed, VirtualReduction.commit = VirtualReduction.commit, commit


REMOVE = {
    "the state before the step": lambda: _fresh(torch.nn.Module.parameters),
    "data order": _position,
    "random state (torch, numpy, python)": _random_states,
    "buffers": lambda: _fresh(torch.nn.Module.buffers),
    "bucket layout": _layout,
    "update": _optimizer,
}
"""By what the comparison should name."""
