"""Files of traces, in every format that is read."""

from __future__ import annotations

import gzip
from pathlib import Path

from harness.trace.build import TRACES
from harness.trace.columns import ColumnsReader
from harness.trace.gavel import GavelReader
from harness.trace.itp import ItpReader
from harness.trace.model.trace import Trace, TraceError
from harness.trace.openb import OpenbReader
from harness.trace.pai import PaiReader
from harness.trace.philly import PhillyReader
from harness.trace.philly_json import PhillyJsonReader
from harness.trace.transforms import ReadEvents, TransformContext
from tests.fuzz.target import Target

_COLUMNS = {
    "arrival": "at",
    "slots": "gpus",
    "duration": "s",
    "workload": "model",
    "batch": "batch",
}
_TABLE = b"at,gpus,s,model,batch\n0,1,600,bert,32\n5.5,2,60,resnet50,64\n"
_EVENTS = b"time_s,event,slots,job_id\n5,slots_down,0-3 8,\n9,slots_up,0-3 8,\n7,cancel,,0\n"
_TASKS = b"j1,worker,2,Terminated,0,60,100,2900,29,50,V100\n"


def _read(data: bytes, folder: Path) -> None:
    kind, text = (data[0] if data else 0) % len(_READERS), data[1:]
    name, make = _READERS[kind]
    path = folder / name
    path.write_bytes(text)
    make(str(path))


def _events(path: str) -> Trace:
    jobs = Path(path).with_name("base.csv")
    jobs.write_bytes(_TABLE)
    trace = ColumnsReader(str(jobs), columns=_COLUMNS).read()
    return ReadEvents(path=path).apply(trace, TransformContext())


def _pai(path: str) -> Trace:
    Path(path).with_name("pai_task_table.csv").write_bytes(_TASKS)
    return PaiReader(path).read()


_DATES = {"arrival": "date", "duration": "hms", "end": "date"}
_READERS = (
    ("a.csv", lambda path: ColumnsReader(path, columns=_COLUMNS).read()),
    ("b.csv", lambda path: ColumnsReader(
        path, columns={**_COLUMNS, "deadline": "due"}, units=_DATES, fractions="round_up",
        impossible_deadlines="drop_job", time_zone="Europe/Berlin",
    ).read()),
    ("c.csv.gz", lambda path: ColumnsReader(path, columns=_COLUMNS).read()),
    ("d.csv", lambda path: ItpReader(path).read()),
    ("e.csv", lambda path: PhillyReader(path).read()),
    ("f.json", lambda path: PhillyJsonReader(path).read()),
    ("g.trace", lambda path: GavelReader(path, slo="seconds").read()),
    ("h.csv", lambda path: OpenbReader(path).read()),
    ("i.csv", _pai),
    ("j.csv", _events),
)  # fmt: skip


def _seeds() -> list[bytes]:
    def head(name: str, size: int) -> bytes:
        return (TRACES / "data" / name).read_bytes()[:size]

    philly = b'[{"jobid": "a", "vc": "v", "user": "u", "status": "Pass", "submitted_time": "2017-10-03 21:16:53", "attempts": [{"start_time": "2017-10-03 21:17:53", "end_time": "2017-10-03 22:16:53", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]'  # noqa: E501
    gavel = b"ResNet-18 (batch size 32)\tpython3 train.py\t--num_steps\t1\t1000\t60.5\t2\n"
    texts = [
        _TABLE,
        b"at,gpus,s,model,batch,due\n2026-01-01T00:00:00,1.5,2-01:24:56,bert,32,2026-03-01\n",
        gzip.compress(_TABLE, mtime=0),
        head("195job.csv", 700),
        b"job_id,arrival,slots,duration\n",
        philly,
        gavel,
        b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\nopenb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n",
        b"j1,i1,u1,Terminated,100,2900\n",
        _EVENTS,
    ]
    return [bytes([number]) + text for number, text in enumerate(texts)]


TARGET = Target("traces", _read, (TraceError,), _seeds())
