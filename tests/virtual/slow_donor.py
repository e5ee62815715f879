"""The tiny workload, in workers that take their time to send the gradients of a step.

Its constructor runs in the worker's process before anything is built there.
"""

import time

from systems.elastic.transfer.donor import Donor
from tests.backends.tiny_workload import Tiny

SEND_S = 0.1
"""Some ten steps of these tests."""


class SlowDonor(Tiny):
    """Whoever gives its state sends the gradients of every step only after a while."""

    def __init__(self, **options):
        def send_event(donor, event):
            time.sleep(SEND_S)
            usual(donor, event)

        usual = Donor._send_event
        if usual.__module__ != __name__:
            Donor._send_event = send_event
        super().__init__(**options)
