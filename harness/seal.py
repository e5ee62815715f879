"""A seal on files that only their writer may read back: a MAC with a key of the user's own.

A digest shows that a file is whole. A seal shows that this user's own program wrote it, since no
other has the key. So a folder that comes from elsewhere can hold no file with a right seal.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

SEAL_BYTES = 32
_KEY_BYTES = 32


def key_path() -> Path:
    """Return where the key is: below ``XDG_STATE_HOME``, or ``~/.local/state`` without it.

    Raises:
        RuntimeError: this user has no home.
    """
    given = os.environ.get("XDG_STATE_HOME")
    folder = Path(given) if given else Path.home() / ".local" / "state"
    return folder / "elastrace" / "seal-key"


def seal(content: bytes) -> bytes:
    """Return the seal of a content; makes the key where there is none.

    Raises:
        OSError: the key cannot be read, or written.
        RuntimeError: this user has no home.
    """
    return hmac.digest(_key(), content, hashlib.sha256)


def is_sealed(content: bytes, found: bytes) -> bool:
    """Return whether a seal is that of a content.

    Raises:
        OSError, RuntimeError: as ``seal``.
    """
    return hmac.compare_digest(seal(content), found)


def _key() -> bytes:
    path = key_path()
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}-{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            # Of several processes at once the first makes the key; a link writes over nothing.
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        return _read(path)


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is no key; remove it")
    return key
