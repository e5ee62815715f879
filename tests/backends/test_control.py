"""Framing and limits of the control channel; the pace of padded steps; logs."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from harness.engines.live.consumed_samples import count_samples
from systems.runtime.data.position_order import PositionOrder, PositionState
from systems.runtime.wire.control import (
    EXIT_DRIVER_GONE,
    TOKEN_VARIABLE,
    ControlClient,
    LineBuffer,
)
from systems.runtime.wire.control_server import Admission, Channels, ControlServer
from systems.runtime.wire.messages import (
    DRIVER_TO_PROCESS,
    DRIVER_TO_WORKER,
    WORKER_TO_DRIVER,
    BeatRequest,
    Finished,
    Left,
    MayExit,
    Progress,
    RankGreeting,
    SetTarget,
    StepsDone,
    Stop,
    Warned,
    finished,
)
from systems.runtime.wire.protocol import (
    MAX_MESSAGE_BYTES,
    VERSION,
    ControlError,
    Inbound,
    JsonObject,
    encode,
)
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
GREETING = RankGreeting(job_id="job", generation=1, rank=0, token="secret", pid=1)
FROM_WORKER = Inbound(*WORKER_TO_DRIVER)
TO_WORKER = Inbound(*DRIVER_TO_PROCESS, *DRIVER_TO_WORKER)
PROGRESS = Progress(3, 36, 0.1, 2.0)


def test_messages_arrive_whole_however_the_bytes_are_cut():
    messages = [Warned(text="ä\n" * n) for n in range(20)]
    data = b"".join(encode(message) for message in messages)
    for size in (1, 7, 1000, len(data)):
        buffer = LineBuffer(FROM_WORKER)
        found = []
        for start in range(0, len(data), size):
            found += buffer.feed(data[start : start + size])
        assert found == messages


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"nonsense\n", "not JSON"),
        (b"", "not JSON"),
        (b"[1]\n", "expected object, got array"),
        (b"{}\n", "missing required field kind"),
        (b'{"kind": "greeting"}\n', "message 'greeting': invalid value 'greeting' at .[.]kind"),
        (
            b'{"kind": "warning", "text": 3}\n',
            "message 'warning': expected str, got int at .[.]text",
        ),
        (b'{"kind": "warning"}\n', "message 'warning': object missing required field text"),
        (b'{"kind": "warning", "text": "", "to": 1}\n', "unknown field to"),
        (b"\xff\n", "not JSON"),
        (b'{"a": "' + b"x" * 200 + b'"}\n', "100 is the limit"),
        (b"y" * 101, "100 is the limit"),
    ],
)
def test_what_is_not_a_message_is_refused(data, fact):
    with pytest.raises(ControlError, match=fact):
        list(LineBuffer(FROM_WORKER, 100).feed(data or b"\n"))


def test_a_refusal_names_the_sender_and_the_field():
    buffer = LineBuffer(FROM_WORKER, sender="worker w3")
    line = encode(StepsDone(progress=PROGRESS)).replace(b"36", b"-1")
    with pytest.raises(ControlError) as refused:
        list(buffer.feed(line))
    assert str(refused.value) == (
        "worker w3: message 'steps_done': expected int >= 0 at $.progress.samples"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", 1 << 63),
        ("step", -1),
        ("step", True),
        ("step", 1.0),
        ("step", "1"),
        ("step_s", "NaN"),
        ("ended", None),
    ],
)
def test_numbers_out_of_their_bounds_are_refused(field, value):
    told = json.loads(encode(StepsDone(progress=PROGRESS)))
    told["progress"][field] = value
    with pytest.raises(ControlError, match=field):
        FROM_WORKER(json.dumps(told).encode())


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"9" * 5000, b"[" * 5000])
def test_no_number_is_without_bound(number):
    line = encode(StepsDone(progress=PROGRESS)).replace(b"0.1", number)
    with pytest.raises(ControlError):
        FROM_WORKER(line)


def test_a_key_that_comes_twice_counts_once():
    assert TO_WORKER(b'{"kind":"set_target","target_step":1,"target_step":2}') == SetTarget(
        target_step=2
    )


def test_a_limit_that_a_greeting_raises_counts_for_what_came_with_it():
    buffer = LineBuffer(TO_WORKER, 100)
    messages = buffer.feed(encode(Stop()) + encode(Warned(text="y" * 200)))
    assert next(messages) == Stop()
    buffer.limit, buffer.decode = 1000, FROM_WORKER
    assert next(messages) == Warned(text="y" * 200)


def test_what_cannot_be_sent_is_refused_before_it_is():
    for value in ({1, 2}, object(), b"x"):
        with pytest.raises(ControlError, match="cannot be sent"):
            encode(Warned(text=JsonObject({"value": value})))
    for number in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ControlError, match=r"cannot be sent: .* is not finite"):
            encode(StepsDone(progress=Progress(1, 2, number, 0.0)))
    with pytest.raises(ControlError, match="cannot be sent"):
        encode(Warned(text="\ud800"))
    with pytest.raises(ControlError, match="is the limit"):
        encode(Warned(text="y" * MAX_MESSAGE_BYTES))


def test_metrics_that_are_not_finite_arrive_as_they_are():
    metrics = {"loss": float("inf"), "low": -float("inf"), "top1": 0.1, "odd": float("nan")}
    found = FROM_WORKER(encode(finished(PROGRESS, {"digest": "ab"}, metrics)))
    assert isinstance(found, Finished)
    assert list(found.results) == ["digest", *metrics]
    assert str(found.results) == str({"digest": "ab", **metrics})


def test_options_of_any_form_arrive_as_json_has_them():
    given = {"a": [1, 2.5, None, "ä", {"b": True}], "limit": float("inf"), "sizes": (1, 2)}
    found = JsonObject.from_text(JsonObject(given).text())
    assert dict(found) == {**given, "sizes": [1, 2]}


class Recorder:
    """A server for one job, and what it heard."""

    def __init__(self):
        self.messages = []
        self.connections = []
        self.num_closed = 0
        self.admissions = {"job": Admission("secret", Channels({RankGreeting: FROM_WORKER}))}
        self.server = ControlServer("127.0.0.1", self.admissions.get, self._hear, self._closed)

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
    client = ControlClient(*recorder.server.address, GREETING, TO_WORKER, on_end=lambda: None)
    recorder.until(lambda: recorder.messages)
    for sock in (client._socket, recorder.connections[0].socket):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    client.close()


def test_the_token_is_checked_first_and_never_passed_on(recorder):
    with socket.create_connection(recorder.server.address) as good:
        good.sendall(encode(GREETING) + encode(StepsDone(progress=PROGRESS)))
        recorder.until(lambda: len(recorder.messages) == 2)
    assert recorder.messages == [replace(GREETING, token=""), StepsDone(progress=PROGRESS)]
    recorder.until(lambda: recorder.num_closed == 1)
    for token in ("Secret", "", "secret ", "sécret", None, 5):
        with socket.create_connection(recorder.server.address) as bad:
            greeting = {**json.loads(encode(GREETING)), "token": token}
            told = json.dumps(greeting).encode() + b"\n" + encode(StepsDone(progress=PROGRESS))
            bad.sendall(told)
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
    [
        b"[" * 4000,
        b'{"a":' * 800,
        b'{"job_id":"job","token":"\\ud800"}',
        b"9" * 4000,
        b'{"job_id":"job","token":"","version":' + b"9" * 4000 + b"}",
        b'{"job_id":"job","token":"","x":' + b"[" * 4000 + b"}",
        b'{"job_id":"job","token":"secret"}',
        b'{"job_id":"job","token":"secret","version":1}',
        b'{"job_id":"job","token":"secret","version":1,"kind":"beat"}',
        b"\x00",
    ],
    ids=[
        "deep list",
        "deep mapping",
        "half a letter",
        "long number",
        "long version",
        "deep field",
        "no version",
        "no kind",
        "no greeting",
        "zero",
    ],
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


def test_a_greeting_of_another_version_is_refused_with_both_versions(recorder, caplog):
    """Also if that version has other fields."""
    told = {**json.loads(encode(GREETING)), "version": VERSION + 1, "host": "a"}
    assert _refused(recorder, json.dumps(told).encode() + b"\n")
    assert f"speaks version {VERSION + 1}" in caplog.text
    assert f"this process version {VERSION}" in caplog.text
    assert recorder.messages == []


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b"x" * (MAX_MESSAGE_BYTES + 1), b'{"kind":"stop"}\n', b'{"kind":"left"}\n'],
    ids=["nonsense", "too long", "of another direction", "a field short"],
)
def test_a_known_worker_that_sends_nonsense_loses_its_own_connection_alone(recorder, caplog, line):
    other = socket.create_connection(recorder.server.address)
    other.sendall(encode(replace(GREETING, rank=1)))
    recorder.until(lambda: recorder.messages)
    assert _refused(recorder, encode(replace(GREETING, rank=2)) + line)
    assert "worker 2 of job job at 127.0.0.1" in caplog.text
    assert recorder.num_closed == 1
    other.sendall(encode(StepsDone(progress=PROGRESS)))
    recorder.until(lambda: StepsDone(progress=PROGRESS) in recorder.messages)
    other.close()


def test_a_message_of_another_class_than_the_expected_one_is_refused(recorder):
    client = ControlClient(*recorder.server.address, GREETING, TO_WORKER, on_end=lambda: None)
    recorder.until(lambda: recorder.messages)
    for message in (SetTarget(target_step=3), Stop()):
        recorder.server.send(recorder.connections[0], message)
    assert client.expect(SetTarget, 10) == SetTarget(target_step=3)
    with pytest.raises(ControlError, match="the driver sent 'stop' instead of 'set_target'"):
        client.expect(SetTarget, 10)
    client.close()


def _refused(recorder, data):
    """Return whether the server closes the connection over which these bytes come."""
    with socket.create_connection(recorder.server.address) as bad:
        bad.settimeout(10)
        sender = threading.Thread(target=_send_and_wait, args=(bad, data))
        sender.start()
        recorder.until(lambda: not sender.is_alive())
    return True


def _send_and_wait(sock, data):
    with suppress(ConnectionError):
        sock.sendall(data)
        assert sock.recv(1) == b""


def test_what_a_worker_said_before_it_died_is_heard_also_by_who_notices_in_sending(recorder):
    worker = socket.create_connection(recorder.server.address)
    worker.sendall(encode(GREETING))
    recorder.until(lambda: recorder.messages)
    (connection,) = recorder.connections
    # It dies with something unread, so that the kernel refuses whatever comes next.
    recorder.server.send(connection, BeatRequest())
    left = Left(progress=PROGRESS, finished=True, overruns=0)
    worker.sendall(encode(left))
    select.select([worker], [], [])
    worker.close()
    deadline = time.monotonic() + 10
    while connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_CLOSE:
        assert time.monotonic() < deadline
        os.sched_yield()
    for _ in range(3):
        recorder.server.send(connection, MayExit())
    assert recorder.num_closed == 0
    recorder.until(lambda: recorder.num_closed == 1)
    assert recorder.messages[1:] == [left]
    recorder.server.send(connection, MayExit())


def test_much_is_sent_to_a_slow_reader_without_blocking(recorder):
    with socket.create_connection(recorder.server.address) as slow:
        slow.sendall(encode(GREETING))
        recorder.until(lambda: recorder.messages)
        text = "x" * 900_000
        started = time.monotonic()
        for number in range(10):
            recorder.server.send(recorder.connections[0], Warned(text=f"{number}{text}"))
        assert time.monotonic() - started < 2
        found, buffer = [], LineBuffer(FROM_WORKER)
        slow.settimeout(0.02)
        deadline = time.monotonic() + 20
        while len(found) < 10 and time.monotonic() < deadline:
            recorder.server.wait(0.0)
            try:
                found += [int(message.text[0]) for message in buffer.feed(slow.recv(1 << 20))]
            except TimeoutError:
                continue
    assert found == list(range(10))


@pytest.mark.parametrize("last", [b"", b'{"kind":"stop"}\n'], ids=["hangs up", "sends nonsense"])
def test_a_worker_whose_driver_is_gone_ends_even_while_it_waits_elsewhere(last):
    script = (
        "import sys, threading; from systems.runtime.wire.control import ControlClient;"
        "from systems.runtime.wire.messages import TO_STORE, StoreGreeting;"
        "greeting = StoreGreeting(job_id='job', token='', pid=1);"
        "client = ControlClient('127.0.0.1', int(sys.argv[1]), greeting, TO_STORE);"
        "threading.Event().wait()"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        worker = subprocess.Popen(
            [sys.executable, "-c", script, str(listener.getsockname()[1])],
            env={**os.environ, TOKEN_VARIABLE: "x"},
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = listener.accept()
        lines = connection.makefile("rb")
        assert json.loads(lines.readline())["kind"] == "store_greeting"
        if last:
            connection.sendall(last)
            assert lines.readline() == b""
        lines.close()
        connection.close()
    _, printed = worker.communicate(timeout=10)
    assert worker.returncode == EXIT_DRIVER_GONE
    assert ("the driver: message 'stop': invalid value" in printed) == bool(last)


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
