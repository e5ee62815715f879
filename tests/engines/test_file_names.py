"""Job ids come from traces: whatever they hold, a job's files stay in the job's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.files.safe_names import file_name


@pytest.mark.parametrize("name", ["0", "job-7", "application_1506638472019_10258", "a.b~c"])
def test_ordinary_ids_stay_as_they_are(name):
    assert file_name(name) == name


@given(st.text(max_size=400), st.text(max_size=400))
@example("../b", "./b")
@example("a", "./a")
@example(".", "..")
@example("x" * 1000, "x" * 1001)
@example("", ".")
@example("\ud800", "\udc80")  # half a character, as JSON can hold it
@example("a/b", "a%2Fb")
def test_names_are_of_one_file_each(first, second):
    folder = Path("/run/jobs")
    for text in (first, second):
        name = file_name(text)
        assert (folder / name).parent == folder
        assert name not in (".", "..")
        assert len(name.encode()) < 200
    assert (file_name(first) == file_name(second)) == (first == second)
