"""A process that imports torch once and then forks what the tests need: stores and candidates.

Each line it reads is JSON: the path of a pipe for the child's output, then ``store``, or
``candidate``, kind, port, key, name, expiry_s and refresh_s. It answers with the child's
process id.
"""

import ctypes
import json
import os
import signal
import sys
import time

from systems.elastic.election.election import Election
from systems.runtime.driver.store_server import StoreServer
from tests.elastic.stores import open_store

PR_SET_PDEATHSIG = 1


def main():
    # A child that is dead shall be gone without being waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            pipe, what, *arguments = json.loads(line)
            with open(pipe, "w") as out:
                kept = {"store": store, "candidate": candidate}[what](out, *arguments)
                signal.pause()
            del kept
        print(child, flush=True)


def store(out):
    server = StoreServer("127.0.0.1")
    print(server.port, file=out, flush=True)
    return server


def candidate(out, kind, port, key, name, expiry_s, refresh_s):
    """Writes the address of every leader it learns of, with the time of the monotonic clock."""

    def tell(address):
        print(time.monotonic(), address, file=out, flush=True)

    return Election(lambda: open_store(kind, port), key, f"host:{name}", expiry_s, refresh_s, tell)


if __name__ == "__main__":
    main()
