"""Letters of figures: names from traces are drawn unchanged, in any script.

A dollar sign does not start a formula (``style.RC`` switches that off). A letter that the figures'
own font lacks is drawn in an installed font that has it, else as its code point.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from matplotlib import font_manager
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from matplotlib.ticker import Formatter, LogFormatter

FAMILY = "DejaVu Sans"
"""The font of all figures; it comes with matplotlib."""
_PREFERRED = (
    "Noto Sans CJK", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Source Han Sans",
    "WenQuanYi", "IPAexGothic", "IPAGothic", "TakaoGothic", "PingFang", "Hiragino Sans",
    "Microsoft YaHei", "SimHei", "MS Gothic", "Yu Gothic", "Malgun Gothic", "Nanum",
    "Droid Sans Fallback", "Noto Sans", "Arial Unicode MS", "Unifont",
)  # fmt: skip
"""Beginnings of the names of fonts with many scripts, best first; other fonts rank after them."""
_NO_LETTERS = ("Last Resort", "STIXNonUnicode", "STIXSize", "cm")
"""Beginnings of the names of fonts whose signs are not letters of a text."""
_POWERS = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")

_is_told = multiprocessing.Value("b", False)
"""True once the warning on missing letters is printed; shared by the processes that draw pages."""


def prepare(figures: Iterable[Figure]) -> bool:
    """Make every text of the figures drawable; call this before they are laid out.

    One line on standard error names letters that no installed font has.

    Returns:
        True if a font other than the figures' own is used.
    """
    unknown: set[str] = set()
    uses_others = False
    for figure in figures:
        axes = [axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)]
        for axis in axes:
            _plain_powers(axis)
        missing = {
            letter
            for text in _texts(figure, axes)
            for letter in text
            if letter.isprintable() and not _has(letter)
        }
        if missing:
            families, left = _others(frozenset(missing))
            _substitute(figure, axes, families, left)
            unknown |= left
            uses_others = uses_others or bool(families)
    if unknown and _tell_first():
        shown = ", ".join(f"{letter} as {_code_point(letter)}" for letter in sorted(unknown)[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        print(
            f"warning: no installed font has some letters of the figures: {shown}{more}; install"
            " one (Noto Sans CJK has Chinese, Japanese and Korean)",
            file=sys.stderr,
        )
    return uses_others


def _tell_first() -> bool:
    """Return True for the first call in all processes of this report, else False."""
    # The lock makes reading and setting one step, so that only one process prints the warning.
    with _is_told.get_lock():
        was_told, _is_told.value = bool(_is_told.value), True
    return not was_told


def width(text: str) -> int:
    """Return the approximate width of a text, in average letters of the figures' own font."""
    return sum(1 if _has(letter) else _width_elsewhere(letter) for letter in text)


@functools.lru_cache(maxsize=4096)
def _width_elsewhere(letter: str) -> int:
    return len(_code_point(letter)) if _others(frozenset(letter))[1] else 2


class _Changed(Formatter):
    """Formatter that changes each label of another formatter."""

    def __init__(self, inner: Formatter, change: Callable[[str], str]) -> None:
        self._inner, self._change = inner, change

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self._change(self._inner(x, pos))

    def set_locs(self, locs: Sequence[float]) -> None:
        """Pass the ticks to the other formatter, which chooses by them the labels to leave out."""
        self._inner.set_locs(locs)  # type: ignore[arg-type]

    def get_offset(self) -> str:
        """Return the changed text that applies to all labels."""
        return self._change(self._inner.get_offset())


def _plain_powers(axis: Axis) -> None:
    """Write the labels of a logarithmic axis in plain letters, because formulas are switched
    off."""
    major, minor = axis.get_major_formatter(), axis.get_minor_formatter()
    if isinstance(major, LogFormatter):
        axis.set_major_formatter(_Changed(major, _plain_power))
    if isinstance(minor, LogFormatter):
        axis.set_minor_formatter(_Changed(minor, _plain_power))


def _plain_power(label: str) -> str:
    """Return a label such as ``$\\mathdefault{2\\times10^{-3}}$`` in plain letters."""
    text = re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", label).replace(r"\times", "×")
    return re.sub(r"\^\{([^}]*)\}", lambda found: found[1].translate(_POWERS), text)


def _texts(figure: Figure, axes: Sequence[Axis]) -> Iterator[str]:
    """Yield every text of a figure."""
    for axis in axes:
        yield from _labels(axis)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        yield text.get_text()


def _labels(axis: Axis) -> list[str]:
    """Return the labels that the ticks of an axis will have."""
    return [label.get_text() for label in axis.get_ticklabels()]


def _substitute(
    figure: Figure, axes: Sequence[Axis], families: Sequence[str], left: frozenset[str]
) -> None:
    """Use other fonts where a text needs them, and code points for letters that no font has."""

    def drawable(text: str) -> str:
        return "".join(_code_point(letter) if letter in left else letter for letter in text)

    family = [FAMILY, *families]
    for axis in axes:
        if not all(map(_has, "".join(_labels(axis)))):
            axis.set_major_formatter(_Changed(axis.get_major_formatter(), drawable))
            axis.set_tick_params(labelfontfamily=family)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not all(map(_has, text.get_text())):
            text.set_text(drawable(text.get_text()))
            text.set_fontfamily(family)


def _code_point(letter: str) -> str:
    return f"U+{ord(letter):04X}"


def _has(letter: str) -> bool:
    """Return whether the figures' own font has a letter; True for signs that are never drawn."""
    return not letter.isprintable() or ord(letter) in _own()


@functools.cache
def _own() -> frozenset[int]:
    return _letters_of(font_manager.findfont(font_manager.FontProperties(family=[FAMILY])))


def _letters_of(file: str) -> frozenset[int]:
    """Return the code points that a font file has."""
    return frozenset(FT2Font(file).get_charmap())


@functools.lru_cache(maxsize=64)
def _others(missing: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return installed fonts that together have the letters, and the letters that no font has."""
    families: list[str] = []
    left = {ord(letter) for letter in missing}
    for family, file in _installed():
        found = left & _letters_of(file) if left else set()
        if found:
            families.append(family)
            left -= found
    return tuple(families), frozenset(map(chr, left))


@functools.cache
def _add_new() -> None:
    """Tell matplotlib about fonts that were installed after it stored its list of fonts."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    for file in font_manager.findSystemFonts():
        if file not in listed:
            with contextlib.suppress(OSError, RuntimeError):  # damaged, or without outlines
                font_manager.fontManager.addfont(file)


def _installed() -> list[tuple[str, str]]:
    """Return names and files of the fonts that may be used, best first."""
    _add_new()
    upright = {
        entry.name: entry.fname
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal" and not entry.name.startswith((*_NO_LETTERS, FAMILY))
    }

    def rank(name: str) -> tuple[int, str]:
        ranks = (at for at, begin in enumerate(_PREFERRED) if name.startswith(begin))
        return next(ranks, len(_PREFERRED)), name

    return [(name, upright[name]) for name in sorted(upright, key=rank)]
