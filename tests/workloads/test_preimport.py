"""Workers are forked from a process that has imported their workloads: it must have no thread."""

import pytest
import yaml

from systems.launchers.local import PREIMPORT, Local
from tests.backends.world import CONFIGS, World, configured


@pytest.mark.long
def test_workers_of_every_workload_can_be_forked(tmp_path):
    pools = [yaml.safe_load(path.read_text())["pool"] for path in CONFIGS.glob("workload/*.yaml")]
    modules = {entry["_target_"].rpartition(".")[0] for pool in pools for entry in pool.values()}
    assert len(modules) > 10
    launcher = Local(preimport=[*PREIMPORT, *sorted(modules)])
    launcher.open()
    try:  # opening a backend forks a first process, or says what is in the way
        world = World(configured("backend", "static", start="preimported"), launcher, tmp_path)
        world.backend.close()
    finally:
        launcher.close()
