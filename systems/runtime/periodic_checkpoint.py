"""Checkpoints that no change needs: one that the disk has no room for is left out."""

from __future__ import annotations

from collections.abc import Callable

from harness.failures import is_of_machine
from systems.runtime.control import ControlClient


class PeriodicCheckpoint:
    """Writes checkpoints as they fall due; the job trains on without one that cannot be written.

    The checkpoint before it stays, and the next one is tried as usual. The driver is told of the
    first that is left out, and not of those right after it.
    """

    def __init__(self, client: ControlClient, save: Callable[[], None]) -> None:
        """Args: ``save`` writes one, and raises OSError where the disk refuses."""
        self._client = client
        self._save = save
        self._is_told = False

    def write(self, step: int) -> None:
        """Write the checkpoint of a step, if the disk has room for it.

        Raises:
            OSError: it cannot be written for another reason than a full or broken disk.
        """
        try:
            self._save()
        except OSError as error:
            if not is_of_machine(error):
                raise
            if not self._is_told:
                text = (
                    f"the checkpoint of step {step} cannot be written ({error}); training goes on,"
                    " and each checkpoint that falls due is tried again"
                )
                self._client.send({"kind": "warning", "text": text})
            self._is_told = True
        else:
            self._is_told = False
