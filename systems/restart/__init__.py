"""Stop and restart: all workers of a job end at one step, and the next generation starts."""
