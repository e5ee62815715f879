"""Tables of records, plain or compressed by the input itself."""

from __future__ import annotations

import gzip
from pathlib import Path

from harness.results.tables import TABLES, TableError, columns, read_frame, read_table
from tests.fuzz.edits import Choices
from tests.fuzz.target import Target


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    kind, name = choices.below(3), TABLES[choices.below(len(TABLES))]
    path = folder / f"{name}.csv.gz"
    text = choices.rest
    if kind == 1:
        text = ",".join(columns(name)).encode() + b"\n" + text
    path.write_bytes(text if kind == 2 else gzip.compress(text, 1))
    read_table(path, name)
    read_frame(path, name)


_ROWS = {
    "jobs": b"j,bert,o,0.0,1,32,9.5,,none,finished,0.0,5.0,9.5,5.0,5.0,0,0,5.0,4.0,,,\n",
    "grants": b"j,0.0,5.0,0 1,32,1.5\n",
    "changes": b'0,j,start,0.0,1.0,done,,0 1,,,"{""save"": 0.5}"\n',
    "latencies": b"12\n",
}
_HEADED = ",".join(columns("jobs")).encode() + b"\n" + _ROWS["jobs"]
TARGET = Target(
    "tables", _read, (TableError,),
    [
        *(bytes([1, TABLES.index(name)]) + row for name, row in _ROWS.items()),
        bytes([2, 0]) + gzip.compress(_HEADED, 1),
    ],
)  # fmt: skip
