"""Lines between a launcher and its fork server, which are no messages of the control channel.

The two processes are parent and child, and their socket pair is open to no other process. So
requests and answers are plain JSON objects with a ``kind``.
"""

from __future__ import annotations

from systems.runtime.wire.control import LineBuffer
from systems.runtime.wire.plain_messages import PlainMessage as Line
from systems.runtime.wire.plain_messages import decode_plain
from systems.runtime.wire.plain_messages import encode_plain as encode_line

__all__ = ["Line", "encode_line", "line_buffer"]


def line_buffer() -> LineBuffer[Line]:
    """Return a parser of requests or answers."""
    return LineBuffer(decode_plain)
