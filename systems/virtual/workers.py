"""Which reduction and trainer a worker has: those of its own, or of virtual workers."""

from __future__ import annotations

from systems.runtime.mark import Mark
from systems.runtime.reduction import OrderedReduction
from systems.runtime.session import Program, Session
from systems.runtime.trainer import Trainer
from systems.virtual.virtual_reduction import VirtualReduction
from systems.virtual.virtual_trainer import VirtualTrainer


def ordered_reduction(program: Program, num_virtual: int) -> OrderedReduction:
    """The ordered reduction of a worker that runs some of ``num_virtual`` workers; 0: itself."""
    parts = program.model, program.optimizer, program.device
    return VirtualReduction(*parts, num_virtual) if num_virtual else OrderedReduction(*parts)


def trainer_of(session: Session, mark: Mark, num_virtual: int) -> Trainer:
    """The trainer that goes with ``ordered_reduction``."""
    return VirtualTrainer(session, mark, num_virtual) if num_virtual else Trainer(session, mark)
