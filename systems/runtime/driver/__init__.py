"""Driver of jobs: one process that starts, watches and ends the workers of all jobs."""
