"""Error of a script that uses the calls in a way that cannot work."""

from __future__ import annotations

from harness.errors import WorkerError


class ScriptError(WorkerError):
    """A script cannot be trained elastically as it is; the text says what to change."""


class DifferentWorkersError(ScriptError):
    """The workers of a job have come to different states, so that none of them may go on."""

    is_of_all = True
