"""Requests to a job from other processes of the same user, over a loopback socket.

The file ``control.json`` in the job's folder, which only its owner can read, has the port and the
token. Messages are those of the control channel (``runtime.control``).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.files.bounded_file import parse_json, read_text
from systems.runtime.wire.control import ControlClient, ControlError, Message
from systems.runtime.wire.control_server import Connection, ControlServer
from systems.script.user_job import JOB_ID, UserJob

FILE = "control.json"
LOOPBACK = "127.0.0.1"


class RequestServer:
    """The job's end of the channel; it works only inside ``serve``."""

    def __init__(self, job: UserJob, job_dir: Path) -> None:
        """Listen, and write ``control.json``.

        Raises:
            OSError: the file is there already, or cannot be written.
        """
        self._job = job
        self._token = secrets.token_hex(32)
        self._server = ControlServer(LOOPBACK, self._token_of, self._on_message, lambda _: None)
        self._path = job_dir / FILE
        address, port = self._server.address
        place = {"address": address, "port": port, "token": self._token}
        # Renamed when complete, so that no reader sees half of it; 0600, since it has the token.
        partial = self._path.with_suffix(".partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(place, file)
            if self._path.exists():
                raise FileExistsError(f"{self._path} is another job's")
            partial.rename(self._path)
        finally:
            partial.unlink(missing_ok=True)

    def serve(self) -> None:
        """Handle what has arrived, without waiting."""
        self._server.wait(0.0)

    def close(self) -> None:
        """Close the connections, and remove the file."""
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _token_of(self, job_id: str) -> str | None:
        return self._token if job_id == JOB_ID else None

    def _on_message(self, connection: Connection, message: Message) -> None:
        if message is connection.greeting:
            return

        def answer(found: Mapping[str, Any]) -> None:
            self._server.send(connection, {"kind": "answer", **found})

        self._job.request(message, answer)


def ask(job_dir: Path, request: Mapping[str, Any], timeout_s: float) -> Message:
    """Send a request to a job, and wait for the answer.

    Raises:
        ControlError: there is no such job, it is gone, or it does not answer in time.
    """
    try:
        place = parse_json(read_text(job_dir / FILE))
        port, token = int(place["port"]), str(place["token"])
    except OSError:
        raise ControlError(f"{job_dir}: no job runs in this folder (no {FILE})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ControlError(f"{job_dir / FILE}: damaged ({error}); start the job again") from None
    greeting = {"kind": "greeting", "job_id": JOB_ID, "token": token}
    gone: Message = {"status": "failed", "reason": "the job is gone"}
    try:
        # Never the address in the file: a job listens on the loopback only, and a folder of another
        # user could name any host.
        client = ControlClient(LOOPBACK, port, greeting, on_end=lambda: client.inbox.put(gone))
        client.send({"kind": "request", **request})
    except (OSError, OverflowError) as error:
        raise ControlError(f"{job_dir}: the job does not listen any more: {error}") from None
    try:
        return client.receive(timeout_s)
    finally:
        client.close()
