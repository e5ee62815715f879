"""The records of the fuzzer: all readers, known states of the code, no fault in the last."""

import json

from tests.artifact.shown import ROOT
from tests.fuzz.__main__ import TARGETS

READERS = {
    "traces", "profiles", "clusters", "studies", "manifests", "tables", "archives", "checkpoints",
}  # fmt: skip


def test_no_input_of_the_last_state_of_the_code_broke_a_reader():
    paths = (ROOT / "results" / "reference").glob("*/fuzz/record.json")
    rounds = [record for path in paths for record in json.loads(path.read_text())["rounds"]]
    rounds.sort(key=lambda record: record["created"])
    for record in rounds:
        assert record["git_dirty"] is False
        counts = [found["inputs"] for found in record["targets"].values()]
        assert record["total"]["inputs"] == sum(counts)
        assert (record["total"]["hangs"], record["total"]["strayed"]) == (0, 0)
        for found in record["targets"].values():
            assert found["most_cpu_s"] < record["bounds"]["cpu_s_per_input"]
            assert found["most_memory_bytes"] < 1 << 30
    last = [each for each in rounds if each["git_commit"] == rounds[-1]["git_commit"]]
    assert {name for record in last for name in record["targets"]} >= READERS
    assert set(TARGETS) >= READERS
    assert all(record["total"]["crashes"] == 0 for record in last)
    assert sum(record["total"]["inputs"] for record in last) > 1_000_000
    inputs = sum(record["total"]["inputs"] for record in rounds)
    assert f"{inputs:,} inputs" in (ROOT / "docs" / "explanation" / "security.md").read_text()
