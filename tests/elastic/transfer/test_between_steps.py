"""The ways that stand still: one to some, one to all of a group. Right for any optimizer."""

import pytest
from torch._C._distributed_c10d import TCPStore

from systems.elastic.transfer.peer import send_state
from systems.runtime.tensors import memory
from tests.elastic.transfer.jobs import TOKEN, Job, broadcast, receive, send


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", ["adam", "adafactor", "sgd"])
def test_peer_gives_the_whole_state(spawn, answer, name, share):
    _, there = spawn(receive, name, {"share_memory": share})
    _, here = spawn(send, name, answer(there), {})
    digests = answer(here)
    received, found = answer(there)
    assert found == digests
    assert (received.step, received.values) == (3, {"at": 7})


@pytest.fixture
def permitted(monkeypatch):
    """Whom this process has let read its memory, in order; the kernel does not tell."""
    libc, seen = memory._libc(), []

    class Libc:
        process_vm_readv = libc.process_vm_readv

        @staticmethod
        def prctl(option, process, *rest):
            seen.append(process.value)
            return libc.prctl(option, process, *rest)

    monkeypatch.setattr(memory, "_libc", Libc)
    return seen


def test_nobody_may_read_the_memory_after_a_transfer(spawn, answer, permitted):
    child, there = spawn(receive, "adam", {})
    job = Job("adam")
    send_state([("127.0.0.1", answer(there))], TOKEN, job.state, 3, {})
    assert answer(there)[0].step == 3
    assert permitted == [child.pid, 0]


def test_an_earlier_transfer_takes_no_later_ones_permission(permitted):
    earlier = memory.ReadingPermission(11)
    later = memory.ReadingPermission(12)
    earlier.end()
    assert permitted == [11, 12]
    later.end()
    later.end()
    assert permitted == [11, 12, 0]


@pytest.mark.parametrize("name", ["momentum", "adafactor"])
def test_broadcast_gives_the_roots_state_to_all(spawn, answer, name):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipes = [spawn(broadcast, name, store.port, rank)[1] for rank in range(3)]
    answers = [answer(pipe) for pipe in pipes]
    for pipe in pipes:
        pipe.send("all are there")
    received = [received for received, _ in answers]
    assert all((each.step, each.values) == (3, {"from": 1}) for each in received)
    assert answers[0][1] == answers[1][1] == answers[2][1]
