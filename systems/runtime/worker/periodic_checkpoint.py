"""Checkpoints at regular steps, left out if the disk has no room."""

from __future__ import annotations

from collections.abc import Callable

from harness.machine.failures import is_of_machine
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import Warned
from systems.runtime.wire.protocol import sendable


class PeriodicCheckpoint:
    """Writer of checkpoints as they fall due; a failure of the disk does not stop training.

    The previous checkpoint stays, and the next one is tried as usual. The driver is told of the
    first that is left out, but not of those right after it.
    """

    def __init__(self, client: ControlClient, save: Callable[[], None]) -> None:
        """Prepare to write. Args: ``save``: writes a checkpoint, and raises OSError if the disk
        refuses."""
        self._client = client
        self._save = save
        self._is_told = False

    def write(self, step: int) -> None:
        """Write the checkpoint of a step, if the disk has room for it.

        Raises:
            OSError: the reason is something other than a full or broken disk.
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
                self._client.send(Warned(text=sendable(text)))
            self._is_told = True
        else:
            self._is_told = False
