"""Groups between real processes: they work, they are exchanged, they are given up."""

import signal
import threading
import time

import pytest
import torch

from systems.runtime.wire.groups import GroupLost, build_group
from tests.backends.members import Members, last_word
from tests.patience import eventually

AT_ONCE_S = 2.0
"""Far more than it takes, far less than any time-out of gloo's."""


@pytest.fixture
def members():
    members = Members()
    yield members
    members.end()


def build(port, generation, rank, size):
    return build_group("127.0.0.1", port, generation, rank, size, 30.0)


def sums_and_copies(pipe, port, rank, size):
    group = build(port, 1, rank, size)
    tensors = [torch.full((1000,), float(rank + i)) for i in range(5)]
    pending = [group.all_reduce(tensor) for tensor in tensors]
    copied = torch.full((7,), rank, dtype=torch.uint8)
    copying = group.broadcast(copied, 1)
    for operation in (*pending, copying):
        operation.wait()
    assert all(operation.is_over for operation in pending)
    assert group.wait_until_quiet(30.0)
    group.drop()
    with pytest.raises(GroupLost, match="generation 1 was dropped"):
        group.all_reduce(copied)
    last_word(pipe, ([t[0].item() for t in tensors], copied.tolist()))


def test_many_operations_under_way(members):
    expected = [3.0, 6.0, 9.0, 12.0, 15.0], [1] * 7
    assert members.together(sums_and_copies, 3) == [expected] * 3


def test_one_alone_needs_nobody():
    group = build_group("nowhere", 0, 1, 0, 1, 1.0)
    tensor = torch.ones(3)
    group.all_reduce(tensor).wait()
    group.broadcast(tensor, 0).wait()
    assert tensor.tolist() == [1.0] * 3
    assert group.is_quiet
    group.give_up()
    group.give_up()
    with pytest.raises(GroupLost, match="generation 1 was given up"):
        group.all_reduce(tensor)


def switches(pipe, port, rank, size):
    """Sums go on while the next group is built; all switch once it is there for all."""
    group, num_sums = build(port, 1, rank, size), 0
    for generation in (2, 3):
        found = []
        builder = threading.Thread(
            target=lambda g=generation, f=found: f.append(build(port, g, rank, size))
        )
        if rank > 0:
            builder.start()
        is_everywhere = False
        while not is_everywhere:
            built = torch.tensor([float(len(found))])
            group.all_reduce(built).wait()
            num_sums += 1
            is_everywhere = built.item() == size
            if builder.ident is None:  # so the others' waited beside a sum at least
                builder.start()
        group.drop()
        group = found[0]
    last = torch.ones(1)
    group.all_reduce(last).wait()
    last_word(pipe, (group.generation, last.item(), num_sums >= 4))


def test_a_group_is_built_beside_the_work_of_another(members):
    assert members.together(switches, 3) == [(3, 3.0, True)] * 3


def survives(pipe, port, rank, size):
    """Hangs in a sum that the last member never begins; goes on with the others when told."""
    group = build(port, 1, rank, size)
    tensor = torch.ones(1_000_000)
    group.all_reduce(tensor).wait()
    pipe.send("ready")
    if rank == size - 1:
        pipe.recv()
    given_up = []

    def listen():
        assert pipe.recv() == "give up"
        given_up.append(time.monotonic())
        group.give_up()

    listener = threading.Thread(target=listen)
    pending = [group.all_reduce(tensor) for _ in range(3)]
    pipe.send("hanging")
    listener.start()
    with pytest.raises(GroupLost, match="generation 1"):
        pending[0].wait()
    lost_at = time.monotonic()
    listener.join()
    released_s = lost_at - given_up[0]
    with pytest.raises(GroupLost):
        pending[-1].wait()
    with pytest.raises(GroupLost):
        group.all_reduce(tensor)
    again = build(port, 2, rank, size - 1)
    total = torch.ones(10)
    again.all_reduce(total).wait()
    pipe.send((released_s, total[0].item()))
    assert pipe.recv() == "dead"
    last_word(pipe, group.wait_until_quiet(30.0))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_give_up_releases_what_hangs_at_once(members, number):
    started = [members.start(survives, rank, 3) for rank in range(3)]
    assert [member.hear() for member in started] == ["ready"] * 3
    *survivors, victim = started
    victim.signal(number)
    assert [member.hear() for member in survivors] == ["hanging"] * 2
    for member in survivors:
        member.tell("give up")
    for member in survivors:
        released_s, total = member.hear()
        # After a kill gloo itself may have been faster.
        assert released_s < AT_ONCE_S
        assert total == 2.0
    victim.end()
    for member in survivors:
        member.tell("dead")
    # Every operation left behind has ended, so the memory it was given is free.
    assert [member.hear() for member in survivors] == [True, True]


def leaves_unheard(pipe, port, rank, size):
    """Drops a group of which it never waited for one sum, and another beside a sum that hangs."""
    group = build(port, 1, rank, size)
    own = torch.ones(1000)
    group.all_reduce(own)
    last = torch.ones(3)
    group.all_reduce(last).wait()
    eventually(lambda: group.is_quiet)
    added = own[0].item(), last[0].item()
    group.drop()
    eventually(lambda: group._process_group is None)
    later = build(port, 2, rank, size)
    if rank == 1:  # begins nothing, and goes when it is killed
        pipe.send(added)
        pipe.recv()
    hanging = [later.all_reduce(own) for _ in range(2)]
    later.drop()
    assert not later.is_quiet
    assert later._process_group is not None, "an operation that is under way is left its group"
    pipe.send(added)
    assert pipe.recv() == "killed"
    eventually(lambda: later.is_quiet)
    eventually(lambda: later._process_group is None)
    assert not any(operation.is_over for operation in hanging)
    with pytest.raises(GroupLost, match="lost an operation"):
        hanging[0].wait()
    last_word(pipe, "freed")


def test_a_group_is_freed_also_where_nobody_waited_for_what_it_did(members):
    started = [members.start(leaves_unheard, rank, 2) for rank in range(2)]
    assert [member.hear() for member in started] == [(2.0, 2.0)] * 2
    started[1].end()
    started[0].tell("killed")
    assert started[0].hear() == "freed"


def hears_at_last(pipe, port, rank, size):
    """An operation fails while nobody waits: who does in the end is told, and nobody hangs."""
    group = build(port, 1, rank, size)
    tensors = [torch.ones(1_000_000) for _ in range(3)]
    group.all_reduce(tensors[0]).wait()
    pipe.send("ready")
    assert pipe.recv() == "begin"
    pending = [group.all_reduce(tensor) for tensor in tensors]
    pipe.send("begun")
    assert pipe.recv() == "dead"
    eventually(lambda: group.is_quiet)
    for operation in pending:
        with pytest.raises(GroupLost, match="generation 1 lost an operation"):
            operation.wait()
        assert operation._work is None, "it would keep the connections open"
    with pytest.raises(GroupLost, match="lost an operation"):
        group.all_reduce(tensors[0])
    last_word(pipe, "told")


def test_what_failed_while_nobody_waited_is_told_to_who_does(members):
    survivor, victim = (members.start(hears_at_last, rank, 2) for rank in range(2))
    assert [survivor.hear(), victim.hear()] == ["ready"] * 2
    survivor.tell("begin")
    assert survivor.hear() == "begun"
    victim.end()
    survivor.tell("dead")
    assert survivor.hear() == "told"


def test_a_member_that_does_not_come_is_said(members):
    with pytest.raises(RuntimeError):
        build_group("127.0.0.1", members.store.port, 1, 0, 2, 0.5)
