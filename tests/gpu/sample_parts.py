"""Parts that need no training library, for tests of the program that runs parts."""

import os
import subprocess
import sys
from pathlib import Path


def describe(device, folder, found):
    return {"device": found, "num_devices": 1, "torch": "none"}


def count(device, folder, file):
    """Passes, and counts how often it was run."""
    path = Path(file)
    number = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(number))
    return {"number": number, "third": 1 / 3, "device": device, "empty": not [*folder.iterdir()]}


def fail_unless(device, folder, file):
    """Fails until there is a file."""
    assert Path(file).exists(), "the file is not there"
    return {}


def die(device, folder):
    """Ends without a word."""
    os._exit(3)


def hang(device, folder, file):
    """Never ends, nor does what it has started; both write down who they are."""
    code = "import signal; signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", code])
    Path(file).write_text(f"{os.getpid()} {child.pid}")
    child.wait()
