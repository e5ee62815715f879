"""A launcher whose processes wait for ever, to be killed: NAME WARMTH FOLDER."""

import sys
import threading
from pathlib import Path

from harness.contracts.process import ProcessSpec, SpareSpec, Warmth
from tests.backends.world import configured

PAUSE = threading.Event()
SPARES = 2 * [SpareSpec("127.0.0.1", (), {}, "tests.backends.entries:prepare")]


def keep(launcher):
    launcher.keep(SPARES)
    while launcher.spares().ready < len(SPARES):
        launcher.ended()
        PAUSE.wait(0.02)


if __name__ == "__main__":
    name, warmth, folder = sys.argv[1:]
    launcher = configured("launcher", name, preimport=["json"])
    launcher.open()
    if Warmth(warmth).is_kept:
        keep(launcher)
    for index in range(2):
        launcher.start(
            ProcessSpec(
                name="forever",
                entry="tests.backends.entries:wait",
                argv=(f"{folder}/{index}",),
                env={},
                host="127.0.0.1",
                cores=(),
                log_path=Path(folder) / "log",
                warmth=Warmth(warmth),
            )
        )
    while not all((Path(folder) / str(index)).exists() for index in range(2)):
        PAUSE.wait(0.02)
    if Warmth(warmth).is_kept:  # those that were used are replaced
        keep(launcher)
    print("waiting", flush=True)
    while True:
        launcher.ended()
        PAUSE.wait(1.0)
