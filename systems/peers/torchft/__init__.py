"""Training with torchft as a stand-alone program."""

from harness.machine.starting import end_at_once_until_main

end_at_once_until_main()
