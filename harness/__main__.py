"""``python -m harness``: one run, a sweep, or a study. ``--help`` explains."""

from __future__ import annotations

from harness.cli import main
from harness.machine.interrupts import run_command

if __name__ == "__main__":
    run_command(main)
