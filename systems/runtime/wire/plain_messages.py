"""Messages without classes, for a backend that has not declared its ``Channels``.

Such a message is a JSON object with a ``kind``, and its receiver checks its fields. The greeting's
token is checked as for all others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from harness.files.bounded_file import parse_json
from systems.runtime.wire.protocol import MAX_MESSAGE_BYTES, ControlError

PlainMessage: TypeAlias = dict[str, Any]


def encode_plain(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line.

    Raises:
        ControlError: it is too long, or holds something that JSON cannot express.
    """
    try:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ControlError(
            f"a {message.get('kind')!r} message cannot be sent: {error};"
            " only numbers, texts, lists and mappings can"
        ) from None
    if len(line) > MAX_MESSAGE_BYTES:
        raise ControlError(
            f"a {message.get('kind')!r} message has {len(line)} bytes;"
            f" {MAX_MESSAGE_BYTES} is the limit"
        )
    return line


def decode_plain(line: bytes) -> PlainMessage:
    """Return the message on a line.

    Raises:
        ControlError: it is not a JSON object with a kind.
    """
    try:
        message = parse_json(line)
    except ValueError:
        raise ControlError("a line that is not JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ControlError("a line that is not a JSON object with a kind")
    return message
