"""Messages of all control channels: whatever arrives is a message of the channel, or refused."""

import ast
import inspect
import json
import textwrap
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.elastic.driver import job as elastic_job
from systems.elastic.leader.server import LeaderServer
from systems.elastic.wire import messages as elastic
from systems.elastic.worker.leader_client import LeaderClient
from systems.launchers.hosts import messages as hosts
from systems.launchers.hosts.agent import Agent
from systems.launchers.hosts.link import HostLink
from systems.restart.job import CHANNELS as RESTART
from systems.restart.job import JobGroup
from systems.runtime.wire.control import LineBuffer
from systems.runtime.wire.messages import (
    FROM_STORE,
    BeatRequest,
    CheckpointKnown,
    RankGreeting,
    StoreGreeting,
)
from systems.runtime.wire.protocol import (
    ControlError,
    Greeting,
    JsonObject,
    encode,
    kind_of,
)
from systems.script import messages as script
from systems.script.user_job import UserJob
from systems.torchft import messages as torchft
from systems.torchft.job import TorchftJob
from systems.torchrun import messages as torchrun
from systems.torchrun.agents import Agents
from systems.torchrun.job import TorchrunJob
from tests.backends.channels import DIRECTIONS, TABLES, leaves
from tests.examples import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, "\ud800", 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def values(kind):
    """Return a strategy for values of a field of this type."""
    if isinstance(kind, type) and issubclass(kind, JsonObject):
        return st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2).map(JsonObject)
    info = msgspec.inspect.type_info(kind)
    return _of(info)


def _of(info):
    kinds = msgspec.inspect
    match info:
        case kinds.Metadata():
            return _of(info.type)
        case kinds.IntType():
            least = info.ge if info.ge is not None else -(2**63)
            return st.integers(least, info.le if info.le is not None else 2**63 - 1)
        case kinds.FloatType():
            return NUMBERS
        case kinds.BoolType():
            return st.booleans()
        case kinds.StrType():
            return TEXTS
        case kinds.NoneType():
            return st.none()
        case kinds.LiteralType():
            return st.sampled_from(info.values)
        case kinds.UnionType():
            return st.one_of([_of(each) for each in info.types])
        case kinds.VarTupleType():
            return st.lists(_of(info.item_type), max_size=2).map(tuple)
        case kinds.TupleType():
            return st.tuples(*map(_of, info.item_types))
        case kinds.DictType():
            return st.dictionaries(_of(info.key_type), _of(info.value_type), max_size=2)
        case kinds.StructType() | kinds.DataclassType():
            return st.builds(info.cls, **{each.name: _of(each.type) for each in info.fields})
        case kinds.CustomType():
            return values(info.cls)
    raise AssertionError(info)


@st.composite
def messages(draw, inbound):
    """Return a message of a direction."""
    kind = draw(st.sampled_from(inbound.classes))
    found = draw(_of(msgspec.inspect.type_info(kind)))
    return msgspec.structs.replace(found, version=1) if isinstance(found, Greeting) else found


def is_sound(inbound, found):
    """True for a list of the direction's messages, or a refusal that names the sender."""
    if isinstance(found, ControlError):
        return str(found).startswith("worker w3: ")
    return all(type(message) in inbound.classes for message in found)


def read(inbound, data):
    """Feed bytes to a parser; return the messages, or the refusal."""
    try:
        return list(LineBuffer(inbound, sender="worker w3").feed(data))
    except ControlError as error:
        return error


each_direction = pytest.mark.parametrize("inbound", DIRECTIONS.values(), ids=DIRECTIONS)


@each_direction
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_messages_arrive_as_they_were_sent(inbound, data):
    sent = data.draw(st.lists(messages(inbound), max_size=3))
    assert all(type(message) in inbound.classes for message in sent)
    found = read(inbound, b"".join(map(encode, sent)))
    assert [encode(each) for each in found] == [encode(each) for each in sent]
    assert [type(each) for each in found] == [type(each) for each in sent]


@each_direction
@settings(max_examples=examples(60), deadline=None)
@given(data=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused_or_a_message(inbound, data):
    found = read(inbound, data + b"\n")
    assert is_sound(inbound, found)


@each_direction
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_message_with_one_broken_field_is_refused_or_a_message(inbound, data):
    told = json.loads(encode(data.draw(messages(inbound))))
    place, key = data.draw(st.sampled_from(list(_places(told))))
    way = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if way == "remove" and isinstance(place, dict):
        del place[key]
    elif way == "add" and isinstance(place, dict):
        place[data.draw(st.text(max_size=5))] = data.draw(JSON)
    else:
        place[key] = data.draw(JSON)
    line = json.dumps(told).encode()
    if data.draw(st.booleans()):
        line = line[: data.draw(st.integers(0, len(line)))]
    found = read(inbound, line + b"\n")
    assert is_sound(inbound, found)


def _places(value):
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def test_a_message_without_a_kind_is_refused_also_where_there_is_only_one():
    assert len(script.TO_ASKING.classes) == 1
    found = read(script.TO_ASKING, b'{"status":"done"}\n')
    assert "missing required field kind" in str(found)
    assert isinstance(read(script.TO_ASKING, b'{"kind":"","impossible":1}\n'), ControlError)


def test_every_message_is_in_exactly_one_table():
    counted = Counter(one for table in TABLES for one in table)
    assert set(counted) == set(leaves())
    assert set(counted.values()) == {1}


def test_every_message_is_accepted_in_some_direction_and_no_tag_means_two():
    accepted = {one for inbound in DIRECTIONS.values() for one in inbound.classes}
    assert accepted == set(leaves())
    for name, inbound in DIRECTIONS.items():
        tags = Counter(map(kind_of, inbound.classes))
        assert set(tags.values()) == {1}, name


def test_every_message_says_what_it_is_for():
    for one in leaves():
        assert one.__doc__, one
        if not issubclass(one, script.RequestAnswer):
            assert " to " in one.__doc__, one


@pytest.mark.parametrize("one", leaves(), ids=lambda one: one.__name__)
def test_numbers_have_bounds(one):
    """Only a seed has none: any whole number is one."""
    for each in msgspec.inspect.type_info(one).fields:
        if isinstance(each.type, msgspec.inspect.IntType) and each.name != "seed":
            assert None not in (each.type.ge, each.type.le), each.name


def matched(*functions):
    """Return the names of the classes that functions compare a message with."""
    found = set()
    for function in functions:
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if isinstance(node, ast.MatchClass):
                found.add(node.cls.id)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                found |= {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
    return found


def names(classes):
    return {one.__name__ for one in classes}


def test_a_restarting_job_handles_all_that_it_accepts():
    assert names(RESTART.inbound[RankGreeting].classes) <= matched(JobGroup.heard)


def test_an_elastic_job_handles_all_that_it_accepts():
    accepted = set(elastic.DRIVER_CHANNELS.inbound[elastic.MemberGreeting].classes)
    tables = [elastic_job.OF_JOB, elastic_job.OF_MEMBERS, elastic_job.HANDLED_ELSEWHERE]
    counted = Counter(one for table in tables for one in table)
    assert set(counted) == accepted
    assert set(counted.values()) == {1}
    assert names(FROM_STORE.classes) <= matched(elastic_job.ElasticJob._heard_store)
    for kind, handle in {**elastic_job.OF_JOB, **elastic_job.OF_MEMBERS}.items():
        wanted = inspect.signature(handle).parameters["message"].annotation
        assert wanted == kind.__name__


def test_a_leader_handles_all_that_it_accepts():
    (inbound,) = elastic.LEADER_CHANNELS.inbound.values()
    assert names(inbound.classes) <= matched(LeaderServer._input)


def test_an_elastic_worker_handles_all_that_it_accepts():
    handled = matched(LeaderClient._dispatch, LeaderClient._receive)
    before = {"ElasticOrder", BeatRequest.__name__, CheckpointKnown.__name__}
    assert names(elastic.TO_MEMBER.classes) <= handled | before
    assert names(elastic.FROM_LEADER.classes) <= handled


def test_a_torchrun_job_handles_all_that_it_accepts():
    channels = torchrun.CHANNELS.inbound
    workers = matched(TorchrunJob._heard_worker)
    assert names(channels[torchrun.RoundGreeting].classes) <= workers
    others = matched(Agents.heard)
    assert names(channels[torchrun.AgentGreeting].classes) <= others
    assert names(channels[StoreGreeting].classes) <= others


def test_an_agent_of_a_host_handles_all_that_it_accepts():
    before = {"CloseAgent"}  # ends the loop itself
    assert names(hosts.TO_AGENT.classes) <= matched(Agent._obey) | before
    (inbound,) = hosts.CHANNELS.inbound.values()
    assert names(inbound.classes) <= matched(HostLink.heard)


def test_a_torchft_job_handles_all_that_it_accepts():
    channels = torchft.CHANNELS.inbound
    replicas = matched(TorchftJob._heard_replica)
    assert names(channels[torchft.ReplicaGreeting].classes) <= replicas
    lighthouse = matched(TorchftJob._heard_lighthouse)
    assert names(channels[torchft.LighthouseGreeting].classes) <= lighthouse


def test_a_script_s_job_handles_all_that_it_accepts():
    (inbound,) = script.CHANNELS.inbound.values()
    assert names(inbound.classes) <= matched(UserJob.request)
