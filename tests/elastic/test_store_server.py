"""A job's store process, driven over its control channel as a driver does."""

import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from systems.elastic.election.keystore import StoreLost
from systems.elastic.election.tcp_keystore import TcpKeyStore
from systems.runtime.wire.control import EXIT_DRIVER_GONE, TOKEN_VARIABLE, LineBuffer
from systems.runtime.wire.messages import (
    PROCESS_TO_DRIVER,
    STORE_TO_DRIVER,
    Failed,
    MayExit,
    StoreGreeting,
    StoreOrder,
    StoreReady,
)
from systems.runtime.wire.protocol import Inbound, encode

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
ENTRY = (
    "import sys; from systems.runtime.driver.store_server import main; sys.exit(main(sys.argv[1:]))"
)


class Driver:
    """A driver's end of the conversation with one store process."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT_S)
        port = self.listener.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, "127.0.0.1", str(port), "job1", "store"],
            cwd=ROOT,
            env={**os.environ, TOKEN_VARIABLE: "secret"},
        )
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(WAIT_S)
        self.buffer = LineBuffer(Inbound(StoreGreeting, *PROCESS_TO_DRIVER, *STORE_TO_DRIVER))
        self.messages = deque()

    def send(self, message):
        self.connection.sendall(encode(message))

    def receive(self):
        while not self.messages:
            data = self.connection.recv(1 << 16)
            assert data, "the store hung up"
            self.messages.extend(self.buffer.feed(data))
        return self.messages.popleft()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self.listener.close()


@pytest.fixture
def driver():
    driver = Driver()
    yield driver
    driver.end()


def test_it_serves_on_the_address_that_it_is_told_until_it_may_go(driver):
    greeting = driver.receive()
    assert greeting == StoreGreeting(job_id="job1", token="secret", pid=driver.process.pid)
    # All of 127/8 is loopback: nobody else listens on this one.
    driver.send(StoreOrder(address="127.0.0.9"))
    told = driver.receive()
    assert isinstance(told, StoreReady)
    assert told.address == "127.0.0.9"
    store = TcpKeyStore(told.address, told.port)
    assert store.compare_and_swap("key", None, "a")
    with pytest.raises(StoreLost):
        TcpKeyStore("127.0.0.1", told.port)
    driver.send(StoreOrder(address="127.0.0.1"))  # a second order changes nothing
    assert store.get("key") == "a"
    driver.send(MayExit())
    assert driver.process.wait(WAIT_S) == 0
    with pytest.raises(StoreLost):
        store.get("key")


def test_it_goes_when_its_driver_has_gone(driver):
    driver.receive()
    driver.send(StoreOrder(address="127.0.0.1"))
    driver.receive()
    driver.connection.close()
    assert driver.process.wait(WAIT_S) == EXIT_DRIVER_GONE


def test_an_address_of_another_machine_is_refused(driver):
    driver.receive()
    driver.send(StoreOrder(address="192.0.2.1"))
    told = driver.receive()
    assert isinstance(told, Failed)
    assert "OSError" in told.reason
    assert driver.process.wait(WAIT_S) == 1
