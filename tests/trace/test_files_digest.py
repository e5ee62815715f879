"""The digest of the files behind a trace: the same for every seed, profile and cluster."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.trace.build import TRACES, build_parts, load_trace
from harness.trace.columns import ColumnsReader
from harness.trace.commands.catalog import names
from harness.trace.transforms import TransformContext

OPTIONS = {"columns": {"arrival": "at", "slots": "gpus", "duration": "seconds"}}
SHAKEN = {"_target_": "harness.trace.transforms.ShakeArrivals", "scale_s": 3.0}


@dataclass(frozen=True)
class SilentReader:
    """A reader of a user's own, which does not say what it reads."""

    path: str

    def read(self):
        return ColumnsReader(self.path, **OPTIONS).read()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n5,1,60\n9,1,60\n")
    (tmp_path / "events.csv").write_text("time_s,event,slots,job_id\n10,slots_down,0,\n")
    return tmp_path


def load(folder, *transforms, target="harness.trace.columns.ColumnsReader", seed=0):
    own = OPTIONS if target.startswith("harness") else {}
    reader = {"_target_": target, "path": "jobs.csv", **own}
    config = {"name": "mine", "source": "here", "licence": "none", "reader": reader}
    config["transforms"] = list(transforms)
    return load_trace(config, TransformContext(seed=seed), base_dir=folder)


def test_seeds_draw_other_jobs_of_the_same_files(folder):
    first, second = (load(folder, SHAKEN, seed=seed) for seed in (0, 1))
    assert first.digest != second.digest
    assert first.files_digest == second.files_digest == load(folder).files_digest


@pytest.mark.parametrize("file", ["jobs.csv", "events.csv"])
def test_an_edited_file_of_reader_or_transform_changes_it(folder, file):
    events = {"_target_": "harness.trace.transforms.ReadEvents", "path": "events.csv"}
    before = load(folder, SHAKEN, events)
    path = folder / file
    path.write_text(path.read_text().replace("9,1,60", "9,1,61").replace("10,", "11,"))
    assert load(folder, SHAKEN, events).files_digest != before.files_digest


def test_a_reader_that_does_not_say_leaves_it_open(folder):
    assert load(folder, target=f"{__name__}.SilentReader").files_digest is None


@pytest.mark.parametrize("name", names("trace"))
def test_shipped_traces_say_which_files_they_read(name):
    config = yaml.safe_load((TRACES / f"{name}.yaml").read_text())
    reader, _ = build_parts(config, TRACES)
    assert reader.files
    assert all(Path(path).is_file() for path in reader.files)
