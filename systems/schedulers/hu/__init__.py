"""Allocation of nodes by column generation (Hu et al.)."""

from harness.machine.starting import end_at_once_until_main

end_at_once_until_main()
