"""Figures of the report, one module each, found by their declarations (``declared.py``)."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence

from harness.errors import Problem, UserError, suggest
from reports.figures.declared import Declared


def _declared() -> dict[str, Declared]:
    """Return the figures by the names of their modules, general figures first and in order."""
    modules = {
        found.name: importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
    }
    figures: dict[str, Declared] = {
        name: module.FIGURE for name, module in modules.items() if hasattr(module, "FIGURE")
    }
    last = len(figures)

    def place(name: str) -> tuple[int, str]:
        general_place = figures[name].general_place
        return last if general_place is None else general_place, name

    return {name: figures[name] for name in sorted(figures, key=place)}


FIGURES: Mapping[str, Declared] = _declared()
"""Figures by name; studies name the figures of their page, in order."""
GENERAL = tuple(name for name, each in FIGURES.items() if each.general_place is not None)
"""Figures that are drawn if no figure is named. The report on all studies draws other figures for
the runs of each study that names them."""
ALWAYS = tuple(name for name, each in FIGURES.items() if each.is_always_drawn)
"""Figures that are drawn for every study."""


def checked(names: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the names after checking that each is the name of a figure.

    Args:
        names: names as the user wrote them.
        place: place of the names, for the message.

    Raises:
        UserError: a name is not the name of a figure.
    """
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise UserError(
            Problem(place, f"there is no figure {name!r}", suggest(name, FIGURES))
            for name in unknown
        )
    return tuple(names)
