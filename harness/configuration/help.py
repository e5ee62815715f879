"""Text of ``--help``, made from the configuration files themselves."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml

from harness.command_names import spelt
from harness.configuration.coerce import show
from harness.configuration.compose import defaults, option_files, options
from harness.configuration.schema import GROUPS, KEYS

_WIDTH = 96

_GROUP_MEANS = {
    "trace": "which jobs arrive, and when",
    "workload": "pool of training programs, and their size",
    "cluster": "hosts, devices, slots and their network",
    "placement": "which slots form a grant",
    "scheduler": "which job gets how many slots, and when",
    "backend": "how a job's workers are started, rescaled and stopped",
    "engine": "virtual clock, or real processes",
    "profile": "throughput curves and rescale costs",
    "launcher": "how worker processes are started",
    "tracking": "where finished runs are shown",
    "study": "a whole sweep in one command",
}

_PURPOSE = """\
Replays a trace of training jobs: a scheduler says which job gets which slots, an elastic
backend starts, rescales and stops the jobs (really, or on a virtual clock). The records
are stored under results/ and shown in MLflow. Without arguments it simulates a real trace
in seconds."""

_USAGE = (
    ("", "[GROUP=OPTION ...] [KEY=VALUE ...] [-m] [--cfg job] [--from FILE]"),
    ("study=NAME", "[size=quick] [GROUP=OPTION ...] [KEY=VALUE ...]"),
    ("", "--help [GROUP]"),
)
"""Usage: words that may change how the command is written, and the rest."""

_FLAGS = (
    ("-m", "sweep: one run for each combination of the comma lists"),
    ("--cfg job", "print the resolved configuration as YAML and stop"),
    ("--from FILE", "start from a stored config.yaml instead of the defaults"),
    ("--point", "used by sweeps: the run is checked already and mirrored later"),
    ("--help [GROUP]", "this text; with a group, its options explained"),
)

_EXAMPLES = (
    ("simulate the default trace", ""),
    ("four runs side by side", "scheduler=fifo,tiresias seed=0,1 -m"),
    ("82,247 jobs", "trace=philly cluster=slots400 tracking=none"),
    (
        "train for real, on this machine",
        "trace=itp195_short profile=published_mixed cluster=cpu2 engine=live",
    ),
    ("most studies that test a claim, at their quick sizes", "study=all_quick"),
    ("points of a study, and their expected time", "study=main dry=true"),
)

_EXITS = (
    ("0", "done (or already stored)"),
    ("1", "a run failed; the message names its log"),
    ("2", "something in the command or its files is wrong; nothing was started"),
    ("124", "stopped at max_wall_s"),
    ("130, 143", "stopped by Ctrl-C or SIGTERM; the same command resumes a sweep"),
)


def overview() -> str:
    """Return the text of ``python -m harness --help``."""
    chosen, values = defaults()
    usage = [f"  {_command(words)} {rest}" for words, rest in _USAGE]
    lines = [_PURPOSE, "", "Usage:", *usage, ""]
    lines.append("Groups, with their options (the default in brackets):")
    for group in (*GROUPS, "study"):
        names = [f"[{name}]" if name == chosen.get(group) else name for name in options(group)]
        lines.append(f"  {group:<10} {_GROUP_MEANS[group]}")
        wrapped = textwrap.wrap("  ".join(names) or "(none)", _WIDTH - 13, break_on_hyphens=False)
        lines += [" " * 13 + line for line in wrapped]
    lines += ["  Options of an option are set as GROUP.NAME=VALUE; a GROUP can also be a YAML file"]
    lines += ["  of your own: trace=my/trace.yaml.", "", "Keys, with their defaults:"]
    lines += [
        f"  {name + '=' + show(values.get(name)).strip(chr(39)):<25} {KEYS[name].metadata['help']}"
        for name in KEYS
    ]
    lines += ["", "Examples:"]
    for means, words in _EXAMPLES:
        lines += [f"  # {means}", f"  {_command(words)}"]
    for title, rows in (("Flags:", _FLAGS), ("Exit codes:", _EXITS)):
        width = max(len(word) for word, _ in rows)
        lines += ["", title, *(f"  {word:<{width}}  {means}" for word, means in rows)]
    return "\n".join(lines)


def _command(words: str) -> str:
    return spelt("harness", *words.split())


def of_group(group: str) -> str:
    """Return the text of ``--help GROUP``: every option's first comment and its keys."""
    default = defaults()[0].get(group)
    lines = [f"{group}: {_GROUP_MEANS[group]}", ""]
    for name, path in option_files(group).items():
        text = path.read_text(encoding="utf-8")
        lines.append(f"{group}={name}{' (default)' if name == default else ''}")
        lines += textwrap.wrap(
            first_comment(text), _WIDTH, initial_indent="    ", subsequent_indent="    "
        )
        lines += [f"      {line}" for line in _keys(group, yaml.safe_load(text))]
        lines.append("")
    return "\n".join(lines).rstrip()


def first_comment(text: str) -> str:
    """Return the comment block at the top of a YAML file, as one paragraph."""
    block = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        block.append(line.lstrip("# ").strip())
    return " ".join(block)


def _keys(group: str, document: Any) -> list[str]:
    if not isinstance(document, dict):
        return []
    shown = {key: value for key, value in document.items() if key != "_target_"}
    if group == "study":
        shown = {key: shown[key] for key in ("description", "also") if key in shown}
    lines = []
    for key, value in shown.items():
        words = f"a list of {len(value)}" if isinstance(value, list) else show(value)
        if key == "also":
            words = f"[{', '.join(value)}]"
        text = f"{group}.{key}={words}"
        lines.append(text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "...")
    return lines
