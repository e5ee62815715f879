"""Ids of committed runs: the program of today gives their configurations the same."""

import pytest

from harness.configuration.compose import defaults
from harness.configuration.identity import own_paths
from harness.configuration.named_classes import name_problem
from harness.configuration.schema import RETIRED, RunConfig, hash_config
from harness.files.safe_names import run_name
from harness.results.store import iter_runs
from tests.artifact.recorded import REFERENCE
from tests.config.named_classes import counted, named


@pytest.fixture(scope="module")
def committed():
    runs = list(iter_runs(REFERENCE))
    assert len(runs) > 4000
    return runs


def computed_id(run):
    """The id of a run from its configuration and the digests in its manifest."""
    values = {key: value for key, value in run.config.items() if key not in RETIRED}
    config = RunConfig(**{**defaults()[1], **values})
    digests = {name: run.manifest[name]["digest"] for name in ("trace", "profile")}
    return run_name(config.choices, hash_config(config, digests))


@pytest.mark.long
def test_every_committed_run_has_the_id_of_its_configuration(committed):
    assert not [run.path for run in committed if computed_id(run) != run.run_id]


def test_no_committed_run_is_of_a_file_outside_the_repository(committed):
    """Ids of such runs may change with what identifies these files."""
    groups = ("trace", "profile")
    assert not [run.path for run in committed for group in groups if own_paths(run.config[group])]


def test_every_committed_configuration_may_name_its_classes(committed):
    """A stored run can be repeated from its own file: no class in it is refused."""
    pairs = set()
    for run in committed:
        found = named(run.config)
        assert len(found) == counted(run.config), run.path
        pairs.update(found)
    assert not [pair for pair in pairs if name_problem(pair[1], pair[0], "here")]
