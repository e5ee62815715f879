"""Pages on questions over all studies, one module each: ``build(material)`` returns its page."""

from collections.abc import Callable, Sequence

from reports.site.pages import decisions, fidelity, hardware, noise, untested
from reports.site.pages.base import Material, Page

PAGES: Sequence[Callable[[Material], Page]] = (
    noise.build,
    fidelity.build,
    decisions.build,
    hardware.build,
    untested.build,
)
"""Builders of the pages, in the order of the list of pages."""
