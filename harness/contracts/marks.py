"""Marks: what a worker is doing at this moment, for whoever strikes it at a chosen one.

A worker whose order names a file for its mark keeps there, mapped into its memory, what it is
doing now. A change of it is one byte stored: no call to the system, no message. Another
process of the same host that has mapped the file sees it at once, and still sees the last one
when the worker has been killed, which no message could tell as exactly.

The file is ``SIZE`` bytes and belongs to one process; it is complete from the moment it has
its name. Nothing of a job depends on its mark.
"""

from __future__ import annotations

import struct
from enum import IntEnum


class Doing(IntEnum):
    """What a worker does. Each lasts until the next is stored."""

    START = 0
    """Its process starts, and has no mark yet."""
    PREPARE = 1
    """It has its order: it imports, builds, warms up, and meets the other founders."""
    COPY = 2
    """It is ready to join a job that trains: it waits for the state, takes it, and enters. Where
    all workers start again, it reads the state from a checkpoint."""
    BETWEEN = 3
    """Between two steps: logs, reports, whatever has no name of its own."""
    FORWARD = 4
    """Samples and the forward pass."""
    BACKWARD = 5
    """The backward pass, with the sums of gradients that are under way meanwhile."""
    REDUCE = 6
    """It waits for the rest of the sums, and for the words of the others."""
    UPDATE = 7
    """The step is being committed: the optimizer changes the parameters."""
    SWITCH = 8
    """From one membership to the next."""
    RECOVER = 9
    """Another worker has died: from the loss of the group until it is in the next one."""
    LEAVE = 10
    """Its last step has ended: results and farewells."""
    SAVE = 11
    """It writes a checkpoint, between two steps or after its last."""

    __hash__ = int.__hash__


LAYOUT = struct.Struct("<BBBxI")
"""What it is doing; 1 if it leads the job now; 1 if it is the first worker (rank 0) now; its
process id on this host."""
SIZE = LAYOUT.size
DOING, LEADS, IS_FIRST = 0, 1, 2
"""Places of the bytes that change."""
