"""Transfer of a job's state from workers that have it to workers that do not."""
