"""Fault injection from outside: random strikes on the processes and disk of live replays."""
