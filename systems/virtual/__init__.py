"""Virtual workers: N logical workers of a job on any number of slots, with the bits of N
workers."""

from harness.machine.starting import end_at_once_until_main

end_at_once_until_main()
