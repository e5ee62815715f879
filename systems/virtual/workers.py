"""Choice of a worker's reduction and trainer: its own, or those for virtual workers."""

from __future__ import annotations

from systems.runtime.reduction.ordered import OrderedReduction
from systems.runtime.wire.work_order import WorkOrder
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Program, Session
from systems.runtime.worker.trainer import Trainer
from systems.virtual.contexts import Contexts, SeededContexts, StreamContexts
from systems.virtual.drawn_samples import DrawnSamples
from systems.virtual.loader_states import LoaderStates
from systems.virtual.slot_reduction import SlotReduction
from systems.virtual.virtual_reduction import VirtualReduction
from systems.virtual.virtual_trainer import VirtualTrainer


def ordered_reduction(
    program: Program, num_virtual: int, *, carries_ranks: bool = True
) -> OrderedReduction:
    """Return the ordered reduction of a worker.

    Args:
        program: program that the worker trains.
        num_virtual: number of virtual workers of the job, some of which this worker runs; 0: none.
        carries_ranks: see ``RuntimeOptions``.
    """
    parts = program.model, program.optimizer, program.device
    if not num_virtual:
        return program.reduction or OrderedReduction(*parts)
    kind = VirtualReduction if carries_ranks else SlotReduction
    return kind(*parts, num_virtual)


def trainer_of(session: Session, mark: PhaseMark, order: WorkOrder) -> Trainer:
    """Return the trainer that belongs to ``ordered_reduction``."""
    num_virtual = order.logical_workers
    if not num_virtual:
        return Trainer(session, mark)
    if order.random_states != "streams":
        contexts: Contexts = SeededContexts(session.seed, session.device)
        return VirtualTrainer(session, mark, num_virtual, contexts, order.accumulation_steps)
    fetchers, states, drawn = session.prefetcher.fetchers, None, None
    if order.drawn_samples and fetchers.num_loaders:
        states = LoaderStates(session.seed, num_virtual, fetchers.num_loaders)
        drawn = DrawnSamples(session.workload, session.data, fetchers, states)
    return VirtualTrainer(
        session,
        mark,
        num_virtual,
        StreamContexts(session.seed, num_virtual, session.device, states),
        order.accumulation_steps,
        drawn,
        draws_in_turn=order.drawn_samples and drawn is None,
    )
