"""What every scheduler class says of its source, its options and how far it was checked."""

import inspect
import re

import pytest

from harness.contracts.scheduler import Checked
from tests.schedulers.world import built, scheduler_classes, shipped

CLASSES = scheduler_classes()


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_says_its_source_and_its_level(found):
    """Its docstring names the source, and the level beside what it was checked on."""
    assert re.search(r"^ +Source: \S", found.__doc__, re.MULTILINE)
    (level,) = re.findall(r"^ +Checked: ``(\w+)``", found.__doc__, re.MULTILINE)
    assert found.checked == Checked(level)
    assert isinstance(getattr(found, "oracle", False), bool)


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_says_what_its_options_are(found):
    """Each by its name, in the text or among the arguments of its construction."""
    text = f"{found.__doc__}\n{found.__init__.__doc__}"
    named = {*re.findall(r"``(\w+)``", text), *re.findall(r"^ +(\w+): ", text, re.MULTILINE)}
    options = [name for name in inspect.signature(found).parameters if name not in named]
    assert not options


def test_no_shipped_scheduler_is_left_out():
    assert {type(built("scheduler", name)) for name in shipped("scheduler")} <= set(CLASSES)


def test_the_oracle_alone_is_a_bound():
    assert [each.__name__ for each in CLASSES if getattr(each, "oracle", False)] == ["Srtf"]
