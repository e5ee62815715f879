"""Processes that form groups in tests, and the store over which they meet.

They are forked from a server that has imported torch and runs nothing.
"""

import multiprocessing
import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["torch", "systems.runtime.worker.trainer", "tests.backends.tiny_workload", __name__]
)
TIMEOUT_S = 60.0
# Torch imports a good part of itself only when the first optimizer is made: here, once.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


class Member:
    """One process: it runs ``entry(pipe, port, *arguments)``."""

    def __init__(self, entry, port, *arguments):
        self._pipe, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_run, args=(entry, other, port, *arguments))
        self.process.start()
        other.close()

    def tell(self, message):
        self._pipe.send(message)

    def hear(self):
        assert self._pipe.poll(TIMEOUT_S), "the member says nothing"
        return self._pipe.recv()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self):
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


class Members:
    """Starts members and ends them all."""

    def __init__(self):
        self.store = dist.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60)
        )
        self._started = []

    def start(self, entry, *arguments):
        member = Member(entry, self.store.port, *arguments)
        self._started.append(member)
        return member

    def together(self, entry, size, *arguments):
        """What ``size`` members say as their last word, by rank."""
        started = [self.start(entry, rank, size, *arguments) for rank in range(size)]
        said = [member.hear() for member in started]
        for member in started:
            member.tell("end")
        return said

    def end(self):
        for member in self._started:
            member.end()


def _run(entry, pipe, port, *arguments):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    try:
        entry(pipe, port, *arguments)
    except BaseException as error:
        pipe.send(error)
        raise
    finally:
        os._exit(0)  # gloo's threads may be in the middle of something


def last_word(pipe, word):
    """Say it, and stay until all have: whoever goes breaks what the others still receive."""
    pipe.send(word)
    pipe.recv()
