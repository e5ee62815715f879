"""Profiles: YAML files with what they extend, and the profile of a stored configuration."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.profiles import ProfileError, load_profile
from harness.profiles.read import PROVENANCE
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target

DOCUMENT = {
    "name": "speeds",
    "provenance": dict.fromkeys(PROVENANCE, "none") | {"measured_here": False},
    "throughput": {
        "bert": {
            "samples_per_s": {1: {1: 10.0, 2: 19.0}, 2: {1: 11.0}}, "source": "s", "device": "d",
            "across_hosts": {"samples_per_s": {1: {2: 15.0}}}, "spread": 0.1,
        },
        "vgg16": {"file": "speeds.csv", "unit": "iterations_per_s", "source": "s", "device": "d"},
    },
    "rescale_costs": [{"preparation_s": 0, "pause_s": 5.4, "workload": "bert"}],
    "noise_scale": {"bert": 100.0},
    "shown": {"factor": 2.0},
}  # fmt: skip
TABLE = "global_batch_size,1,2,4\n32,1.5,2.5,\n64,1,nan,0\n"


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    kind = choices.below(4)
    path = folder / "profile.yaml"
    (folder / "speeds.csv").write_text(TABLE)
    if kind == 0:
        path.write_bytes(choices.rest)
    elif kind == 1:
        (folder / "speeds.csv").write_bytes(choices.rest)
        path.write_text(yaml.safe_dump(DOCUMENT))
    else:
        document = edited(DOCUMENT, choices)
        if kind == 2:
            load_profile(document if isinstance(document, dict) else {"profile": document})
            return
        path.write_text(yaml.safe_dump({**document, "defaults": ["other.yaml", "_self_"]}))
        (folder / "other.yaml").write_text(yaml.safe_dump(edited(DOCUMENT, choices)))
    load_profile(path)


TARGET = Target(
    "profiles", _read, (ProfileError,),
    [b"\0" + yaml.safe_dump(DOCUMENT).encode(), b"\1" + TABLE.encode(), b"\2\1\2\3", b"\3\1\2\3"],
)  # fmt: skip
