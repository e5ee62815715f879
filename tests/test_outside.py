"""Commands outside the checkout, in a directory whose names are those of Elastrace's packages."""

import os
import subprocess
import sys

import pytest

from harness.files.safe_names import file_name

RUN = ("harness", "trace=five_jobs", "cluster=dgx8", "tracking=none", "progress=false")
FOLDERS = ("harness", "systems", "workloads", "reports", "configs")


def call(folder, module, *words, **environment):
    """Exit code, and what ``python -m`` says, with the packages as they are installed."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    """A directory with a folder like each package of ours, as users name them."""
    for name in FOLDERS:
        (tmp_path / name / "site").mkdir(parents=True)
        (tmp_path / name / "notes.txt").write_text("mine")
    return tmp_path


@pytest.mark.long
def test_folders_of_these_names_break_no_command(folder):
    """A sweep, since its points are processes of their own; reports are drawn twice."""
    code, _, told = call(folder, *RUN, "scheduler=fifo,edf", "-m", "sweep=demo")
    assert code == 0, told
    for _ in range(2):
        words = ("study=demo", "--figures", "comparison", "--formats", "png")
        code, said, told = call(folder, "reports", *words)
        assert (code, told) == (0, "")
        assert "2 runs" in said
        assert "results/site/demo/index.html" in said
    for module in ("harness.validate", "harness.trace", "systems.script", "reports.trace"):
        code, _, told = call(folder, module, *([] if module == "harness.validate" else ["--help"]))
        assert (module, code, told) == (module, 0, "")
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FOLDERS, "results"])
    assert (folder / "results" / "site" / "demo" / "index.html").is_file()
    assert all(len(list((folder / name).iterdir())) == 2 for name in FOLDERS)


@pytest.mark.parametrize("hides", ["systems/__init__.py", "workloads.py"])
def test_a_package_that_hides_one_of_ours_is_named(tmp_path, hides):
    place = tmp_path / hides
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    code, said, told = call(tmp_path, *RUN)
    assert (code, said) == (2, "")
    name = hides.partition("/")[0].removesuffix(".py")
    assert f"{place}: hides Elastrace's package {name}; rename it" in told
    assert "Traceback" not in told
    assert call(tmp_path, *RUN, "dry=true", PYTHONSAFEPATH="1")[0] == 0


def test_reports_name_a_package_that_hides_the_harness(tmp_path):
    (tmp_path / "harness").mkdir()
    place = tmp_path / "harness" / "__init__.py"
    place.write_text("")
    code, said, told = call(tmp_path, "reports")
    assert (code, said, len(told.splitlines())) == (2, "", 1)
    assert f"{place}: hides Elastrace's package harness" in told
    code, _, told = call(tmp_path, "reports", PYTHONSAFEPATH="1")
    assert code == 2
    assert "no finished run in" in told


def test_every_study_has_its_folder():
    from reports.__main__ import SITE, _default_out

    assert _default_out("edl_fig10", None) == SITE / "edl_fig10"
    assert _default_out("a/b", None).parent == SITE
    assert _default_out("a/b", None).name == file_name("a/b")
    assert _default_out(None, None) != _default_out(None, ["timeline"])
    assert "reports" not in SITE.parts
