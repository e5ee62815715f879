"""Systems that are compared: schedulers, placements, backends, launchers, and what these share."""
