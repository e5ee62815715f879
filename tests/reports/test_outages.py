"""Slots that were down, in the figures of slots in use and of the timeline."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from sample_runs import write_run

from harness.results.records import OutageRecord
from reports.drawing import style
from reports.figures import slots_in_use, timeline
from reports.runs.selection import select

OUTAGES = (OutageRecord(3, 60.0, 120.0), OutageRecord(2, 100.0, 120.0), OutageRecord(0, 240, 9e9))


def drawn(figure, root: Path, **changes) -> tuple[Figure, str]:
    write_run(root, **changes)
    with mpl.rc_context(style.RC):
        (drawing,) = figure.draw(select([root]))
        drawing.figure.savefig(root / "figure.png")
    return drawing.figure, drawing.caption


def entries(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_the_capacity_is_what_was_up() -> None:
    times, up = slots_in_use.capacity(OUTAGES, 4, 300.0)
    assert times.tolist() == [0, 60, 100, 120, 240, 300]
    assert up.tolist() == [4, 3, 2, 4, 3, 3]
    times, up = slots_in_use.capacity((), 4, 300.0)
    assert (times.tolist(), up.tolist()) == ([0, 300], [4, 4])


def test_slots_in_use_say_of_which_slots_they_are_a_share(tmp_path: Path) -> None:
    figure, caption = drawn(slots_in_use, tmp_path, outages=OUTAGES)
    metrics = select([tmp_path])[0].metrics
    mean, available = metrics["slot_utilization_mean"], metrics["slot_availability"]
    assert (
        figure.axes[0]
        .get_title(loc="left")
        .endswith(f", mean {mean:.0%} of 4, {mean / available:.0%} of those up")
    )
    assert entries(figure) == ["slots of the cluster that were up"]
    assert "shows the slots of the cluster that were up" in caption


def test_the_timeline_shades_who_was_down(tmp_path: Path) -> None:
    figure, caption = drawn(timeline, tmp_path, outages=OUTAGES)
    assert entries(figure)[-1] == "slot down"
    assert "the slot was down" in caption


@pytest.mark.parametrize("module", [slots_in_use, timeline])
def test_nothing_is_said_of_outages_where_there_were_none(module, tmp_path: Path) -> None:
    figure, caption = drawn(module, tmp_path)
    assert not any("down" in text or "up" in text for text in entries(figure))
    assert "was down" not in caption
    assert all("of those up" not in axis.get_title(loc="left") for axis in figure.axes)
