"""A spare: a fork of the fork server (``zygote``) that is prepared before it is needed.

A spare takes a worker's cores and environment, prepares itself, and waits for work. Until then it
has connected to no other process and ignores Ctrl-C. It dies with its parent.
"""

from __future__ import annotations

import os
import socket
import sys

from systems.runtime.prefork.lines import Line, line_buffer
from systems.runtime.wire.process import call_entry, pin

READY = b"r"
"""Message of a spare that is prepared."""
BEGUN = b"b"
"""Message of a spare that has read its work; before it, another process can still do the work."""


def prepare_and_wait(surroundings: Line, sock: socket.socket) -> Line:
    """Be a spare until work arrives; return the request of that work.

    Args:
        surroundings: ``env`` and ``cores`` of the workers that it can become, and the ``entry``
            with ``argv`` that prepares it.
        sock: connection to the fork server; closed when work arrives.

    Raises:
        SystemExit: preparation failed, or the spare is no longer needed.
    """
    os.environ.update(surroundings["env"])
    pin(surroundings["cores"])
    if (code := call_entry(surroundings["entry"], surroundings["argv"])) != 0:
        sys.exit(code)
    # Before the work: its log is another file, where this output does not belong.
    sys.stdout.flush()
    sys.stderr.flush()
    sock.sendall(READY)
    buffer = line_buffer()
    with sock:
        while data := sock.recv(1 << 16):
            for request in buffer.feed(data):
                sock.sendall(BEGUN)
                return request
    sys.exit(0)
