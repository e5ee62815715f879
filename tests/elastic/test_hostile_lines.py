"""Nonsense on the control channels of running jobs: it costs at most the worker that sends it."""

import json
import select
import socket
import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.elastic.election.tcp_keystore import TcpKeyStore
from systems.elastic.wire.messages import LeaderGreeting, MemberGreeting, MemberStatus
from systems.elastic.worker.leader_client import LEADER_KEY
from systems.runtime.wire.protocol import MAX_MESSAGE_BYTES, ControlError, encode
from tests.backends.world import ENDS, descendants
from tests.elastic.histories import BATCH, STEP_S, check_samples, stop_free

WAIT_S = 10.0


def nonsense(token=""):
    """Lines that no process of ours sends, with this token."""
    greeting = {"job_id": "job", "token": token, "version": 1}
    return [
        b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{" * 4000 + b"\n",
        b"x" * MAX_MESSAGE_BYTES,
        json.dumps(greeting).encode() + b"\n",
        json.dumps({**greeting, "version": 2}).encode() + b"\n",
        json.dumps({**greeting, "kind": "adjust"}).encode() + b"\n",
        json.dumps({**greeting, "kind": "member_greeting", "worker": {}}).encode() + b"\n",
        json.dumps({**greeting, "kind": "leader_greeting", "worker": "w1"}).encode() + b"\n",
        encode(MemberGreeting(job_id="job", token=token, worker="w99", pid=1)),
    ]


def is_hung_up(address, data, world):
    """Send bytes, and return whether the other side ends the connection."""
    with socket.create_connection(address, WAIT_S) as stranger:
        stranger.settimeout(WAIT_S)
        try:
            stranger.sendall(data)
            until = time.monotonic() + WAIT_S
            while not select.select([stranger], [], [], 0)[0]:
                if time.monotonic() > until:
                    return False
                world.poll(0.01)
            return stranger.recv(1) == b""
        except ConnectionError:
            return True


def table(world):
    """What the driver knows of the job's processes."""
    return world.backend._driver._jobs["job"]._work.process_table


def leader_of(world):
    """Where the job's leader listens."""
    place = TcpKeyStore(*table(world).store_at).get(LEADER_KEY).rpartition("/")[0]
    host, _, port = place.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("is_known", [False, True], ids=["a stranger", "with the token"])
def test_nonsense_at_the_ports_of_driver_and_leader_disturbs_nothing(launcher, tmp_path, is_known):
    world = stop_free(launcher, tmp_path)
    try:
        world.until_change(world.start((0, 1, 2), batch=BATCH, step_s=STEP_S))
        world.until_step(5)
        token = world.backend._driver._admissions["job"].token if is_known else ""
        for address in (world.backend._driver._server.address, leader_of(world)):
            for data in nonsense(token):
                assert is_hung_up(address, data, world), data[:80]
            world.until_step(world.reports[-1].step + 3)
        world.do(ChangeKind.RESCALE, (0, 1))
        world.backend.set_target_step("job", 0)
        end = world.until_end()
        check_samples(world.job_dir(), end)
        assert not [r for r in world.reports if r.kind is ReportKind.SHRUNK]
    finally:
        world.backend.close()
    assert descendants() == []


def test_a_worker_that_sends_nonsense_is_lost_and_no_other(launcher, tmp_path):
    """Neither its job, nor another, nor the driver ends with it."""
    world = stop_free(launcher, tmp_path)
    try:
        world.until_change(world.start((0, 1), batch=BATCH, step_s=STEP_S))
        world.until_change(world.start((2,), batch=BATCH, step_s=STEP_S, job_id="other"))
        world.until_step(5)

        def refuse(line):
            raise ControlError("message 'switched': expected int at $.generation")

        # As if the next line of the second worker were nonsense.
        name = list(table(world).workers)[1]
        table(world).workers[name].connection.buffer.decode = refuse
        shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
        assert (shrunk.job_id, shrunk.slots, shrunk.lost_slots) == ("job", (0,), (1,))
        world.until_step(shrunk.step + 3)
        for job_id in ("job", "other"):
            world.backend.set_target_step(job_id, 0)
        ends = {}
        while len(ends) < 2:  # either may be the first
            end = world.until(lambda report: report.kind in ENDS)
            ends[end.job_id] = end.kind
        assert ends == dict.fromkeys(("job", "other"), ReportKind.FINISHED)
    finally:
        world.backend.close()
    assert descendants() == []


def test_a_known_greeting_that_names_another_worker_is_no_worker(launcher, tmp_path):
    """A leader counts it as a worker that is none of the job's, and the job trains on."""
    world = stop_free(launcher, tmp_path)
    try:
        world.until_change(world.start((0, 1), batch=BATCH, step_s=STEP_S))
        world.until_step(5)
        token = world.backend._driver._admissions["job"].token
        greeting = LeaderGreeting(
            job_id="job", token=token, worker="w99", status=MemberStatus(highest=0)
        )
        line = encode(greeting) + b'{"kind":"entered","generation":"a"}\n'
        assert is_hung_up(leader_of(world), line, world)
        world.until_step(world.reports[-1].step + 3)
        world.backend.set_target_step("job", 0)
        check_samples(world.job_dir(), world.until_end())
    finally:
        world.backend.close()
    assert descendants() == []
