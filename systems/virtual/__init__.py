"""Virtual workers: N logical workers of a job on any number of slots, with the bits of N."""
