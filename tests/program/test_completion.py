"""Completion, in the shells that are installed."""

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from harness.command_names import commands
from harness.configuration.compose import options
from tests.program.test_program import call


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "elastrace.bash"
    done = call("completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(done.stdout)
    return path


def completed(script, line, folder=None):
    """Return the words that bash offers at the end of a line. Bash parts words at ``=``."""
    code = f"""
        source {shlex.quote(str(script))}
        COMP_LINE={shlex.quote(line)}
        COMP_POINT=${{#COMP_LINE}}
        _elastrace
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-uc", code], cwd=folder, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_commands(script):
    assert {*commands(), "--help", "--version"} == set(completed(script, "elastrace "))
    assert completed(script, "elastrace st") == ["study"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("elastrace run sched", ["scheduler="]),
        ("elastrace run seed=1 scheduler=fi", ["fifo"]),
        ("elastrace sweep scheduler=fifo,chro", ["fifo,chronus"]),
        ("elastrace study all_", ["all_quick"]),
        ("elastrace study main size=q", ["quick"]),
        ("elastrace report --per", ["--perfetto"]),
        ("elastrace trace l", ["lint"]),
        ("elastrace trace lint --cl", ["--cluster"]),
        ("elastrace trace lint five", ["five_jobs"]),
        ("elastrace profile measure --tri", ["--trials"]),
        ("elastrace elastic scale-", ["scale-out", "scale-in"]),
        ("elastrace completion f", ["fish"]),
        ("elastrace run zzz", []),
    ],
)
def test_bash_completes_words(script, line, found):
    assert completed(script, line) == found


def typed(script, keys, timeout_s=30):
    """Return the text that an interactive bash shows on its terminal after these keys."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PS1="> ", TERM="dumb", INPUTRC="/dev/null")
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(terminal, f"source {shlex.quote(str(script))}; echo rea''dy\n{keys}".encode())
        shown, until = "", time.monotonic() + timeout_s
        while time.monotonic() < until:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace")
            elif "ready" in shown:  # a second of silence after the prompt
                break
        return shown.partition("ready")[2]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def test_tab_completes_in_an_interactive_bash(script):
    assert "elastrace run scheduler=fifo " in typed(script, "elastrace run sched\tfi\t")
    assert "elastrace study all_quick " in typed(script, "elastrace stud\tall_\t")


def test_bash_offers_every_option_of_a_group(script):
    assert set(options("scheduler")) <= set(completed(script, "elastrace run scheduler="))


def test_bash_completes_files_of_the_users(script, tmp_path):
    (tmp_path / "my_parts").mkdir()
    (tmp_path / "my_parts" / "mine.yaml").write_text("")
    line = "elastrace run scheduler=my_p"
    assert completed(script, line, tmp_path) == ["my_parts/"]
    line = "elastrace sweep scheduler=fifo,my_parts/m"
    assert completed(script, line, tmp_path) == ["fifo,my_parts/mine.yaml"]
    assert completed(script, "elastrace validate my_parts/m", tmp_path) == ["my_parts/mine.yaml"]


def test_bash_loads_it_as_its_help_says(script):
    code = f"source {shlex.quote(str(script))}; complete -p elastrace"
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True)
    assert done.stdout == "complete -F _elastrace elastrace\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_theirs(shell, tmp_path):
    done = call("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in commands())
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so that it cannot read its script")
    path = tmp_path / "script"
    path.write_text(done.stdout)
    subprocess.run([shell, "-n", str(path)], check=True)


def test_an_unknown_shell_is_refused():
    done = call("completion", "cmd")
    assert done.returncode == 2
    assert "elastrace completion" in done.stderr
