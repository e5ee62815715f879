"""A process that writes a byte after every 10 ms of an emulated device."""

from pathlib import Path

from workloads.emulated_device import occupy


def main(argv):
    with Path(argv[0]).open("ab", buffering=0) as file:
        while True:
            occupy(0.01)
            file.write(b".")
