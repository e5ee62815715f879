"""Files of clusters, all of the class that every shipped one names."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.build import build
from harness.problems import UserError
from harness.trace.catalog import _yaml
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target

_CLASS = "harness.cluster.uniform_cluster"
DOCUMENT = {
    "name": "mine", "num_hosts": 2, "devices_per_host": 4, "device_type": "a100",
    "slots_per_device": 2, "cores_per_slot": 1, "num_cores": 16, "shared_speed": [1.0, 0.5],
    "bandwidth_gbytes_per_s": {"host": 10.0},
}  # fmt: skip


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    path = folder / "cluster.yaml"
    if choices.below(2):
        path.write_text(yaml.safe_dump(edited(DOCUMENT, choices)))
    else:
        path.write_bytes(choices.rest)
    content = _yaml(path)
    # Which classes a file may name is another question; only the first is asked for here.
    plain = {key: value for key, value in content.items() if not _names_a_class(value)}
    build({**plain, "_target_": _CLASS}, "cluster")


def _names_a_class(value: object) -> bool:
    return "_target_" in str(value)


TARGET = Target(
    "clusters", _read, (UserError,), [b"\0" + yaml.safe_dump(DOCUMENT).encode(), b"\1\1\2\3"]
)
