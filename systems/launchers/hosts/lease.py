"""Bounds by which a driver and the agent of a host agree that they have lost each other.

An agent that has not heard the driver for ``LEASE_S`` kills its workers and ends. The driver waits
for ``LOST_AFTER_S`` before it declares the host lost. The driver's bound is the longer one: when
the host's jobs go on elsewhere, no worker of theirs still trains on the lost host.
"""

from __future__ import annotations

from typing import Final

BEAT_EVERY_S: Final = 0.25
"""Time from one beat of the driver to the next; the agent answers each beat."""
LEASE_S: Final = 3.0
"""Longest silence of the driver that an agent survives. It allows for eleven lost beats."""
LOST_AFTER_S: Final = 4.0
"""Longest silence of an agent before its host counts as lost. It exceeds the lease by the time that
an agent needs to kill its workers."""
START_TIMEOUT_S: Final = 60.0
"""Longest time from the starter's command to the agent's greeting. Interpreters start slowly from a
shared disk, and ssh may wait for a name server."""
CLOSE_TIMEOUT_S: Final = 20.0
"""Longest time in which an agent ends its workers when it is asked to close."""
EXIT_LEASE_OVER: Final = 77
"""Exit code of an agent that has not heard the driver for ``LEASE_S``."""
FIRST_RETRY_S: Final = 2.0
"""Time from the loss of a host to the first attempt to start another agent there. It exceeds the
rest of the lost agent's lease, so that two agents of one host never serve at once."""
LONGEST_RETRY_S: Final = 60.0
"""Longest time between two attempts. Each takes twice as long to come as the one before."""
