"""Files of clusters: the one kind here that names a class."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.errors import UserError
from harness.trace.commands.catalog import open_cluster
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target

DOCUMENT = {
    "_target_": "harness.cluster.uniform_cluster", "name": "mine", "num_hosts": 2,
    "devices_per_host": 4, "device_type": "a100", "slots_per_device": 2, "cores_per_slot": 1,
    "num_cores": 16, "shared_speed": [1.0, 0.5], "bandwidth_gbytes_per_s": {"host": 10.0},
}  # fmt: skip


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    path = folder / "cluster.yaml"
    if choices.below(2):
        path.write_text(yaml.safe_dump(edited(DOCUMENT, choices)))
    else:
        path.write_bytes(choices.rest)
    open_cluster(str(path))


TARGET = Target(
    "clusters", _read, (UserError,), [b"\0" + yaml.safe_dump(DOCUMENT).encode(), b"\1\1\2\3"]
)
