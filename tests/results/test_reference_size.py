"""The committed records stay small enough for everybody's clone."""

from collections import Counter
from pathlib import Path

from harness.results.archive import UNPACKED

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
LIMIT_BYTES = 30_000_000
"""Of all files together; what a file system or git makes of them does not count."""


def too_large(folder, limit_bytes=LIMIT_BYTES):
    """What to do if the files below a folder are more than that; "" if they are not."""
    sizes = Counter()
    for path in folder.rglob("*"):
        if path.is_file() and UNPACKED not in path.parts:
            sizes["/".join(path.relative_to(folder).parts[:2])] += path.stat().st_size
    total = sizes.total()
    if total < limit_bytes:
        return ""
    largest = ", ".join(f"{name} {size:,}" for name, size in sizes.most_common(5))
    return (
        f"{folder.name} has {total:,} bytes, and is to have less than {limit_bytes:,}. Largest:"
        f" {largest}. Copy studies without their large tables (python -m harness.reference"
        " study=NAME --slim --force, with a smaller --slim-kb if need be), or as one file (the"
        " option --packed), or take out records that no claim and no page needs"
    )


def test_all_records_together_are_below_30_mb():
    assert too_large(REFERENCE) == ""


def test_records_that_are_too_large_are_told_with_a_way_out(tmp_path):
    for name, size in (("m/a/1/x", 3), ("m/a/2/x", 4), ("n/b/1/y", 2), ("verdicts.json", 1)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    assert too_large(tmp_path, 11) == ""
    text = too_large(tmp_path, 10)
    assert "has 10 bytes, and is to have less than 10. Largest: m/a 7, n/b 2," in text
    assert "--slim" in text
