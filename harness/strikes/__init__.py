"""A killer from outside: live replays whose processes and disk are struck at random moments."""
