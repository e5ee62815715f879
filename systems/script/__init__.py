"""Elastic training of a user's own script: ``python -m systems.script run SCRIPT.py``."""

from harness.machine.starting import end_at_once_until_main

end_at_once_until_main()
