"""Figures of the report, one module each: ``draw(runs)`` returns its drawings."""

from collections.abc import Callable, Mapping, Sequence

from reports.drawing import Drawing
from reports.figures import (
    comparison,
    jct_distribution,
    simulated_against_live,
    slots_in_use,
    stop_resume_phases,
    timeline,
)
from reports.selection import ReportRun

FIGURES: Mapping[str, Callable[[Sequence[ReportRun]], list[Drawing]]] = {
    "comparison": comparison.draw,
    "jct_distribution": jct_distribution.draw,
    "slots_in_use": slots_in_use.draw,
    "timeline": timeline.draw,
    "stop_resume_phases": stop_resume_phases.draw,
    "simulated_against_live": simulated_against_live.draw,
}
"""Figures by name, in the order of the page; studies name those they want."""
ALWAYS = frozenset({"comparison"})
"""Drawn for every study, whatever it asks for."""
