"""All control channels by direction, with the classes of messages that each accepts."""

import importlib
import pkgutil

import systems
from systems.elastic.wire import messages as elastic
from systems.launchers.hosts import messages as hosts
from systems.restart import job as restart
from systems.restart.order import TO_WORKER, WorkerOrder
from systems.runtime.wire import messages as shared
from systems.runtime.wire.protocol import Message
from systems.script import messages as script
from systems.torchft import messages as torchft
from systems.torchrun import messages as torchrun

_SERVERS = {
    "restart": restart.CHANNELS,
    "elastic": elastic.DRIVER_CHANNELS,
    "leader": elastic.LEADER_CHANNELS,
    "torchrun": torchrun.CHANNELS,
    "script": script.CHANNELS,
    "torchft": torchft.CHANNELS,
    "hosts": hosts.CHANNELS,
}
DIRECTIONS = {
    "to store": shared.TO_STORE,
    "to worker": TO_WORKER,
    "elastic to worker": elastic.TO_MEMBER,
    "leader to worker": elastic.FROM_LEADER,
    "torchrun to agent": torchrun.TO_AGENT,
    "hosts to agent": hosts.TO_AGENT,
    "answers": script.TO_ASKING,
    "torchft to lighthouse": torchft.TO_LIGHTHOUSE,
    "torchft to replica": torchft.TO_REPLICA,
    **{
        f"{name} after {greeting.__name__}": inbound
        for name, server in _SERVERS.items()
        for greeting, inbound in server.inbound.items()
    },
    **{f"{name} greetings": server.greetings for name, server in _SERVERS.items()},
}
"""Decoders of all directions, by name."""
TABLES = (
    *(shared.DRIVER_TO_PROCESS, shared.DRIVER_TO_STORE, shared.DRIVER_TO_WORKER),
    *(shared.PROCESS_TO_DRIVER, shared.STORE_TO_DRIVER, shared.WORKER_TO_DRIVER),
    *(elastic.DRIVER_TO_MEMBER, elastic.DRIVER_TO_LEADER, elastic.MEMBER_TO_DRIVER),
    *(elastic.LEADER_TO_DRIVER, elastic.MEMBER_TO_LEADER, elastic.LEADER_TO_MEMBER),
    *(torchrun.DRIVER_TO_AGENT, torchrun.AGENT_TO_DRIVER),
    *(hosts.DRIVER_TO_AGENT, hosts.AGENT_TO_DRIVER),
    *(torchft.DRIVER_TO_LIGHTHOUSE, torchft.DRIVER_TO_REPLICA),
    *(torchft.LIGHTHOUSE_TO_DRIVER, torchft.REPLICA_TO_DRIVER),
    *(script.REQUESTS, script.CHANGES, script.ANSWERS),
    (WorkerOrder,),
    tuple({greeting for server in _SERVERS.values() for greeting in server.inbound}),
)
"""Tables of classes; a channel accepts the sum of some."""


def leaves():
    """Return every class of messages of the project that has no subclass."""
    for module in pkgutil.walk_packages(systems.__path__, "systems."):
        if module.name.endswith((".messages", ".order")):
            importlib.import_module(module.name)
    found, waiting = [], [Message]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if not one.__subclasses__() and not one.__name__.startswith("_"):
            found.append(one)
    return found
