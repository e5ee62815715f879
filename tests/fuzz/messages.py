"""Lines of the control channels, read by the decoder of each direction.

The first byte of an input chooses the direction, the second the sizes in which the bytes arrive.
"""

from __future__ import annotations

from pathlib import Path

from systems.elastic.wire import messages as elastic
from systems.elastic.wire.recovery_plan import Halted, Membership, ResumePlan
from systems.launchers.hosts import messages as hosts
from systems.restart.job import CHANNELS as RESTART
from systems.restart.order import TO_WORKER
from systems.runtime.wire import messages as shared
from systems.runtime.wire.control import MAX_GREETING_BYTES, LineBuffer
from systems.runtime.wire.control_server import Admission, Channels, Connection, ControlServer
from systems.runtime.wire.protocol import ControlError, Inbound, Message, encode
from systems.script import messages as script
from systems.torchft import messages as torchft
from systems.torchft.order import Target as MembershipTarget
from systems.torchrun import messages as torchrun
from tests.fuzz.edits import Choices
from tests.fuzz.target import Target

_SERVERS = (
    RESTART, elastic.DRIVER_CHANNELS, elastic.LEADER_CHANNELS, torchrun.CHANNELS, script.CHANNELS,
    torchft.CHANNELS, hosts.CHANNELS,
)  # fmt: skip
_DIRECTIONS: tuple[Inbound, ...] = (
    shared.TO_STORE,
    TO_WORKER,
    elastic.TO_MEMBER,
    elastic.FROM_LEADER,
    torchrun.TO_AGENT,
    script.TO_ASKING,
    hosts.TO_AGENT,
    torchft.TO_LIGHTHOUSE,
    torchft.TO_REPLICA,
    *(inbound for server in _SERVERS for inbound in server.inbound.values()),
)
_SIZES = (1, 7, 64, 1 << 16)


class _Stranger(Connection):
    """Connection without a socket."""

    def __init__(self, channels: Channels) -> None:
        server = object.__new__(ControlServer)
        server._admit = {"job": Admission("secret", channels)}.get
        self.peer = "nowhere"
        self.buffer = LineBuffer(lambda line: server._greet(self, line), MAX_GREETING_BYTES)


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    which = choices.below(len(_DIRECTIONS) + len(_SERVERS))
    size = _SIZES[choices.below(len(_SIZES))]
    buffer: LineBuffer[Message]
    if which < len(_DIRECTIONS):
        buffer, accepted = LineBuffer(_DIRECTIONS[which]), _DIRECTIONS[which].classes
    else:
        channels = _SERVERS[which - len(_DIRECTIONS)]
        buffer = _Stranger(channels).buffer
        inbounds = (channels.greetings, *channels.inbound.values())
        accepted = tuple(one for inbound in inbounds for one in inbound.classes)
    line = choices.rest
    for start in range(0, len(line), size):
        for message in buffer.feed(line[start : start + size]):
            assert isinstance(message, accepted)
            encode(message)


_PROGRESS = shared.Progress(3, 36, 0.25, 7.5)
_MEMBERS = Membership(("w1", "w2"), 12)
_PLAN = ResumePlan(
    membership=_MEMBERS, from_generation=3, step=9, source="w1", behind={"w2": ("h", 4)},
    from_checkpoint=False, change_id=None,
)  # fmt: skip
_SEEDS: tuple[Message, ...] = (
    shared.StoreOrder(address="127.0.0.1"),
    shared.SetTarget(target_step=9),
    elastic.Adjust(change_id=-1, attempt=1, membership=_MEMBERS, joiners=("w2",)),
    elastic.Resume(generation=4, plan=_PLAN),
    torchrun.KillWorker(pid=1),
    shared.Failed(reason="an error"),
    shared.finished(_PROGRESS, {"digest": "ab"}, {"loss": float("nan")}),
    elastic.HaltedAt(number=4, report=Halted(3, -1, "h", 5, "", _MEMBERS, 2, ("w3",))),
    torchrun.Measured(phase="stop", began=1.0, ended=2.0),
    torchft.GenerationBegun(progress=_PROGRESS, members=(0, 1), is_whole=True, phases_s={"g": 1.0}),
    MembershipTarget(number=1, members=(0, 2), global_batch=12, leaving=(1,)),
    torchft.ReplicaGreeting(job_id="job", token="secret", run=1, number=0, pid=1),
    script.Profile(steps=3, min=1, max=2),
    script.RequestAnswer(status="done", step=3, slots=(0, 1), stopping_time_s=None),
    shared.RankGreeting(job_id="job", token="secret", generation=1, rank=0, pid=1),
    elastic.LeaderGreeting(
        job_id="job", token="secret", worker="w1", status=elastic.MemberStatus(highest=2)
    ),
)
TARGET = Target(
    "messages", _read, (ControlError,),
    [
        *(
            bytes([which, 3]) + encode(message)
            for message in _SEEDS
            for which, inbound in enumerate(_DIRECTIONS)
            if type(message) in inbound.classes
        ),
        *(
            bytes([len(_DIRECTIONS) + which, 3]) + encode(message)
            for message in _SEEDS
            for which, server in enumerate(_SERVERS)
            if type(message) in server.greetings.classes
        ),
    ],
)  # fmt: skip
