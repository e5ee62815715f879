"""Lines between a launcher and its fork server, which are no messages of the control channel.

The two processes are parent and child, and their socket pair is open to no other process. So
requests and answers are plain JSON objects with a ``kind``, of any length.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

from systems.runtime.wire.control import LineBuffer

Line: TypeAlias = dict[str, Any]


def encode_line(line: Mapping[str, object]) -> bytes:
    """Return a request or an answer as one line.

    Unlike msgspec, the standard library also carries undecodable bytes of paths.
    """
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def line_buffer() -> LineBuffer[Line]:
    """Return a parser of requests or answers."""
    return LineBuffer(json.loads, sys.maxsize)
