"""Driver's side of an elastic job: its processes, its members, its changes."""
