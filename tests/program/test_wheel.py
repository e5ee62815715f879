"""A wheel carries everything that runs, and needs nothing of the checkout."""

import os
import re
import shlex
import zipfile

import pytest

from tests.program import wheel
from tests.program.wheel import call

PAGE = wheel.ROOT / "docs" / "how-to" / "your-own-folder.md"
MEASURING = shlex.split(
    "elastrace profile measure my_parts/my_speeds.yaml --pool my_parts/sine.yaml --batches 64"
    " --steps 6000 --trials 2"
)


def shown(text):
    """The commands in the shell blocks of a document."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    lines = [line.split("  #")[0] for line in lines]
    return [shlex.split(line) for line in lines if line.strip()]


def test_the_wheel_has_every_file_of_its_packages(built):
    listed = set(zipfile.ZipFile(built).namelist())
    missing = [name for name in wheel.sources() if name not in listed]
    assert not missing
    top = {name.partition("/")[0] for name in listed}
    assert top - {name for name in top if name.endswith(".dist-info")} == set(wheel.PACKAGES)


def test_the_wheel_has_the_licences_of_its_data(built):
    names = [name.partition("/licenses/")[2] for name in zipfile.ZipFile(built).namelist()]
    wanted = [path.relative_to(wheel.ROOT) for path in (wheel.ROOT / "licenses").iterdir()]
    assert {"LICENSE", "DATA_LICENSES.md", *map(str, wanted)} <= set(names)


@pytest.fixture
def folder(tmp_path):
    """A folder with packages called like ours, which would end any command that took them."""
    for name in ("harness", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(7)")
    return tmp_path


def done(programs, folder, *words):
    answer = call(programs, folder, *words)
    assert answer.returncode == 0, f"{words}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_folder_of_ones_own_needs_the_wheel_alone(installed, folder):
    """The commands of the page, then those of the folder's README that are not on it."""
    programs, log = installed
    small = ("trace=five_jobs", "cluster=dgx8", "tracking=none", "progress=false")
    done(programs, folder, "elastrace", "run", *small)
    done(programs, folder, "elastrace", "report", "--formats", "svg")
    assert (folder / "results" / "site" / "all" / "index.html").is_file()
    own = folder / "my-study"
    commands = shown(PAGE.read_text(encoding="utf-8"))
    installing, making, entering, *inside = commands
    version = call(programs, folder, "elastrace", "--version").stdout.split()[1]
    assert installing == ["pip", "install", f"elastrace-{version}-*.whl"]  # as the fixture did
    assert entering == ["cd", own.name]
    done(programs, folder, *making)
    readme = shown((own / "README.md").read_text(encoding="utf-8"))
    assert len(readme) == 7
    assert MEASURING in inside
    inside = [words for words in inside if "my_parts/my_speeds.yaml" not in " ".join(words)]
    for words in inside + [words for words in readme if words not in inside]:
        done(programs, own, *words)
    assert "-live-" in "".join(path.name for path in (own / "results" / "runs").iterdir())
    page = (own / "results" / "site" / "my_study" / "index.html").read_text(encoding="utf-8")
    assert "Do even shares" in page
    assert ", 0 problems" in done(programs, own, "elastrace", "validate")
    assert (own / "results" / "mlflow").is_dir()
    names = ["harness", "my-study", "reports", "results"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert not log.exists(), log.read_text()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ones_own_speeds_can_be_measured(installed, tmp_path):
    """The page's two commands for it, which ask for a machine that does nothing else."""
    programs, log = installed
    own = tmp_path / "my-study"
    done(programs, tmp_path, "elastrace", "init", own.name)
    commands = shown(PAGE.read_text(encoding="utf-8"))
    measuring = [words for words in commands if "my_parts/my_speeds.yaml" in " ".join(words)]
    assert measuring[0] == MEASURING
    done(programs, own, *MEASURING, "--dry")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        pytest.skip("other work keeps this machine busy: planned, but not measured")
    for words in measuring:
        done(programs, own, *words)
    assert (own / "my_parts" / "my_speeds.yaml").is_file()
    assert not log.exists(), log.read_text()


@pytest.mark.long
def test_what_is_opened_of_the_checkout_is_noticed(installed, tmp_path):
    programs, log = installed
    code = f"open({str(wheel.ROOT / 'README.md')!r}).close()"
    done(programs, tmp_path, "python", "-c", code)
    assert "README.md" in log.read_text()
    log.unlink()
