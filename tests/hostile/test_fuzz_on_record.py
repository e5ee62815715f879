"""The record of the fuzzer: all readers, one code, and no fault that is left."""

import json

from tests.artifact.shown import ROOT
from tests.fuzz.__main__ import TARGETS


def test_no_input_on_record_broke_a_reader():
    (path,) = (ROOT / "results" / "reference").glob("*/fuzz/record.json")
    record = json.loads(path.read_text())
    assert record["git_dirty"] is False
    assert sorted(record["targets"]) == sorted(TARGETS)
    for name, found in record["targets"].items():
        assert found["inputs"] >= 500, name
        assert (found["crashes"], found["hangs"], found["strayed"]) == (0, 0, 0), name
        assert found["most_cpu_s"] < record["bounds"]["cpu_s_per_input"]
        assert found["most_memory_bytes"] < 1 << 30
    total = record["total"]
    assert total["inputs"] == sum(found["inputs"] for found in record["targets"].values())
    assert f"{total['inputs']:,} inputs" in (ROOT / "docs" / "security.md").read_text()
