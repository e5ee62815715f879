"""Failures of files, disks and pipes, reported in one line, because the program is not at fault."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys

_FACTS = {
    errno.ENOSPC: "no space is left on its device; free some, or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space, or write elsewhere",
    errno.EROFS: "its file system is read-only; write to another folder",
    errno.EACCES: "permission is denied; use another folder, or change its permissions",
    errno.EPERM: "it is not permitted; use another folder, or change its permissions",
    errno.EISDIR: "it is a folder; name a file",
    errno.ENOTDIR: "a part of the path is no folder; correct the path",
    errno.ENOENT: "there is no such file or folder; correct the path",
    errno.EMFILE: "this process has too many open files; raise the limit (ulimit -n)",
}
"""Fault and way out, by error number."""


_OF_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ENFILE}
)
"""Error numbers by which the disk or the system refuses any program. Limits of a single process,
such as ``EMFILE``, are left out, because the program may have used them up."""


def is_of_machine(error: BaseException) -> bool:
    """Return whether the machine failed, so that the program is not at fault."""
    return isinstance(error, OSError) and error.errno in _OF_MACHINE


def tell(error: OSError | UnicodeDecodeError) -> int:
    """Print one line about a failure to standard error, and return the exit code.

    A reader that has closed standard output, such as ``head``, has all that it wanted. So nothing
    is printed then.

    Returns:
        141 if standard output was closed by its reader (128 and SIGPIPE), else 1.
    """
    is_pipe = isinstance(error, BrokenPipeError)
    if not is_pipe:
        with contextlib.suppress(OSError):
            print(describe(error), file=sys.stderr, flush=True)
    _drop_output()
    return 128 + signal.SIGPIPE if is_pipe else 1


def describe(error: OSError | UnicodeDecodeError) -> str:
    """Describe a failure in one line: its place, the fact and the way out."""
    if isinstance(error, UnicodeDecodeError):
        return (
            f"Failed: a file is no text in UTF-8 ({error.reason} at byte {error.start});"
            " give a text file"
        )
    place = "a file or standard output" if error.filename is None else str(error.filename)
    said = error.strerror or str(error) or type(error).__name__
    return f"Failed: {place}: {_FACTS.get(error.errno or 0, ' '.join(said.split()))}"


def _drop_output() -> None:
    """Discard the rest of standard output if it cannot be written. Otherwise the interpreter would
    try again when it ends, and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
