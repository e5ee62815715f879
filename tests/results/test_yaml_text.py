"""A document that is read entry by entry is what it is when it is read at once."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.configuration.fast_yaml import read_alike, read_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


@given(
    st.dictionaries(st.text(), VALUES),
    st.sampled_from([None, False, True]),
    st.integers(10, 90),
)
def test_a_mapping_is_read_as_if_at_once(values, flow, width):
    text = yaml.safe_dump(values, default_flow_style=flow, width=width, allow_unicode=True)
    assert read_alike(text) == read_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- 1\n- 2",
        "a:\n- 1\n- b: 2\nc: {d: 3}",
        "a: &x [1]\nb: *x",
        "# said first\na: 1\n# said last\n",
        "---\na: 1\n...\n",
        "%YAML 1.1\n---\na: 1",
        'a: "one\ntwo: three"\n',
        "a: |\n  b: 1\n  c\nd: 2",
        "? a\n: b\n",
        "a: 1\na: 2",
        "a: 0\n<<: {a: 1}",
        "a\nb",
    ],
)
def test_what_is_no_row_of_entries_is_read_at_once(text):
    assert read_alike(text) == read_yaml(text)


@pytest.mark.parametrize("text", ["a: [1\nb: 2", "a: 1\n b: 2\n", "a: *b\n", "a: 1\n---\nb: 2"])
def test_what_is_no_document_is_told_as_ever(text):
    with pytest.raises(yaml.YAMLError) as whole:
        read_yaml(text)
    with pytest.raises(yaml.YAMLError) as found:
        read_alike(text)
    assert str(found.value) == str(whole.value)


def test_entries_are_shared_by_documents():
    first, second = read_alike("a: {b: 1}\nc: 2"), read_alike("a: {b: 1}\nc: 3")
    assert first["a"] is second["a"]
