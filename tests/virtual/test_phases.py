"""What taking turns costs is measured beside accumulation, in the same process."""

import json

import pytest

from tests.virtual.run_phases import SWITCH, main

PHASES = {*SWITCH, "sums", "around", "update"}


def test_a_model_gets_a_line_once(tmp_path, capsys):
    words = ["--out", str(tmp_path), "--models", "toy", "--pool", "toy", "--steps", "3"]
    words += ["--logical", "2", "--batch", "8"]
    assert main(words) == 0
    assert "over plain" in capsys.readouterr().out
    text = (tmp_path / "phases.jsonl").read_text()
    line = json.loads(text)
    assert len(line["virtual_s"]) == len(line["plain_s"]) == 3
    assert set(line["phases_s"]) == PHASES
    for spent_s in line["phases_s"].values():
        assert len(spent_s) == 3
        assert min(spent_s) > 0
    whole_s = [sum(parts) for parts in zip(*line["phases_s"].values(), strict=True)]
    assert all(part < whole for part, whole in zip(whole_s, line["virtual_s"], strict=True))
    assert main(words) == 0
    assert (tmp_path / "phases.jsonl").read_text() == text, "it is not measured again"


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--models", "nothing"])
