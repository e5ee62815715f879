"""Commands that documents and report pages show: they exist, and a sample of them is run."""

import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import read_arguments
from harness.configuration.compose import compose, defaults, is_file, options, parse_overrides
from harness.configuration.instantiate import build
from harness.configuration.schema import GROUPS, PARTS, read_config
from harness.errors import UserError
from harness.results.store import iter_runs, run_paths
from reports.claims.ledger import load
from reports.claims.verdicts import judge
from reports.runs.selection import select
from reports.site import build as overview
from reports.site import page as site
from tests.artifact.shown import (
    DOCUMENTS,
    PLACEHOLDER,
    ROOT,
    commands_of,
    commands_of_page,
    make_targets,
    read,
)

REFERENCE = ROOT / "results" / "reference"
SMALL = "easyscale_fig15"
"""A study on record with few and small runs, whose page is drawn here."""


def problems(shown, document=""):
    """What is wrong with a command; ``document``: the text in which a reader's own parts are
    introduced."""
    if shown.program == "make":
        targets = [word for word in shown.words if "=" not in word and not word.startswith("-")]
        return [f"no target {word}" for word in targets if word not in make_targets()]
    sources = sources_of(shown.program)
    if shown.program == "pytest":
        return missing_paths(shown.words)
    if not sources:
        return [f"no module {shown.program}"]
    words = [word for word in shown.words if not PLACEHOLDER.search(word)]
    if shown.program == "harness":
        return harness_problems(words, document)
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    named = [word.partition("=")[0] for word in words if word.startswith("--")]
    if "add_subparsers" in text or "choices=" in text:
        named += [word for word in words[:1] if re.fullmatch(r"[a-z][a-z-]+", word)]
    found = [f"no {name}" for name in named if f'"{name}"' not in text and name != "--help"]
    return found + study_problems(words, document) + missing_paths(words)


def sources_of(module):
    """Files of a module and of the package that it is or that it uses for its arguments."""
    path = ROOT / module.replace(".", "/")
    if module == "pytest":
        return [importlib.util.find_spec("pytest").origin]
    if (path / "__main__.py").is_file():
        return sorted(path.glob("*.py"))
    file = path.with_suffix(".py")
    return [file] if file.is_file() else []


def study_problems(words, document):
    """Studies that are neither shipped nor a file or a sweep of the reader's in the document."""
    names = [word.partition("=")[2] for word in words if word.startswith("study=")]
    own = [
        name
        for name in names
        if is_file(name) or f"{name}.yaml" in document or re.search(rf"\bsweep={name}\b", document)
    ]
    return [f"no study {name}" for name in names if name not in [*own, *options("study")]]


def missing_paths(words):
    """Files of the project that a command names."""
    folders = ("tests/", "docs/", "configs/", "results/reference")
    paths = [word.partition("::")[0] for word in words if word.startswith(folders)]
    return [f"no {path}" for path in paths if "site" not in path and not (ROOT / path).exists()]


def harness_problems(words, document):
    given = [
        word
        for word in words
        if not (word == "--from" or word.endswith(("config.yaml", "config.yaml.gz")))
    ]
    arguments = read_arguments(given)
    found = [str(problem) for problem in arguments.problems]
    if arguments.help_of:
        known = (*GROUPS, "study")
        return found + ([] if arguments.help_of in known else [f"no group {arguments.help_of}"])
    found += study_problems(given, document)
    shipped = [word for word in arguments.words if not is_own(word, document)]
    understood = parse_overrides(shipped, sweeping=True)
    found += [str(problem) for problem in understood.problems]
    # A reader's own part may have any key; a study changes what its keys mean.
    if understood.values and len(shipped) == len(arguments.words) and arguments.study is None:
        found += composed_problems(understood)
    return found


def composed_problems(understood):
    """What is wrong with the parts that a command's words compose."""
    container, found = compose(understood)
    config, unread = read_config(container, defaults()[1])
    found = [*found, *unread]
    for group in PARTS if config is not None else ():
        try:
            build(getattr(config, group), group)
        except UserError as error:
            found += error.problems
    return [str(problem) for problem in found]


def is_own(word, document):
    """A file of the reader's, an option whose file the document tells how to make, or an
    option of such a part."""
    group, _, option = word.partition("=")
    pieces = option.split(",")
    return any(map(is_file, pieces)) or f"configs/{group}/{option}.yaml" in document


@functools.cache
def shown_by(document):
    return commands_of(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_exists(document):
    text = document.read_text(encoding="utf-8")
    found = {str(shown): problems(shown, text) for shown in shown_by(document)}
    assert not {shown: texts for shown, texts in found.items() if texts}


def test_documents_show_commands_of_every_kind():
    programs = [shown.program for document in DOCUMENTS for shown in shown_by(document)]
    assert programs.count("harness") > 20
    assert {"make", "pytest", "reports", "harness.trace", "systems.script"} <= set(programs)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("make tost", "no target tost"),
        ("python -m harness.tracing fill", "no module harness.tracing"),
        ("python -m harness study=edl_fig99", "no study edl_fig99"),
        ("python -m reports study=edl_fig99  # drawn", "no study edl_fig99"),
        ("python -m harness scheduler=fife", "unknown option 'fife'"),
        ("python -m harness scheduler=fifo,fife -m", "unknown option 'fife'"),
        ("python -m harness engine.pece=profile", "engine.pece"),
        ("python -m harness size=huge study=main", "size"),
        ("python -m harness --help motor", "no group motor"),
        ("python -m harness.bench.overhead --dray", "no --dray"),
        ("python -m harness.trace lunt FILE", "no lunt"),
        ("python -m pytest tests/test_nothing.py", "no tests/test_nothing.py"),
        ("PIP_EXTRA_INDEX_URL=URL make enf", "no target enf"),
        ("elastrace stduy main", "no module elastrace.stduy"),
        ("elastrace study mian", "no study mian"),
        ("elastrace sweep scheduler=fifo,fife", "unknown option 'fife'"),
        ("elastrace trace lunt FILE", "no lunt"),
        ("elastrace completion bsh", "no bsh"),
    ],
)
def test_a_wrong_command_is_noticed(line, problem):
    found = problems(read(line))
    assert len(found) == 1, found
    assert problem in found[0]


def test_prose_is_no_command():
    assert read("make_it = 1") is None
    assert read("python docs/x.py") is None


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a report on one study, without its figures."""
    out = tmp_path_factory.mktemp("site")
    runs = select(sorted(REFERENCE.glob(f"*/{SMALL}*"))[:1], None)
    papers, studies = load(), overview.by_study(runs)

    def draw(study, own, folder, claims):
        site.write(folder, study, "python -m reports", own, [], ["svg"], "../../i", claims)
        return []

    verdicts = judge(papers, studies)
    overview.write_site(out, "make report", papers, verdicts, studies, [REFERENCE], draw)
    return sorted(out.rglob("*.html"))


def test_every_command_of_a_reports_pages_exists(pages):
    shown = [command for page in pages for command in commands_of_page(page)]
    assert any(command.words == (f"study={SMALL}",) for command in shown)
    assert any("--from" in command.words for command in shown)
    assert not [text for command in shown for text in problems(command)]


def test_every_study_on_record_has_the_command_that_its_page_shows():
    folders = {path.parent.name for path in run_paths(REFERENCE)}
    assert len(folders) > 40
    assert folders <= set(options("study"))


REAL = (
    "python -m harness --help",
    "python -m harness --help scheduler",
    "python -m harness --cfg job",
    "python -m harness scheduler=fifo",
    "python -m harness trace=itp195 scheduler=tiresias cluster=a100x128 seed=1",
    "python -m harness.bench.overhead --dry",
    "python -m harness.trace generate --help",
)
DRY = (
    "python -m harness scheduler=fifo,tiresias seed=0,1 -m",
    "python -m harness study=sim_catalogue",
    "python -m harness study=easyscale_replay",
    "python -m harness study=bench_philly",
)


def run(shown, *more):
    words = [sys.executable, "-m", shown.program, *shown.words, *more]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)


def by_name(text):
    """The command of that text in a document; a sample is of what is shown."""
    every = [shown for document in DOCUMENTS for shown in shown_by(document)]
    wanted = read(text)
    assert any((each.program, each.words) == (wanted.program, wanted.words) for each in every), text
    return wanted


@pytest.mark.long
@pytest.mark.parametrize("text", REAL)
def test_a_shown_command_works(text, tmp_path):
    shown = by_name(text)
    is_run = shown.program == "harness" and "--help" not in shown.words
    done = run(shown, *([f"results_dir={tmp_path}", "tracking=none"] if is_run else []))
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.long
@pytest.mark.parametrize("text", DRY)
def test_a_shown_sweep_or_study_could_be_run(text, tmp_path):
    done = run(by_name(text), "dry=true", f"results_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert "nothing was started" in done.stdout


@pytest.fixture(scope="module")
def shown_on_page(pages):
    """The commands on the page of the small study."""
    (page,) = [path for path in pages if path.parent.name == SMALL]
    return commands_of_page(page)


@pytest.mark.long
def test_what_a_studys_page_shows_could_be_run(shown_on_page, tmp_path):
    again = next(command for command in shown_on_page if "--from" in command.words)
    study = next(command for command in shown_on_page if command.words == (f"study={SMALL}",))
    for command in (again, study):
        done = run(command, "dry=true", f"results_dir={tmp_path}")
        assert done.returncode == 0, done.stderr
        assert "nothing was started" in done.stdout


def test_a_run_again_from_a_studys_page_gives_the_committed_records(shown_on_page, tmp_path):
    again = next(command for command in shown_on_page if "--from" in command.words)
    done = run(again, f"results_dir={tmp_path}", "tracking=none")
    assert done.returncode == 0, done.stderr
    (found,) = iter_runs(tmp_path)
    shown = ROOT / Path(again.words[again.words.index("--from") + 1]).parent  # in an archive
    (committed,) = (one for one in iter_runs(shown.parent) if one.run_id == shown.name)
    names = {name for name in committed.digests if name != "latencies"} - {*committed.left_out}
    assert {"jobs", "grants", "changes"} <= names
    assert {name: found.digests[name] for name in names} == {
        name: committed.digests[name] for name in names
    }
