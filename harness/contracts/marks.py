"""Marks: the present activity of each worker, for fault injection at a chosen moment.

A worker whose order names a file for its mark keeps its activity there, mapped into memory. A new
activity is one stored byte, without a system call or a message. Another process of the same host
that maps the file sees the change at once. It still sees the last activity after the worker was
killed, more exactly than any message could tell.

The file has ``SIZE`` bytes and belongs to one process. It is complete from the moment it has its
name. Nothing in a job depends on its mark.
"""

from __future__ import annotations

import struct
from enum import IntEnum


class WorkerPhase(IntEnum):
    """Activities of a worker. Each lasts until the next is stored."""

    START = 0
    """Start of the process, before it has a mark."""
    PREPARE = 1
    """Preparation after the order came: imports, model, warm-up, and meeting the other founders."""
    COPY = 2
    """Join of a job that trains: the worker waits for the state, takes it, and enters. Where all
    workers start again, the worker reads the state from a checkpoint."""
    BETWEEN = 3
    """Time between two steps: logs, reports, and whatever has no activity of its own."""
    FORWARD = 4
    """Fetch of the samples, and the forward pass."""
    BACKWARD = 5
    """Backward pass, with the all-reduce of gradients that runs meanwhile."""
    REDUCE = 6
    """Wait for the rest of the all-reduce, and for the messages of the other workers."""
    UPDATE = 7
    """Commit of the step: the optimizer changes the parameters."""
    SWITCH = 8
    """Switch from one membership to the next."""
    RECOVER = 9
    """Recovery after another worker's death, from the loss of the process group to the next one."""
    LEAVE = 10
    """Exit after the last step: results and farewells."""
    SAVE = 11
    """Write of a checkpoint, between two steps or after the last one."""

    __hash__ = int.__hash__


LAYOUT = struct.Struct("<BBBxI")
"""Fields of a mark: the activity (``WorkerPhase``); 1 if the worker leads the job now; 1 if it is
the first worker (rank 0) now. The last field is its process id on this host."""
SIZE = LAYOUT.size
DOING, LEADS, IS_FIRST = 0, 1, 2
"""Byte offsets of the three fields that change."""
