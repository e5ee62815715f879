"""A launcher whose processes wait for ever, to be killed: NAME PREIMPORTED FOLDER."""

import sys
import threading
from pathlib import Path

from harness.contracts.launcher import ProcessSpec
from tests.backends.world import configured

PAUSE = threading.Event()

if __name__ == "__main__":
    name, preimported, folder = sys.argv[1:]
    launcher = configured("launcher", name, preimport=["json"])
    launcher.open()
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
                preimported=preimported == "True",
            )
        )
    while not all((Path(folder) / str(index)).exists() for index in range(2)):
        PAUSE.wait(0.02)
    print("waiting", flush=True)
    while True:
        launcher.ended()
        PAUSE.wait(1.0)
