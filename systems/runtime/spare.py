"""A spare: a fork of the pre-importing process (``zygote``) that is ready before it is needed.

It takes on a worker's cores and environment, prepares itself, and waits to be told what to do.
Until then it has connected to nobody, and Ctrl-C means nothing to it; it dies with its parent.
"""

from __future__ import annotations

import os
import socket
import sys

from systems.runtime.control import LineBuffer, Message
from systems.runtime.process import call_entry, pin

READY = b"r"
"""What a spare sends when it is prepared."""
BEGUN = b"b"
"""What it sends when it has read what it is to do; before that another can do it instead."""


def prepare_and_wait(surroundings: Message, sock: socket.socket) -> Message:
    """Be a spare until there is work; returns the request of that work.

    Args:
        surroundings: ``env`` and ``cores`` of the workers it can be, and the ``entry`` with
            ``argv`` that prepares it.
        sock: to the pre-importing process; closed when there is work.

    Raises:
        SystemExit: it could not be prepared, or nobody needs it any more.
    """
    os.environ.update(surroundings["env"])
    pin(surroundings["cores"])
    if (code := call_entry(surroundings["entry"], surroundings["argv"])) != 0:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    sock.sendall(READY)
    buffer = LineBuffer()
    with sock:
        while data := sock.recv(1 << 16):
            for request in buffer.feed(data):
                sock.sendall(BEGUN)
                return request
    sys.exit(0)
