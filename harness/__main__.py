"""``python -m harness``: one run, a sweep, or a study. ``--help`` explains."""

from __future__ import annotations

from harness.interrupts import ends_at_once, run_command

if __name__ == "__main__":
    with ends_at_once():
        from harness.command_line import main
    run_command(main)
