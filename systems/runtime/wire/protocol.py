"""Base of all control messages, and the tables of the messages that one end of a channel accepts.

A message is a frozen struct with a tag, its ``kind``. Its class checks the types and bounds of all
fields when it arrives, and refuses fields that it does not know. ``messages`` has the messages that
all backends share; each backend adds its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union

import msgspec

from harness.errors import WorkerError
from harness.files.bounded_file import parse_json

VERSION = 1
"""Version of the protocol on all control channels; each greeting shows it.

Raise it with every change of a message that another version would misunderstand.
"""
MAX_MESSAGE_BYTES = 1 << 20

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""Number of things, from 0 on."""
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Any whole number that a machine word can hold."""
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 16) - 1)]
ProcessId: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
Seconds: TypeAlias = float
"""Duration, or time on ``time.monotonic``."""
Result: TypeAlias = float | Literal["nan", "inf", "-inf"]
"""Number that may be infinite or no number, for which JSON has no form; ``float`` decodes it."""


class ControlError(WorkerError):
    """The other side violated the protocol or refused this process; the text gives the reason."""


class Message(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
):
    """Base of all control messages; the tag of a subclass is its kind on the wire."""


class Greeting(Message, frozen=True, kw_only=True, omit_defaults=False):
    """Base of the first messages on all channels: the process that connects, and its token."""

    version: Count = VERSION
    job_id: str
    token: str

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"a process of job {self.job_id}"


class JsonObject(Mapping[str, Any]):
    """JSON object of any content, which travels as text, also with numbers that are not finite."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = dict(value)

    def __getitem__(self, key: str) -> Any:
        return self._value[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return f"JsonObject({self._value!r})"

    def text(self) -> str:
        """Return the object as JSON.

        Raises:
            ControlError: it holds something that JSON cannot express.
        """
        try:
            return json.dumps(self._value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise ControlError(
                f"options cannot be sent: {error}; only numbers, texts, lists and mappings can"
            ) from None

    @classmethod
    def from_text(cls, text: object) -> JsonObject:
        """Return the object in a text.

        Raises:
            ValueError: the text is not a JSON object.
        """
        found = parse_json(text) if isinstance(text, str) else None
        if not isinstance(found, dict):
            raise ValueError("Expected the text of a JSON object")
        return cls(found)


def sendable(text: str) -> str:
    """Return a text for people in a form that a message can carry.

    Undecodable bytes of a path are half characters in Python, which no line can hold.
    """
    return text.encode(errors="backslashreplace").decode()


def as_result(value: float) -> Result:
    """Return a number in the form that a message can carry, also if it is not finite."""
    if math.isfinite(value):
        return float(value)
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _to_plain(value: Any) -> Any:
    """Return what msgspec does not know in a form that it does.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, JsonObject):
        return value.text()
    if isinstance(value, float):  # a subclass, such as numpy's
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _from_plain(wanted: type, value: Any) -> Any:
    if wanted is JsonObject:
        return JsonObject.from_text(value)
    raise TypeError(f"no message has a {wanted.__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)


def encode(message: Message) -> bytes:
    """Return a message as one line.

    Raises:
        ControlError: the message is too long, or holds something that JSON cannot express.
    """
    try:
        line = _encoder.encode(message) + b"\n"
        # msgspec turns numbers that are not finite into null, which the other side would refuse.
        if b"null" in line:
            _check_finite(msgspec.to_builtins(message, enc_hook=_to_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise ControlError(
            f"a {kind_of(message)!r} message cannot be sent: {error};"
            " only numbers, texts, lists and mappings can"
        ) from None
    if len(line) > MAX_MESSAGE_BYTES:
        raise ControlError(
            f"a {kind_of(message)!r} message has {len(line)} bytes; {MAX_MESSAGE_BYTES} is the"
            " limit"
        )
    return line


def kind_of(message: Message | type[Message]) -> str:
    """Return the kind of a message, or of a class of messages, as on the wire."""
    return str(message.__struct_config__.tag)


def _check_finite(value: Any) -> None:
    """Check all numbers in a plain value.

    Raises:
        ValueError: one is not finite.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            _check_finite(each)


class _Kind(msgspec.Struct):
    kind: str


class _Never(Message, frozen=True, kw_only=True, tag=""):
    """Message that never arrives: with one class alone, msgspec would accept a missing kind."""

    impossible: Annotated[int, msgspec.Meta(gt=0, lt=0)]


class Inbound:
    """Messages that one end of a channel accepts; all others are refused."""

    def __init__(self, *classes: type[Message]) -> None:
        self.classes = classes
        self._decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(
            Union[(*classes, _Never)],
            dec_hook=_from_plain,
        )

    def __call__(self, line: bytes) -> Message:
        """Return the message on a line.

        Raises:
            ControlError: the line is no message of these; the text names the kind and the field.
        """
        message: Message = decoded(self._decoder, line)
        return message


def decoded(decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
    """Return what a decoder finds on a line.

    Raises:
        ControlError: the line is not JSON, or not of the decoder's type.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise ControlError(_named(line, str(error))) from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ControlError("a line that is not JSON") from None


def _named(line: bytes, fault: str) -> str:
    """Return the fault of a line with the message's kind, if it has one."""
    fault = fault[:1].lower() + fault[1:].replace("`", "").replace(" - at ", " at ")
    try:
        kind = msgspec.json.decode(line, type=_Kind).kind
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return f"a line that is not a message: {fault}"
    return f"message {kind[:40]!r}: {fault}"
