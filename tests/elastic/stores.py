"""Real stores for the tests, each in a process of its own that can be killed."""

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from systems.elastic.etcd_keystore import EtcdKeyStore
from systems.elastic.keystore import StoreLost
from systems.elastic.tcp_keystore import TcpKeyStore

SERVER = """
import sys
from systems.elastic.store_server import StoreServer
server = StoreServer("127.0.0.1")
print(server.port, flush=True)
sys.stdin.read()
"""


class TcpStoreProcess:
    """torch's store, as in a job's store process."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())

    def open(self):
        return open_store("tcp", self.port)

    def kill(self):
        self.process.kill()
        self.process.communicate()


class EtcdProcess:
    """A real etcd with an empty directory."""

    def __init__(self):
        binary = shutil.which("etcd")
        if binary is None:
            pytest.skip("etcd is not installed (Debian package etcd-server)")
        self.folder = tempfile.mkdtemp(prefix="etcd-test-")
        self.port, peer = free_ports(2)
        client_url, peer_url = (f"http://127.0.0.1:{port}" for port in (self.port, peer))
        self.process = subprocess.Popen(
            [
                *(binary, "--data-dir", self.folder),
                *("--listen-client-urls", client_url, "--advertise-client-urls", client_url),
                *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
                *("--initial-cluster", f"default={peer_url}"),
                # Allows leases of one second.
                *("--heartbeat-interval", "20", "--election-timeout", "200"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(StoreLost):
                self.open().close()
                return
            time.sleep(0.05)
        pytest.fail("etcd did not start")

    def open(self):
        return open_store("etcd", self.port)

    def kill(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def open_store(kind, port):
    if kind == "etcd":
        return EtcdKeyStore("127.0.0.1", port, lease_s=1)
    return TcpKeyStore("127.0.0.1", port)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


KINDS = {"tcp": TcpStoreProcess, "etcd": EtcdProcess}
