"""``elastrace completion bash|zsh|fish``: print a shell's completion of commands and options.

Flags are read from each command's own help, and options from the configuration files, so the
script knows what was installed when it was printed.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.command_names import PROGRAM, Command, commands, spelt
from harness.configuration.compose import options
from harness.configuration.schema import GROUPS, KEYS
from harness.machine.command_parser import CommandParser

_FLAG = re.compile(r"^ +(?:-\w(?: \w+)?, )?(--[a-z][a-z-]*)", re.MULTILINE)
_SHIPPED = {"trace": ("lint", "show"), "profile": ("show",)}
"""Commands whose parts take the name of a shipped option of the group of their name."""
_RUNS = "harness"
"""Module of the commands that take ``GROUP=OPTION``."""

_INSTALL = {
    "bash": f"{PROGRAM} completion bash > ~/.local/share/bash-completion/completions/{PROGRAM}",
    "zsh": f"{PROGRAM} completion zsh > DIR/_{PROGRAM}, with a DIR of $fpath",
    "fish": f"{PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish",
}


def main(words: Sequence[str] | None = None) -> int:
    """Print the completion of one shell and return the exit code."""
    parser = CommandParser(
        prog=spelt("harness.program.completion"),
        description="Print a script that completes commands, flags and options.",
        epilog="Keep it in a file, since printing takes seconds:\n"
        + "\n".join(f"  {line}" for line in _INSTALL.values()),
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="shell that is to complete")
    chosen = parser.parse_args(words)
    print(_SCRIPTS[chosen.shell](_known()), end="")
    return 0


@dataclass(frozen=True)
class _Known:
    """Everything that can be completed."""

    after: Mapping[tuple[str, str], Sequence[str]]
    """Words after a command, or after a command and its part (else empty)."""
    values: Mapping[str, Sequence[str]]
    """Options by group."""


def _known() -> _Known:
    values = {group: options(group) for group in (*GROUPS, "study")}
    after: dict[tuple[str, str], Sequence[str]] = {}
    for name, command in commands().items():
        words = [*command.parts, *_flags(command, command.words([]))]
        if command.module == _RUNS:
            words += ["-m", *(f"{key}=" for key in (*GROUPS, "study", "size", *KEYS))]
        if command.key is not None:
            words += values[command.key]
        after[name, ""] = words
        for part in command.parts:
            shipped = values[name] if part in _SHIPPED.get(name, ()) else []
            is_shell = command.module == __name__
            flags = [] if is_shell else _flags(command, [part])
            after[name, part] = [*flags, *shipped]
    return _Known(after, {**values, "size": ["quick", "full"]})


def _flags(command: Command, before: Sequence[str]) -> list[str]:
    """Return the flags that a command's help lists.

    Args:
        command: the command.
        before: words of its module before ``--help``.
    """
    main_of = command.load()
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main_of([*before, "--help"])
    return list(dict.fromkeys(_FLAG.findall(text.getvalue())))


_BASH = r"""# Completion of elastrace for bash; made by: elastrace completion bash
_elastrace_values() {
    case "$1" in
@VALUES@
    esac
}

_elastrace_words() {
    case "$1" in
@WORDS@
    esac
}

_elastrace() {
    # By the line, since bash parts words at "=" as well.
    local line="${COMP_LINE:0:COMP_POINT}" current before part value found list
    current="${line##*[[:space:]]}"
    before=(${line%"$current"})
    COMPREPLY=()
    if [[ ${#before[@]} -le 1 ]]; then
        COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$current"))
        return
    fi
    if [[ "$current" == *=* ]]; then
        value="${current##*[=,]}"
        list="$(_elastrace_values "${current%%=*}")"
        for found in $(compgen -W "$list" -- "$value") $(compgen -f -- "$value"); do
            [[ -d "$found" ]] && found="$found/"
            COMPREPLY+=("${current%"$value"}$found")
        done
        if [[ "$COMP_WORDBREAKS" == *=* ]]; then
            COMPREPLY=("${COMPREPLY[@]#*=}")
        fi
        [[ "${COMPREPLY[0]-}" == */ ]] && compopt -o nospace 2>/dev/null
        return
    fi
    list="$(_elastrace_words "@1@ @2@")"
    [[ -z "$list" ]] && list="$(_elastrace_words "@1@ ")"
    COMPREPLY=($(compgen -W "$list" -- "$current"))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
        compopt -o filenames 2>/dev/null
    elif [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _elastrace elastrace
"""


def _bash(known: _Known) -> str:
    values = [f"        {key}) echo '{' '.join(found)}' ;;" for key, found in known.values.items()]
    words = [
        f"        '{name} {part}') echo '{' '.join(found)}' ;;"
        for (name, part), found in known.after.items()
    ]
    script = _BASH.replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))
    script = script.replace("@1@", "${before[1]}").replace("@2@", "${before[2]-}")
    return script.replace("@COMMANDS@", " ".join(commands()))


def _zsh(known: _Known) -> str:
    head = "#compdef elastrace\nautoload -U +X bashcompinit && bashcompinit\n"
    return head + _bash(known).replace("for bash; made by: elastrace completion bash", "for zsh")


def _fish(known: _Known) -> str:
    return "\n".join(_fish_lines(known)) + "\n"


def _fish_lines(known: _Known) -> Iterator[str]:
    yield "# Completion of elastrace for fish; made by: elastrace completion fish"
    for name, command in commands().items():
        says = command.says.replace("'", "")
        yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -a {name} -d '{says}'"
    yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -l version"
    for (name, part), found in known.after.items():
        seen = f"__fish_seen_subcommand_from {name}"
        if part:
            seen += f"; and __fish_seen_subcommand_from {part}"
        words = [word for word in found if not word.startswith("-")]
        if not part and commands()[name].module == _RUNS:
            bare = [word for word in words if not word.endswith("=")]
            pairs = (f"{key}={value}" for key, values in known.values.items() for value in values)
            words = [*bare, *pairs]
        if words:
            yield f"complete -c {PROGRAM} -n '{seen}' -a '{' '.join(words)}'"
        for word in found:
            if word.startswith("--"):
                yield f"complete -c {PROGRAM} -n '{seen}' -l {word.removeprefix('--')}"


_SCRIPTS: Mapping[str, Callable[[_Known], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
