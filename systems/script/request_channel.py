"""Requests to a job from other processes of the same user, over a loopback socket.

The file ``control.json`` in the job's folder, which only its owner can read, has the port and the
token. Messages (``messages``) travel as on the control channel (``runtime.wire.control``).
"""

from __future__ import annotations

import json
import os
import secrets
from functools import partial
from pathlib import Path

from harness.files.bounded_file import parse_json, read_text
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.control_server import Admission, Connection, ControlServer
from systems.runtime.wire.protocol import ControlError, Message
from systems.script.messages import CHANNELS, TO_ASKING, RequestAnswer, RequestGreeting
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
        self._server = ControlServer(LOOPBACK, self._admit, self._on_message, lambda _: None)
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

    def _admit(self, job_id: str) -> Admission | None:
        return Admission(self._token, CHANNELS) if job_id == JOB_ID else None

    def _on_message(self, connection: Connection, message: Message) -> None:
        if message is connection.greeting:
            return
        self._job.request(message, partial(self._server.send, connection))


def ask(job_dir: Path, request: Message, timeout_s: float) -> RequestAnswer:
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
    greeting = RequestGreeting(job_id=JOB_ID, token=token)
    gone = RequestAnswer(status="failed", reason="the job is gone")
    try:
        # Never the address in the file: a job listens on the loopback only, and a folder of another
        # user could name any host.
        client = ControlClient(
            LOOPBACK,
            port,
            greeting,
            TO_ASKING,
            on_end=lambda: client.inbox.put(gone),
            sender="the job",
        )
        client.send(request)
    except (OSError, OverflowError) as error:
        raise ControlError(f"{job_dir}: the job does not listen any more: {error}") from None
    try:
        answer = client.next_message(timeout_s)
        assert isinstance(answer, RequestAnswer)
        return answer
    finally:
        client.close()
