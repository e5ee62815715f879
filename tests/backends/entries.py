"""What launcher tests have processes do. Loads nothing heavy."""

import json
import os
import signal
import sys


def describe(argv):
    """Write what this process finds around it."""
    path, *rest = argv
    facts = {
        "argv": rest,
        "env": dict(os.environ),
        "cores": sorted(os.sched_getaffinity(0)),
        "pid": os.getpid(),
        "imported": sorted(name for name in sys.modules if name.startswith("tests.")),
        "group": os.getpgid(0),
    }
    with open(path + ".partial", "w") as file:
        json.dump(facts, file)
    os.rename(path + ".partial", path)


def prepare(argv):
    """What a spare does first: print its arguments."""
    print("prepared", *argv)


def cannot_prepare(argv):
    """What a spare does that can never be ready."""
    raise LookupError("no device here")


def prepare_if_there(argv):
    """What a spare does that can be ready only once there is a file."""
    with open(argv[0]):
        pass


def leave(argv):
    """Print and exit with a code."""
    print("first words")
    print("last words", file=sys.stderr)
    return int(argv[0])


def leave_by_sys_exit(argv):
    sys.exit(argv[0])


def fail(argv):
    raise LookupError("nothing there")


def wait(argv):
    """Write our process id, then wait to be killed."""
    with open(argv[0] + ".partial", "w") as file:
        file.write(str(os.getpid()))
    os.rename(argv[0] + ".partial", argv[0])
    while True:
        signal.pause()


def wait_with_child(argv):
    """As ``wait``, with a child of our own."""
    if os.fork() == 0:
        argv = [argv[0] + ".child"]
    wait(argv)


def wait_with_slow_child(argv):
    """As ``wait_with_child``; the kernel needs time to take the child's memory back."""
    if os.fork() == 0:
        memory = bytearray(1) * 400_000_000
        wait([argv[0] + ".child", memory])
    wait(argv)
