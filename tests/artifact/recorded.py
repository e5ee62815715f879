"""Which studies have records among those that are committed."""

from pathlib import Path

from harness.configuration.compose import options
from harness.results.archive import archive_of

REFERENCE = Path(__file__).parents[2] / "results" / "reference"


def folders(name):
    """Of a study's records, on all machines."""
    found = [machine / name for machine in REFERENCE.iterdir() if machine.is_dir()]
    return [folder for folder in found if folder.exists() or archive_of(folder).is_file()]


RECORDED = [name for name in options("study") if folders(name)]
