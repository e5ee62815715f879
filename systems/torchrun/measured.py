"""Forwarding of TorchElastic's own measurements to the driver. Imports torch."""

from __future__ import annotations

from torch.distributed.elastic.metrics.api import MetricData, MetricHandler, configure

from systems.runtime.wire.clock import driver_now
from systems.runtime.wire.control import ControlClient
from systems.torchrun.messages import Measured

GROUP = "torchelastic"
MEASURED = {
    "LocalElasticAgent._stop_workers.duration.ms": "stop",
    "SimpleElasticAgent._rendezvous.duration.ms": "rendezvous",
}
"""TorchElastic's metrics that are forwarded, with their names here."""


class MetricForwarder(MetricHandler):
    """Handler of TorchElastic's metrics that sends some of them to the driver."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def emit(self, metric_data: MetricData) -> None:
        """Send a metric, if it is one of ``MEASURED``, at its end; the value is in milliseconds."""
        phase = MEASURED.get(metric_data.name)
        if phase is not None:
            ended = driver_now()
            began = ended - metric_data.value / 1000.0
            self._client.send(Measured(phase=phase, began=began, ended=ended))


def report_to(client: ControlClient) -> None:
    """Send the measurements of this process to the driver from now on."""
    configure(MetricForwarder(client), GROUP)
