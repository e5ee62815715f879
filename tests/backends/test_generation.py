"""Who may go when, of the workers of a generation: on what they say and how they end."""

from dataclasses import dataclass, field

import pytest

from harness.contracts.process import Exit
from systems.restart.generation import Generation
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.wire.messages import Left, Progress
from systems.runtime.wire.protocol import kind_of

KILLED = Exit(0, -9, "killed by SIGKILL")


@dataclass
class Sent:
    """A server that only notes what is sent to whom."""

    messages: list = field(default_factory=list)

    def send(self, connection, message):
        self.messages.append((connection, kind_of(message)))

    def drain(self, connection):
        pass

    def close_connection(self, connection):
        pass


@pytest.fixture
def generation():
    server = Sent()
    made = Generation([], [], JobServices("token", None, None, server, None))
    made.handles = {rank: 100 + rank for rank in range(3)}
    made.connections = {rank: f"to {rank}" for rank in range(3)}
    return made


def leave(generation, *ranks):
    for rank in ranks:
        generation.note(rank, Left(progress=Progress(1, 12, 0.1, 0.0), finished=True, overruns=0))


def test_nobody_goes_while_another_trains(generation):
    leave(generation, 0, 1)
    assert generation.services.server.messages == []
    leave(generation, 2)
    assert generation.services.server.messages == [("to 1", "exit"), ("to 2", "exit")]


def test_one_that_died_after_its_last_step_is_not_waited_for(generation):
    """It cannot say that it left; the others waited for that until they were overdue."""
    leave(generation, 0, 1)
    generation.exited(2, KILLED)
    assert ("to 1", "exit") in generation.services.server.messages
    assert generation.unexplained_end().reason == "worker 2: killed by SIGKILL"


def test_one_that_dies_in_a_step_lets_nobody_go(generation):
    generation.exited(2, KILLED)
    leave(generation, 1)
    assert generation.services.server.messages == []
