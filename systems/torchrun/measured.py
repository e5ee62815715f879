"""What TorchElastic measures of itself, passed on to the driver. Imports torch."""

from __future__ import annotations

import time

from torch.distributed.elastic.metrics.api import MetricData, MetricHandler, configure

from systems.runtime.control import ControlClient

GROUP = "torchelastic"
MEASURED = {
    "LocalElasticAgent._stop_workers.duration.ms": "stop",
    "SimpleElasticAgent._rendezvous.duration.ms": "rendezvous",
}
"""TorchElastic's own metrics that are passed on, and their names here."""


class Measured(MetricHandler):
    """A handler of TorchElastic's metrics which sends some of them to the driver."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def emit(self, metric_data: MetricData) -> None:
        """Called at the end of what was measured; the value is in milliseconds."""
        phase = MEASURED.get(metric_data.name)
        if phase is not None:
            ended = time.monotonic()
            began = ended - metric_data.value / 1000.0
            self._client.send({"kind": "span", "phase": phase, "began": began, "ended": ended})


def report_to(client: ControlClient) -> None:
    """From now on, send what is measured in this process."""
    configure(Measured(client), GROUP)
