"""Which reduction and trainer a worker has: those of its own, or of virtual workers."""

from __future__ import annotations

from typing import Protocol

from systems.runtime.mark import Mark
from systems.runtime.reduction import OrderedReduction
from systems.runtime.session import Program, Session
from systems.runtime.trainer import Trainer
from systems.virtual.contexts import Contexts, SeededContexts, StreamContexts
from systems.virtual.slot_reduction import SlotReduction
from systems.virtual.virtual_reduction import VirtualReduction
from systems.virtual.virtual_trainer import VirtualTrainer


class TrainerOrder(Protocol):
    """What orders of all kinds of workers say about virtual workers; ``RuntimeOptions`` has the
    meaning of the options."""

    @property
    def logical_workers(self) -> int:
        """Virtual workers of the job; 0: every worker is one of its own."""
        ...

    @property
    def random_states(self) -> str:
        """``streams`` or ``per_step``."""
        ...

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of each in a step."""
        ...


def ordered_reduction(
    program: Program, num_virtual: int, *, carries_ranks: bool = True
) -> OrderedReduction:
    """The ordered reduction of a worker.

    Args:
        program: what it trains.
        num_virtual: virtual workers of the job, some of which it runs; 0: it is itself one.
        carries_ranks: see ``RuntimeOptions``.
    """
    parts = program.model, program.optimizer, program.device
    if not num_virtual:
        return OrderedReduction(*parts)
    kind = VirtualReduction if carries_ranks else SlotReduction
    return kind(*parts, num_virtual)


def trainer_of(session: Session, mark: Mark, order: TrainerOrder) -> Trainer:
    """The trainer that goes with ``ordered_reduction``."""
    num_virtual = order.logical_workers
    if not num_virtual:
        return Trainer(session, mark)
    contexts: Contexts = SeededContexts(session.seed, session.device)
    if order.random_states == "streams":
        contexts = StreamContexts(session.seed, num_virtual, session.device)
    return VirtualTrainer(session, mark, num_virtual, contexts, order.accumulation_steps)
