"""The random lives on record are 2,000, by one code, and all as they must be."""

import json

from tests.artifact.recorded import REFERENCE


def test_all_random_lives_went_right_by_one_code():
    (path,) = REFERENCE.glob("*/random_lives/lives.jsonl")
    lives = [json.loads(line) for line in path.read_text().splitlines()]
    assert [life["number"] for life in lives] == list(range(2000))
    assert [life["number"] for life in lives if not life["as_it_must_be"]] == []
    assert len({life["commit"] for life in lives}) == 1
    assert {life["transfer"] for life in lives} >= {"broadcast", "peer", "background"}
