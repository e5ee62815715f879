"""The scale of the simulator's errors: small ones are seen beside a large one."""

import pytest
from matplotlib.figure import Figure

from reports.figures.simulated_against_live import _set_scale


@pytest.mark.parametrize(("largest", "scale"), [(8.0, "linear"), (320.0, "symlog")])
def test_one_large_error_makes_the_scale_logarithmic_and_says_so(largest, scale):
    axis = Figure().subplots()
    axis.plot([-largest, 0.0, largest], [0, 1, 2])
    _set_scale(axis, largest)
    assert axis.get_xscale() == scale
    assert ("logarithmic" in axis.get_xlabel()) == (scale == "symlog")


def test_ticks_are_signed_and_none_says_less_than_nothing_is_left():
    axis = Figure().subplots()
    axis.plot([-90.0, 320.0], [0, 1])
    _set_scale(axis, 320.0)
    axis.figure.canvas.draw()
    shown = [label.get_text() for label in axis.get_xticklabels()]
    assert shown == ["-5", "-10", "-30", "-100", "0", "+5", "+10", "+30", "+100", "+300"]
