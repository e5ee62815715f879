"""YAML and JSON that would fill the memory, or the stack, of what reads them."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from harness.configuration.compose import compose, parse_overrides
from harness.configuration.fast_yaml import BoundsError, check_bounds, read_plain, read_yaml
from harness.configuration.study import load_study
from harness.errors import UserError
from harness.files.bounded_file import UnsafeFileError, opened, parse_json, read_text
from harness.profiles import ProfileError, load_profile
from harness.results.store import StoreError, load_run
from harness.trace.commands.catalog import _yaml
from harness.validate import check_run
from tests.results.sample_runs import write_run

LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
"""Twelve lines that stand for two hundred thousand million values."""
DEEP = "a: " + "[" * 200_000
CIRCLE = "a: &a [*a]\n"
BOMBS = {"aliases": LAUGHS, "depth": DEEP, "circle": CIRCLE}


@pytest.fixture(params=BOMBS)
def bomb(request, tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMBS[request.param])
    return path


def test_every_reader_of_yaml_refuses_a_bomb(bomb):
    with pytest.raises(BoundsError):
        read_yaml(bomb.read_text())
    with pytest.raises(ProfileError, match=r"bomb\.yaml"):
        load_profile(bomb)
    with pytest.raises(UserError, match=r"bomb\.yaml"):
        _yaml(bomb)
    with pytest.raises(UserError, match=r"bomb\.yaml"):
        load_study(str(bomb))
    _, problems = compose(parse_overrides([f"trace={bomb}"]))
    assert "cannot be read" in "\n".join(map(str, problems))


def test_a_profile_that_extends_a_bomb_is_refused(bomb):
    own = bomb.with_name("own.yaml")
    own.write_text("defaults: [bomb.yaml]\nname: mine\n")
    with pytest.raises(ProfileError, match=r"bomb\.yaml"):
        load_profile(own)


def test_a_stored_configuration_is_no_bomb(bomb):
    run = write_run(bomb.parent / "runs")
    (run.path / "config.yaml").write_bytes(bomb.read_bytes())
    with pytest.raises(StoreError, match=r"config\.yaml: cannot be read"):
        load_run(run.path)


def test_aliases_of_ordinary_size_are_read():
    text = "a: &a {b: [1, 2]}\nc: *a\nd:\n  <<: *a\n  e: 1\n"
    check_bounds(text)
    assert read_yaml(text)["d"] == {"b": [1, 2], "e": 1}


@pytest.mark.parametrize(
    "text", ["a: !!int ''", "a: !!timestamp x", "a: 2026-99-99", "a: !!bool x"]
)
def test_a_value_that_is_not_what_its_tag_says_is_refused(text):
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.getcwd []", "a: !!python/name:os.system"]
)
def test_no_tag_makes_an_object(text):
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


@pytest.mark.parametrize(
    "text", ["a: 2026-01-01", "a: !!set {b}", "a: !!binary aGk=", "{1: 2, b: 3}"]
)
def test_what_is_no_plain_data_is_no_stored_configuration(text):
    with pytest.raises(yaml.YAMLError):
        read_plain(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f"[{'9' * 5000}]"])
def test_deep_json_and_long_numbers_are_refused(text):
    with pytest.raises(ValueError, match=r"nested too deeply|digits"):
        parse_json(text)


def test_a_document_larger_than_its_bound_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnsafeFileError, match="more than 67,108,864 bytes"):
        read_text(path)


def test_devices_pipes_and_links_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/hostname")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "link"):
        with pytest.raises(UnsafeFileError):
            opened(path)
    with pytest.raises(UnsafeFileError):
        opened(Path("/dev/zero"), follow=True)


@pytest.mark.parametrize(
    ("file", "change", "fact"),
    [
        ("manifest.json", {"run_id": "../outside"}, "run_id is not the name of a run"),
        ("manifest.json", {"run_id": "a' OR '1'='1"}, "run_id is not the name of a run"),
        ("manifest.json", {"sweep": "../../outside"}, "sweep is not the name of a folder"),
        ("manifest.json", {"sweep": "/etc"}, "sweep is not the name of a folder"),
        ("manifest.json", {"sha256": {"../../etc/passwd": "0"}}, "sha256 is not digests"),
        ("manifest.json", {"left_out": {"../x": 1}}, "left_out is not a mapping of tables"),
        ("manifest.json", {"choices": {"mlflow.user": "root"}}, "choices is not a text for each"),
        ("manifest.json", {"command": None}, "command is not a list of texts"),
        ("manifest.json", {"created": "soon"}, "created is not a date"),
        ("manifest.json", {"hardware": {"cpu": ["x"]}}, "hardware.cpu is not a text"),
        ("metrics.json", {"jct_mean_s": "fast"}, "jct_mean_s is no finite number"),
        ("metrics.json", {"jct_mean_s": float("nan")}, "jct_mean_s is no finite number"),
        ("metrics.json", {"jct_mean_s": True}, "jct_mean_s is no finite number"),
        ("facts.json", {"num_slots": 1e999}, "num_slots is no finite number"),
        ("digests.json", {"../../etc/passwd": "0"}, "is that of no table"),
    ],
)
def test_a_stored_document_that_no_run_has_is_refused(tmp_path, file, change, fact):
    run = write_run(tmp_path)
    path = run.path / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert any(re.search(fact, problem) for problem in check_run(run.path))
