"""A process that fetches samples for a worker, and the worker's side of it.

The process builds the workload's data, without a model. It then receives requests over a private
socket: each is one line of JSON with sample ids and their epochs. It answers with one line that
describes the tensors, followed by their bytes.

If samples are drawn at random, the random states follow the request, and the states after drawing
follow the answer. The process keeps no state. It ends with the worker in any case, through a kernel
setting and through the end of the socket. It inherits nothing else from the worker.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.configuration.named_classes import locate
from harness.contracts.workload import Batch
from harness.errors import WorkerError
from harness.machine.parent_death import die_with_parent
from systems.runtime.data.drawing import draw
from systems.runtime.data.random_states import ProcessRandom
from systems.runtime.wire.control import TOKEN_VARIABLE

END_TIMEOUT_S = 5.0
"""Longest wait for the process to exit after its socket has ended."""


class LoaderError(WorkerError, RuntimeError):
    """A loader process failed; the text gives the reason."""


class LoaderKilledError(LoaderError):
    """A signal ended the loader process, which is not the workload's fault."""


class LoaderProcess:
    """The worker's side of a loader process. Only one thread at a time may use it."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        """Start the process on this one's cores; it dies with the calling thread.

        Args:
            target: class of the workload, ``package.module.Class``.
            options: options of the workload.

        Raises:
            OSError: the system cannot start a process.
        """
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        environment["CUDA_VISIBLE_DEVICES"] = ""  # samples are fetched on the CPU
        # Closed here: each side sees the end of the other only if no other process holds it.
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", "systems.runtime.data.loader"),
                    *(str(os.getpid()), str(theirs.fileno()), target, json.dumps(dict(options))),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        self.pid = self._process.pid
        self._is_ready = False
        self._socket = ours
        self._file = ours.makefile("rb")

    def wait_ready(self) -> None:
        """Wait until the process has its data; return at once if that is known.

        Raises:
            LoaderError: the process failed.
        """
        if not self._is_ready:
            self._read_header()
            self._is_ready = True

    def samples(self, ids: Sequence[int], epochs: Sequence[int]) -> Batch:
        """Return the workload's samples, with the same bits and the same layout.

        Raises:
            LoaderError: the process ended, or the workload raised an exception.
        """
        return self._answer(ids, epochs, b"")[0]

    def drawn(
        self, ids: Sequence[int], epochs: Sequence[int], before: bytes
    ) -> tuple[Batch, bytes]:
        """Return samples drawn from random states, and the states afterwards, as ``drawing.draw``.

        Raises:
            LoaderError: as for ``samples``.
        """
        return self._answer(ids, epochs, before)

    def _answer(
        self, ids: Sequence[int], epochs: Sequence[int], before: bytes
    ) -> tuple[Batch, bytes]:
        request = {"ids": list(ids), "epochs": list(epochs), "num_state_bytes": len(before)}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n" + before)
        except OSError as error:
            raise self._ended(f"is gone: {error}") from error
        batch = {
            name: self._read_tensor(dtype, shape, stride)
            for name, dtype, shape, stride in self._read_header()["tensors"]
        }
        after = self._file.read(len(before))
        if len(after) < len(before):
            raise self._ended("ended in the middle of a batch")
        return batch, after

    def _read_header(self) -> dict[str, Any]:
        try:
            line = self._file.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise self._ended("has ended; its last words are in this log")
        header: dict[str, Any] = json.loads(line)
        if "error" in header:
            raise LoaderError(f"the loader process failed: {header['error']}")
        return header

    def _read_tensor(self, dtype: str, shape: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        view = memoryview(_bytes_of(tensor))
        while view:
            count = self._file.readinto(view)
            if not count:
                raise self._ended("ended in the middle of a batch")
            view = view[count:]
        if tensor.stride() == tuple(stride):
            return tensor
        return torch.empty_strided(shape, stride, dtype=tensor.dtype).copy_(tensor)

    def _ended(self, how: str) -> LoaderError:
        """Return the error for a process that no longer answers."""
        try:
            code = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = 0
        if code < 0:
            return LoaderKilledError(f"the loader process {how} (signal {-code})")
        return LoaderError(f"the loader process {how}")

    def close(self) -> None:
        """Kill the process; a thread that waits for an answer gets a ``LoaderError``."""
        # The socket is closed last: the end of the process wakes a thread that reads from it, while
        # closing it here would not.
        self._process.kill()
        self._process.wait()
        self._socket.close()


def _bytes_of(tensor: torch.Tensor) -> Any:
    """Return the memory of a contiguous tensor as an array of bytes."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def main() -> int:
    """Serve requests until the worker closes its socket; arguments: ``PARENT DESCRIPTOR TARGET
    OPTIONS``."""
    parent, descriptor, target, options = sys.argv[1:]
    die_with_parent(int(parent))
    with socket.socket(fileno=int(descriptor)) as sock:
        # Programs that the workload starts must not hold it: the worker would not see the end of
        # this process.
        sock.set_inheritable(False)
        torch.set_num_threads(1)
        try:
            workload = locate(target, "workload", "workload")(**json.loads(options))
        except Exception as error:
            sock.sendall(_error(error))
            return 1
        # The first header: the data is there (``wait_ready``).
        sock.sendall(b"{}\n")
        process = ProcessRandom(torch.device("cpu"))
        requests = sock.makefile("rb")
        while line := requests.readline():
            wanted = json.loads(line)
            ids, epochs, after = wanted["ids"], wanted["epochs"], b""
            before = requests.read(wanted["num_state_bytes"])
            try:
                if before:
                    batch, after = draw(workload, process, ids, epochs, before)
                else:
                    batch = workload.samples(ids, epochs)
            except Exception as error:
                sock.sendall(_error(error))
                continue
            _send(sock, batch)
            sock.sendall(after)
    return 0


def _send(sock: socket.socket, batch: Batch) -> None:
    contiguous = {name: value.contiguous() for name, value in batch.items()}
    tensors = [
        # Send the layout too: the last bits of results may depend on it.
        (name, str(value.dtype).removeprefix("torch."), value.shape, _stride(value))
        for name, value in batch.items()
    ]
    sock.sendall(json.dumps({"tensors": tensors}).encode() + b"\n")
    for value in contiguous.values():
        sock.sendall(_bytes_of(value))


def _stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a tensor's stride, or that of a copy if its elements share memory."""
    return tensor.contiguous().stride() if 0 in tensor.stride() else tensor.stride()


def _error(error: Exception) -> bytes:
    return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(0)  # the worker ended during an answer
