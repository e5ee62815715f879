"""Peers that die, stop, lie, or are not who they should be."""

import json
import os
import signal
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest

from systems.elastic.transfer.channel import (
    MAX_HEADER_BYTES,
    Cancelled,
    Channel,
    PeerLost,
    TransferError,
    encode,
)
from systems.elastic.transfer.links import VERSION
from systems.elastic.transfer.training_state import StateMismatch
from systems.runtime.reduction.bucket_layouts import LayoutError
from tests.elastic.transfer.jobs import TOKEN, Job, give, join, pieces_left, send

PIECE_BYTES = 8192


def half_way(job, donor):
    """Train until half of the pieces were sent."""
    while pieces_left(donor) is None:
        job.train_step([donor])
    total = pieces_left(donor)
    while pieces_left(donor) > total // 2:
        job.train_beside(donor)
    assert donor.failed is None


@pytest.mark.parametrize("share", [False, True])
def test_killed_receiver_is_a_failure_and_training_goes_on(spawn, answer, share):
    child, pipe = spawn(join, "adam", 1, {}, {"share_memory": share})
    job = Job("adam")
    donor = job.donor([answer(pipe)], piece_bytes=PIECE_BYTES)
    half_way(job, donor)
    child.kill()
    started = time.monotonic()
    while not donor.failed:
        job.train_step([donor])
    assert time.monotonic() - started < 5
    assert isinstance(donor.failed, PeerLost)
    donor.finish(job.step, {})
    assert donor.join(5)
    assert not donor.finished
    job.train_step([donor])  # whoever has not looked yet


@pytest.mark.parametrize("share", [False, True])
def test_stopped_receiver_fails_in_bounded_time(spawn, answer, share):
    child, pipe = spawn(join, "adam", 1, {"width": 20000}, {"share_memory": share})
    job = Job("adam", width=20000)
    donor = job.donor([answer(pipe)], piece_bytes=1 << 17, timeout_s=0.5)
    half_way(job, donor)
    os.kill(child.pid, signal.SIGSTOP)
    longest = 0.0
    while not donor.failed:
        started = time.monotonic()
        job.train_step([donor])
        longest = max(longest, time.monotonic() - started)
    assert isinstance(donor.failed, PeerLost)
    assert longest < 3
    assert donor.join(5)


@pytest.mark.parametrize("share", [False, True])
def test_killed_donor_is_noticed(spawn, answer, share):
    job = Job("adam", seed=2)
    receiver = job.receiver(share_memory=share)
    child, _ = spawn(give, "adam", receiver.port, {"piece_bytes": PIECE_BYTES})
    update = job.update

    def kill(step, global_batch):
        update(step, global_batch)
        if job.num_applied == 3:
            child.kill()

    job.update = kill
    with pytest.raises(PeerLost):
        receiver.run(wait_s=100)


def test_stopped_donor_is_noticed(spawn):
    job = Job("adam", seed=2)
    receiver = job.receiver(timeout_s=1.5)
    child, _ = spawn(give, "adam", receiver.port, {"piece_bytes": PIECE_BYTES})
    update = job.update

    def stop(step, global_batch):
        update(step, global_batch)
        if job.num_applied == 3:
            os.kill(child.pid, signal.SIGSTOP)

    job.update = stop
    with pytest.raises(PeerLost, match="silent"):
        receiver.run(wait_s=100)


def test_nobody_there_and_nobody_comes():
    job = Job("sgd")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    donor = job.donor([port])
    assert donor.join(5)
    assert isinstance(donor.failed, PeerLost)
    job.train_step([donor])
    with pytest.raises(PeerLost, match="no donor"):
        job.receiver().run(wait_s=0.1)


def test_wrong_token_and_strangers_are_turned_away(spawn, answer):
    """The right donor still gets through after all of them."""
    _, pipe = spawn(join, "sgd", 0, {}, {})
    port = answer(pipe)
    length = struct.Struct(">I")
    for junk in (
        length.pack(0xFFFFFFFF),
        length.pack(5000) + b"x" * 5000,
        length.pack(3) + b"[1]",
        length.pack(9) + b"not json!",
        length.pack(4000) + b"[" * 4000,
        length.pack(50) + b'{"kind":"greeting","token":"\\ud800"}'.ljust(50),
        length.pack(100) + b"cut off",
        encode({"kind": "greeting", "version": VERSION, "token": "another"}),
        encode({"kind": "greeting", "version": VERSION}),
        encode({"kind": "greeting", "version": 99, "token": TOKEN}),
        encode({"kind": "finish", "version": VERSION, "token": TOKEN}),
    ):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            with suppress(OSError):  # turned away before all was said
                stranger.sendall(junk)
                stranger.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
    job = Job("sgd")
    wrong = job.donor([port], token="another")
    assert wrong.join(5)
    assert isinstance(wrong.failed, PeerLost)
    donor = job.donor([port])
    while not donor.caught_up:
        job.train_beside(donor)
    donor.finish(job.step, {})
    assert donor.join(10)
    assert answer(pipe)[1] == job.digests()


def part(index=0, start=0, stop=1, layout=(), values=None):
    return {"kind": "piece", "parts": [[index, start, stop, list(layout), values or {}]]}


BAD = {
    "unknown kind": {"kind": "surprise"},
    "no parts": {"kind": "piece"},
    "parameter that is not there": part(index=99),
    "negative parameter": part(index=-1),
    "elements past the end": part(stop=10**9),
    "elements backwards": part(start=5, stop=1),
    "fraction of an element": part(stop=1.5),
    "too much state": part(layout=[["huge", "torch.float32", [10**6, 10**6], True]]),
    "negative shape": part(layout=[["odd", "torch.float32", [-1], True]]),
    "unknown type": part(layout=[["odd", "os.system", None, True]]),
    "bucket that is not there": {
        "kind": "gradients",
        "step": 0,
        "global_batch": 8,
        "buckets": [17],
    },
    "negative bucket": {"kind": "gradients", "step": 0, "global_batch": 8, "buckets": [-1]},
    "another model": {
        "kind": "form",
        "description": {"parameters": [], "buffers": [], "optimizer": []},
    },
    "another optimizer": None,
}


@pytest.mark.parametrize("what", BAD)
def test_a_frame_that_makes_no_sense_is_refused(what):
    job = Job("sgd")
    receiver = job.receiver(share_memory=False)
    header = BAD[what] or {
        "kind": "start",
        "values": {"groups": [], "state": {}},
    }
    found = []

    def run():
        try:
            receiver.run(wait_s=10)
        except (TransferError, StateMismatch) as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    with socket.create_connection(("127.0.0.1", receiver.port)) as sock:
        donor = Channel(sock, 10)
        donor.send(encode({"kind": "greeting", "version": VERSION, "token": TOKEN}))
        assert donor.receive()["kind"] == "hello"
        donor.send(encode({"kind": "stream"}))
        assert donor.receive()["kind"] == "welcome"
        donor.send(encode(header))
        thread.join(10)
    assert not thread.is_alive()
    assert isinstance(found[0], TransferError | StateMismatch)
    assert not isinstance(found[0], PeerLost), found


def test_headers_have_a_size():
    with pytest.raises(TransferError, match="limit"):
        encode({"kind": "values", "text": "x" * MAX_HEADER_BYTES})
    with pytest.raises(TransferError, match="cannot be sent"):
        encode({"kind": "values", "value": object()})
    assert json.loads(encode({"kind": "x"})[4:]) == {"kind": "x"}


def test_values_that_json_cannot_say_are_a_failure_not_an_exception(spawn, answer):
    _, pipe = spawn(join, "sgd", 0, {}, {})
    job = Job("sgd")
    donor = job.donor([answer(pipe)])
    donor.finish(0, {"model": job.model})
    assert donor.join(10)
    assert "cannot be sent" in str(donor.failed)
    assert answer(pipe)[0] == "PeerLost"


@pytest.mark.parametrize("share", [False, True])
def test_cancel_in_the_middle_leaves_no_thread(spawn, answer, share):
    _, pipe = spawn(join, "adam", 1, {}, {"share_memory": share})
    job = Job("adam")
    donor = job.donor([answer(pipe)], piece_bytes=PIECE_BYTES)
    half_way(job, donor)
    started = time.monotonic()
    donor.cancel()
    assert time.monotonic() - started < 0.1
    assert donor.join(2)
    donor.cancel()
    job.train_step([donor])
    assert isinstance(donor.failed, Exception)
    assert not [thread for thread in threading.enumerate() if thread.name == "state-donor"]
    assert answer(pipe)[0] == "PeerLost"


def test_cancel_before_anybody_answers():
    """A listener that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        donor = Job("sgd").donor([silent.getsockname()[1]])
        connection, _ = silent.accept()
        donor.cancel()
        assert donor.join(2)
        connection.close()


@pytest.mark.parametrize("is_connected", [False, True])
def test_receiver_can_be_cancelled(spawn, is_connected):
    job = Job("adam", seed=2)
    receiver = job.receiver()
    found = []

    def run():
        try:
            receiver.run(wait_s=100)
        except TransferError as error:
            found.append(error)

    update, applied = job.update, threading.Event()

    def note(step, global_batch):
        update(step, global_batch)
        applied.set()

    job.update = note
    thread = threading.Thread(target=run)
    thread.start()
    if is_connected:
        spawn(give, "adam", receiver.port, {"piece_bytes": PIECE_BYTES})
        assert applied.wait(20)
    receiver.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(found[0], Cancelled)


def test_state_of_another_model_is_refused(spawn, answer):
    job = Job("adam", seed=2, width=50)
    receiver = job.receiver()
    spawn(send, "adam", receiver.port, {})
    with pytest.raises(StateMismatch, match=r"wide\.weight"):
        receiver.run(wait_s=100)


def test_gradients_in_other_buckets_are_refused_and_both_sides_say_why():
    job, other = Job("adam"), Job("adam", seed=2)
    other.layout.reverse()
    receiver = other.receiver()
    donor = job.donor([receiver.port])
    with pytest.raises(LayoutError, match="gradient buckets are not those of this worker"):
        receiver.run(wait_s=100)
    assert donor.join(20)
    assert "the job's gradient buckets are not those" in str(donor.failed)


def test_who_greets_a_byte_at_a_time_is_turned_away_in_time():
    job = Job("sgd")
    receiver = job.receiver()
    ended = threading.Event()

    def run():
        with suppress(TransferError):
            receiver.run(wait_s=100)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    with socket.create_connection(("127.0.0.1", receiver.port)) as stranger:
        stranger.settimeout(0.2)
        started = time.monotonic()
        greeting = encode({"kind": "greeting", "token": "x" * 3000})
        with suppress(ConnectionError):
            for byte in greeting:
                stranger.sendall(bytes([byte]))
                try:
                    if stranger.recv(1) == b"":
                        break
                except TimeoutError:
                    pass
        assert time.monotonic() - started < 10
    receiver.cancel()
    assert ended.wait(5)
