import pytest

from tests.elastic.transfer.jobs import processes


@pytest.fixture
def spawn():
    """Starts ``function(pipe, *arguments)`` in a process of its own; all are ended after."""
    context = processes()
    children = []

    def start(function, *arguments):
        here, there = context.Pipe()
        child = context.Process(target=function, args=(there, *arguments), daemon=True)
        child.start()
        there.close()
        children.append((child, here))
        return child, here

    yield start
    for child, here in children:
        child.kill()
        child.join()
        here.close()


@pytest.fixture
def answer():
    def receive(pipe, timeout_s=100):
        assert pipe.poll(timeout_s), "no answer from the other process"
        return pipe.recv()

    return receive
