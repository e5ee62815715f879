"""One part of the GPU set, in this process: ``PARENT CALL DEVICE FOLDER FILE``, options as JSON on
the standard input. Writes the numbers to FILE, as JSON; what goes wrong ends it with 1."""

import importlib
import json
import sys
from pathlib import Path

from harness.machine.parent_death import die_with_parent


def main():
    parent, call, device, folder, file = sys.argv[1:]
    die_with_parent(int(parent))
    module, _, name = call.partition(":")
    measure = getattr(importlib.import_module(module), name)
    numbers = measure(device, Path(folder), **json.loads(sys.stdin.read()))
    Path(file).write_text(json.dumps(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
