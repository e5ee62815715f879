"""The examples and tables of docs/how-to/add-a-trace.md are true."""

import inspect
import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness import cli as runs
from harness.trace import __main__ as tools
from harness.trace import transforms
from harness.trace.build import build_parts
from harness.trace.columns import ColumnsReader
from harness.trace.parsing.cells import FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "add-a-trace.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_accepted(example, tmp_path):
    build_parts({"name": "n", "source": "s", "licence": "l", **example}, tmp_path)


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("name", list(inspect.signature(ColumnsReader).parameters))
def test_every_option_is_on_the_page(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_on_the_page(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize(
    "name", sorted(set(transforms.__all__) - {"Transform", "TransformContext"})
)
def test_every_transform_and_its_options_are_on_the_page(name):
    row = re.search(rf"^\| `{name}` \|(.*)$", PAGE, re.MULTILINE)
    assert row
    for option in inspect.signature(getattr(transforms, name)).parameters:
        assert option in row[1]


def test_a_drawn_trace_is_shown_and_simulated_as_written(tmp_path, monkeypatch):
    section = PAGE[PAGE.index("## Traces that are drawn") :]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)
    assert block
    monkeypatch.chdir(tmp_path)
    for line in block[1].splitlines():
        words = shlex.split(line)
        if words[2] == "harness.trace":
            assert tools.main(words[3:]) == 0
        else:
            assert words[:3] == ["python", "-m", "harness"]
            assert runs.main([*words[3:], "tracking=none", "progress=false"]) == 0
    assert list((tmp_path / "results").rglob("manifest.json"))
