"""Real stores for the tests, each in a process of its own that can be killed."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from functools import partial
from pathlib import Path

import pytest

from systems.elastic.election.etcd_keystore import KEYS, EtcdKeyStore
from systems.elastic.election.tcp_keystore import TcpKeyStore

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0


class Nursery:
    """``nursery.py``, started when it is first needed."""

    def __init__(self):
        self.process = None

    def fork(self, *request):
        """Process id and output of a new child."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.elastic.nursery"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            self.process.stdin.write(json.dumps([pipe, *request]) + "\n")
            self.process.stdin.flush()
            child = int(self.process.stdout.readline())
            return child, open(pipe)


NURSERY = Nursery()


class TcpStoreProcess:
    """torch's store, as in a job's store process."""

    def __init__(self):
        self.pid, self.output = NURSERY.fork("store")
        self.port = int(self.output.readline())

    def open(self):
        return open_store("tcp", self.port)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        # Its end of the pipe closes when it is dead.
        self.output.read()


class EtcdProcess:
    """A real etcd, with an empty directory at first."""

    def __init__(self, scheme="http", *options):
        self._binary = shutil.which("etcd")
        if self._binary is None:
            pytest.skip("etcd is not installed (Debian package etcd-server)")
        self.folder = tempfile.mkdtemp(prefix="etcd-test-")
        self.port, self._peer_port = free_ports(2)
        self.endpoint = f"{scheme}://127.0.0.1:{self.port}"
        self._options = options
        self.start()

    def start(self):
        """With the data that ``stop`` left; returns when it serves."""
        peer_url = f"http://127.0.0.1:{self._peer_port}"
        self.process = subprocess.Popen(
            [
                *(self._binary, "--data-dir", self.folder),
                *("--listen-client-urls", self.endpoint),
                *("--advertise-client-urls", self.endpoint),
                *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
                *("--initial-cluster", f"default={peer_url}"),
                # Allows leases of one second.
                *("--heartbeat-interval", "20", "--election-timeout", "200"),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.pid = self.process.pid
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._is_healthy():
                    return
            time.sleep(0.05)
        pytest.fail("etcd did not start")

    def keys(self):
        """What jobs have there now: leaders' addresses by key."""
        store = EtcdKeyStore(self.endpoint)
        after = KEYS[:-1] + chr(ord(KEYS[-1]) + 1)
        texts = {"key": KEYS, "range_end": after}
        request = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
        found = store._call("kv/range", request)
        store.close()
        return {
            b64decode(entry["key"]).decode(): b64decode(entry["value"]).decode().partition("|")[0]
            for entry in found.get("kvs", [])
        }

    def _is_healthy(self):
        kind = http.client.HTTPConnection
        if self.endpoint.startswith("https"):
            kind = partial(http.client.HTTPSConnection, context=ssl._create_unverified_context())
        connection = kind("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("GET", "/health")
        return connection.getresponse().read().startswith(b'{"health":"true"')

    def open(self):
        return open_store("etcd", self.port)

    def stop(self):
        """Kill it; its data stays."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def open_store(kind, port):
    if kind == "etcd":
        return EtcdKeyStore(f"http://127.0.0.1:{port}", lease_s=1)
    return TcpKeyStore("127.0.0.1", port)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


KINDS = {"tcp": TcpStoreProcess, "etcd": EtcdProcess}
