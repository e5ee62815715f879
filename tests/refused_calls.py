"""System calls that the kernel refuses a process, as some file systems do."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
"""Instructions of a filter: load a word, skip if it differs, end."""
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBERS = {
    "x86_64": {"flock": 73, "renameat2": 316},
    "aarch64": {"flock": 32, "renameat2": 276},
}
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def can_refuse() -> bool:
    """Whether this machine's numbers of system calls are known here."""
    return os.uname().sysname == "Linux" and platform.machine() in _NUMBERS


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse(call: str, error: int, fifth: int | None = None) -> None:
    """Let a system call of this process, and of all that it starts, fail from now on.

    Args:
        call: its name.
        error: the error number that it fails with.
        fifth: refuse it only with this value of its fifth argument.
    """
    number = _NUMBERS[platform.machine()][call]
    words = [(_LOAD, 0, 0, 0), (_EQUALS, 0, 1 if fifth is None else 3, number)]
    if fifth is not None:
        words += [(_LOAD, 0, 0, 16 + 4 * 8), (_EQUALS, 0, 1, fifth)]
    words += [(_RETURN, 0, 0, _ERROR | error), (_RETURN, 0, 0, _ALLOW)]
    code = b"".join(struct.pack("HBBI", *word) for word in words)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(words), code)
    for order in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SECCOMP, _FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*order) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{order}")
