"""Worker of an elastic job: its training loop, and how it joins, leaves and recovers."""
