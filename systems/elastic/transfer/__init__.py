"""How a job's state gets from workers that have it to workers that do not."""
