"""Program ``elastrace``: every command under one name."""

from __future__ import annotations

from harness.command_names import is_program
from harness.machine.starting import end_at_once_until_main

end_at_once_until_main(is_command=is_program())
