"""Framing and limits of the control channel; the pace of padded steps; logs."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from harness.engines.live.consumed_samples import count_samples
from systems.runtime.data.position_order import PositionOrder, PositionState
from systems.runtime.wire.control import (
    EXIT_DRIVER_GONE,
    MAX_MESSAGE_BYTES,
    TOKEN_VARIABLE,
    ControlClient,
    ControlError,
    LineBuffer,
    encode,
)
from systems.runtime.wire.control_server import ControlServer
from systems.runtime.wire.step_log import (
    LineWriter,
    SamplesLog,
    consumed_ids,
    read_consumed,
    read_lines,
)
from systems.runtime.worker import pace
from systems.runtime.worker.pace import Pacer

TCP_CLOSE = 7
"""Of the kernel's states of a connection: the other side has reset it."""
GREETING = {"kind": "greeting", "job_id": "job", "generation": 1, "rank": 0, "token": "secret"}


def test_messages_arrive_whole_however_the_bytes_are_cut():
    messages = [{"kind": "a", "n": n, "text": "ä\n" * n} for n in range(20)]
    data = b"".join(encode(message) for message in messages)
    for size in (1, 7, 1000, len(data)):
        buffer = LineBuffer()
        found = []
        for start in range(0, len(data), size):
            found += buffer.feed(data[start : start + size])
        assert found == messages


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"nonsense\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (b"\xff\n", "not JSON"),
        (b'{"a": "' + b"x" * 200 + b'"}\n', "100 is the limit"),
        (b"y" * 101, "100 is the limit"),
    ],
)
def test_what_is_not_a_message_is_refused(data, fact):
    with pytest.raises(ControlError, match=fact):
        list(LineBuffer(100).feed(data))


def test_a_limit_that_a_greeting_raises_counts_for_what_came_with_it():
    buffer = LineBuffer(100)
    messages = buffer.feed(encode({"kind": "greeting"}) + encode({"kind": "x", "value": "y" * 200}))
    assert next(messages)["kind"] == "greeting"
    buffer.limit = 1000
    assert next(messages)["kind"] == "x"


def test_what_cannot_be_sent_is_refused_before_it_is():
    with pytest.raises(ControlError, match="cannot be sent"):
        encode({"kind": "x", "value": {1, 2}})
    with pytest.raises(ControlError, match="is the limit"):
        encode({"kind": "x", "value": "y" * MAX_MESSAGE_BYTES})


class Recorder:
    """A server for one job, and what it heard."""

    def __init__(self):
        self.messages = []
        self.connections = []
        self.num_closed = 0
        self.server = ControlServer("127.0.0.1", {"job": "secret"}.get, self._hear, self._closed)

    def _hear(self, connection, message):
        self.connections.append(connection)
        self.messages.append(message)

    def _closed(self, connection):
        self.num_closed += 1

    def until(self, condition):
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            self.server.wait(0.02)


@pytest.fixture
def recorder():
    recorder = Recorder()
    yield recorder
    recorder.server.close()
    recorder.server.close()


def test_no_end_waits_to_send_more_at_once(recorder):
    """Nagle's algorithm is off on both (EDL, section 4.4)."""
    client = ControlClient(*recorder.server.address, GREETING, on_end=lambda: None)
    recorder.until(lambda: recorder.messages)
    for sock in (client._socket, recorder.connections[0].socket):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    client.close()


def test_the_token_is_checked_first_and_never_passed_on(recorder):
    with socket.create_connection(recorder.server.address) as good:
        good.sendall(encode(GREETING) + encode({"kind": "progress"}))
        recorder.until(lambda: len(recorder.messages) == 2)
    assert [message["kind"] for message in recorder.messages] == ["greeting", "progress"]
    assert "token" not in recorder.messages[0]
    recorder.until(lambda: recorder.num_closed == 1)
    for token in ("Secret", "", "secret ", "sécret", None, 5):
        with socket.create_connection(recorder.server.address) as bad:
            bad.sendall(encode({**GREETING, "token": token}) + encode({"kind": "progress"}))
            bad.settimeout(0.05)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                recorder.server.wait(0.02)
                try:
                    assert bad.recv(1) == b""
                    break
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    break
            else:
                raise AssertionError("still open")
    assert len(recorder.messages) == 2


@pytest.mark.parametrize(
    "line",
    [b"[" * 4000, b'{"a":' * 800, b'{"job_id":"job","token":"\\ud800"}', b"9" * 4000],
    ids=["deep list", "deep mapping", "half a letter", "long number"],
)
def test_no_greeting_of_a_stranger_ends_the_driver(recorder, line):
    with socket.create_connection(recorder.server.address) as bad:
        bad.sendall(line + b"\n")
        bad.settimeout(10)
        reader = threading.Thread(target=bad.recv, args=(1,))
        reader.start()
        recorder.until(lambda: not reader.is_alive())
    with socket.create_connection(recorder.server.address) as good:
        good.sendall(encode(GREETING))
        recorder.until(lambda: recorder.messages)


def test_what_a_worker_said_before_it_died_is_heard_also_by_who_notices_in_sending(recorder):
    worker = socket.create_connection(recorder.server.address)
    worker.sendall(encode(GREETING))
    recorder.until(lambda: recorder.messages)
    (connection,) = recorder.connections
    # It dies with something unread, so that the kernel refuses whatever comes next.
    recorder.server.send(connection, {"kind": "order"})
    worker.sendall(encode({"kind": "left"}))
    select.select([worker], [], [])
    worker.close()
    deadline = time.monotonic() + 10
    while connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_CLOSE:
        assert time.monotonic() < deadline
        os.sched_yield()
    for _ in range(3):
        recorder.server.send(connection, {"kind": "exit"})
    assert recorder.num_closed == 0
    recorder.until(lambda: recorder.num_closed == 1)
    assert [message["kind"] for message in recorder.messages] == ["greeting", "left"]
    recorder.server.send(connection, {"kind": "exit"})


def test_much_is_sent_to_a_slow_reader_without_blocking(recorder):
    with socket.create_connection(recorder.server.address) as slow:
        slow.sendall(encode(GREETING))
        recorder.until(lambda: recorder.messages)
        text = "x" * 900_000
        started = time.monotonic()
        for number in range(10):
            recorder.server.send(recorder.connections[0], {"number": number, "text": text})
        assert time.monotonic() - started < 2
        found, buffer = [], LineBuffer()
        slow.settimeout(0.02)
        deadline = time.monotonic() + 20
        while len(found) < 10 and time.monotonic() < deadline:
            recorder.server.wait(0.0)
            try:
                found += [message["number"] for message in buffer.feed(slow.recv(1 << 20))]
            except TimeoutError:
                continue
    assert found == list(range(10))


def test_a_worker_whose_driver_hangs_up_ends_even_while_it_waits_elsewhere():
    script = (
        "import threading; from systems.runtime.wire.control import ControlClient; import sys;"
        "client = ControlClient('127.0.0.1', int(sys.argv[1]), {'kind': 'greeting'});"
        "threading.Event().wait()"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        worker = subprocess.Popen(
            [sys.executable, "-c", script, str(listener.getsockname()[1])],
            env={**os.environ, TOKEN_VARIABLE: "x"},
        )
        connection, _ = listener.accept()
        assert json.loads(connection.makefile().readline()) == {"kind": "greeting"}
        connection.close()
    assert worker.wait(10) == EXIT_DRIVER_GONE


def test_steps_keep_an_absolute_schedule():
    pacer = Pacer(0.02)
    pause = threading.Event()
    begun = time.monotonic()
    for step in range(20):
        started = time.monotonic()
        pause.wait(0.03 if step % 5 == 2 else 0.001)
        pacer.finish(started)
    lasted_s = time.monotonic() - begun
    assert 0.4 <= lasted_s < 0.55  # a step that was late is made up for by the next
    assert 4 <= pacer.num_overruns <= 12


def later(now):
    """Sleep, by a clock of its own."""

    def wait(seconds):
        assert seconds >= 0
        now[0] += seconds

    return wait


def test_a_padded_step_has_its_length_with_what_follows_the_padding(monkeypatch):
    """Its update, say. The first step of a schedule is not longer by that than the others, once
    it is known how long it takes."""
    now = [100.0]
    wait = later(now)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=wait))
    pacer = Pacer(0.2, is_before_update=True)

    def steps_s(number, after_s):
        starts = [now[0]]
        for _ in range(number):
            wait(0.03)
            assert not pacer.finish(starts[-1])
            wait(after_s)
            starts.append(now[0])
        return [later - earlier for earlier, later in pairwise(starts)]

    # Nothing is known of the first, and the next makes up for it.
    assert steps_s(4, 0.08) == pytest.approx([0.28, 0.12, 0.2, 0.2])
    wait(0.3)  # a change, which is not made up for
    pacer.begin_anew(0.3)
    assert steps_s(3, 0.08) == pytest.approx([0.3, 0.3, 0.3])
    # One that takes longer after its padding is late, and the next makes up for that.
    assert steps_s(1, 0.1) + steps_s(2, 0.08) == pytest.approx([0.32, 0.28, 0.3])
    assert pacer.num_overruns == 0


def test_workers_that_wait_for_each_other_after_their_padding_keep_it(monkeypatch):
    """One whose schedule began earlier waits in every step, and pads no less for it."""
    now = [0.0]
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=later(now)))
    begun, pacers = [0.0, 0.02], [Pacer(0.1), Pacer(0.1)]
    for _ in range(200):
        ended = []
        for started, pacer in zip(begun, pacers, strict=True):
            now[0] = started + 0.03
            assert not pacer.finish(started)
            ended.append(now[0])
        begun = [max(ended)] * 2
    assert begun[0] == pytest.approx(200 * 0.1 + 0.02)


def test_a_worker_that_cannot_keep_the_pace_does_not_rush_for_ever():
    pacer = Pacer(0.005)
    pause = threading.Event()
    for _ in range(5):
        started = time.monotonic()
        pause.wait(0.03)
        assert pacer.finish(started)
    started = time.monotonic()
    for _ in range(6):
        pacer.finish(time.monotonic())
    assert time.monotonic() - started > 0.02  # one floor may be made up for, not twenty-five
    assert not Pacer(0.0).is_on


def test_logs_of_lost_steps_do_not_count(tmp_path):
    def write(generation, rank, *steps):
        log = SamplesLog(tmp_path, generation, rank, order)
        for step in steps:
            log.add(step, order.plan(PositionState(4 * step - 4, 9), 2, 4))
        log.close()

    order = PositionOrder(5, 9)
    generations = LineWriter(tmp_path / "generations.jsonl")
    for generation, resumed_at in ((1, 0), (2, 5), (3, 3)):
        generations.add({"generation": generation, "resumed_at": resumed_at})
    generations.flush()
    for rank in (0, 1):
        write(1, rank, 1, 2, 3, 4, 5)
        write(2, rank, 6, 7)
        write(3, rank, 4, 5, 6)
    found = read_consumed(tmp_path)
    assert [(part.step, part.rank, part.generation) for part in found] == [
        (step, rank, 1 if step <= 3 else 3) for step in range(1, 7) for rank in (0, 1)
    ]
    ids = consumed_ids(tmp_path, order)
    assert ids == order.ids(order.plan(order.initial(), 1, 24).parts[0])
    assert count_samples(tmp_path, 6) == (0, 0)


def test_a_line_cut_short_by_a_death_is_left_out(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step":1}\n{"step":2}\n{"ste')
    assert [line["step"] for line in read_lines(path)] == [1, 2]
    assert list(read_lines(tmp_path / "none.jsonl")) == []
