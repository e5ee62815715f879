"""``elastrace init``: what it makes runs, and it overwrites nothing."""

import pytest
import yaml

from harness.configuration.study import load_study
from harness.errors import UserError
from harness.profiles import load_profile
from harness.program import init
from harness.program.init import make
from harness.trace.commands.catalog import open_trace
from tests.program.test_program import call


def test_the_folder_is_whole(tmp_path, capsys):
    assert init.main([str(tmp_path / "my-study")]) == 0
    text = capsys.readouterr().out
    assert "elastrace study my_study.yaml" in text
    own = tmp_path / "my-study"
    readme = (own / "README.md").read_text(encoding="utf-8")
    files = sorted(path for path in own.rglob("*") if path.is_file())
    assert not [path for path in files if "__pycache__" in path.parts]
    named = [path for path in files if path.name not in ("README.md", "__init__.py")]
    assert not [path.name for path in named if path.stem not in readme]
    # Every file says in its first line what it is for.
    assert all(path.read_text().startswith(("#", '"""', "job,")) for path in files)


def test_every_part_is_sound(tmp_path):
    make(tmp_path / "own")
    parts = tmp_path / "own" / "my_parts"
    assert len(open_trace(str(parts / "small_trace.yaml")).reader.read().jobs) == 6
    profile = load_profile(parts / "sine_speeds.yaml")
    pool = yaml.safe_load((parts / "sine.yaml").read_text())["pool"]
    assert set(pool) <= set(profile.workloads)
    study = load_study(str(tmp_path / "own" / "my_study.yaml"))
    assert len(study.points()) == 3


@pytest.mark.parametrize("what", ["file", "folder"])
def test_nothing_is_overwritten(tmp_path, capsys, what):
    place = tmp_path / "mine"
    if what == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    assert init.main([str(place)]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    kept = place if what == "file" else place / "notes.txt"
    assert kept.read_text() == "mine"
    with pytest.raises(UserError):
        make(place)


def test_an_empty_folder_is_filled(tmp_path):
    make(tmp_path)
    assert (tmp_path / "elastrace.yaml").is_file()


def test_its_study_and_its_report_run(tmp_path):
    make(tmp_path / "own")
    done = call("study", "my_study.yaml", "tracking=none", folder=tmp_path / "own")
    assert done.returncode == 0, done.stderr
    assert "even_shares" in done.stdout
    done = call("report", "my_study", "--formats", "svg", folder=tmp_path / "own")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "own" / "results" / "site" / "my_study" / "index.html").read_text()
    assert "Do even shares of two slots shorten the wait" in page
    assert page.count("<svg") or page.count(".svg") >= 1


def test_its_classes_are_refused_without_its_line(tmp_path):
    make(tmp_path)
    (tmp_path / "elastrace.yaml").unlink()
    done = call("run", "scheduler=my_parts/even_shares.yaml", "dry=true", folder=tmp_path)
    assert done.returncode == 2
    assert "allow: [my_parts]" in done.stderr
