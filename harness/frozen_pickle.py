"""Pickles of a replay: quick for millions of frozen values, and read with a list of what may be in.

Pickle can call any function that it names, so a file is only read after its owner, digest, seal and
origin have been checked (``harness/snapshot.py``). That it may name nothing but the project's own
parts and a few containers is no fence against a stranger: some of these parts start processes.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType, MethodType
from typing import IO, Any

from harness.contracts.engine import Change, Event
from harness.contracts.scheduler import Grant, JobView
from harness.records import RunRecords
from harness.tables import RECORD_TYPES
from harness.trace.job import JobSpec

PROTOCOL = 5
_CONTAINERS: dict[str, frozenset[str]] = {
    "builtins": frozenset({"bytearray", "complex", "frozenset", "range", "set", "slice"}),
    "collections": frozenset({"Counter", "OrderedDict", "defaultdict", "deque"}),
    "copyreg": frozenset({"_reconstructor", "__newobj__"}),
    "functools": frozenset({"partial"}),
    "immutables._map": frozenset({"Map"}),
    "immutables": frozenset({"Map"}),
    "operator": frozenset({"attrgetter", "itemgetter"}),
    "pathlib": frozenset({"Path", "PosixPath", "PurePosixPath"}),
    "sortedcontainers.sortedlist": frozenset({"SortedKeyList", "SortedList"}),
    "sortedcontainers.sorteddict": frozenset({"SortedDict"}),
    "sortedcontainers.sortedset": frozenset({"SortedSet"}),
    "numpy": frozenset({"dtype", "ndarray"}),
    "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy._core.numeric": frozenset({"_frombuffer"}),
    "numpy.random._pickle": frozenset({"__bit_generator_ctor", "__generator_ctor"}),
    "numpy.random._pcg64": frozenset({"PCG64"}),
    "numpy.random.bit_generator": frozenset({"SeedSequence", "__pyx_unpickle_SeedSequence"}),
}
"""What a pickle may name of other libraries, by module."""

_FROZEN: tuple[type[Any], ...] = (JobSpec, JobView, Event, Change, Grant)
"""Frozen values of which there are many: their own way into a pickle looks up every field."""


def write(file: IO[bytes], value: Any) -> None:
    """Pickle a value into a file.

    Raises:
        pickle.PicklingError, AttributeError, TypeError: something in it cannot be saved.
    """
    pickler = pickle.Pickler(file, PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {
        RunRecords: _reduced_records,
        MethodType: _reduced_method,
        **{kind: _reducer(kind) for kind in _FROZEN},
    }
    pickler.dump(value)


def read(file: IO[bytes], packages: frozenset[str]) -> Any:
    """The value of a pickle that names nothing but containers and these top-level packages.

    Raises:
        pickle.UnpicklingError: it names something else; or whatever a damaged one leads to.
    """
    return _Unpickler(file, packages).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], packages: frozenset[str]) -> None:
        super().__init__(file)
        self._packages = packages

    def find_class(self, module_name: str, global_name: str) -> Any:
        own = module_name.partition(".")[0] in self._packages
        if not own and global_name not in _CONTAINERS.get(module_name, ()):
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is no part")
        return super().find_class(module_name, global_name)


def _reducer(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    values = attrgetter(*kind.__slots__)
    return lambda value: (_restored, (kind, values(value)))


def _restored(kind: type[Any], values: tuple[Any, ...]) -> Any:
    """The value, without the checks of a new one: what schedulers are shown breaks some."""
    made = object.__new__(kind)
    for name, value in zip(kind.__slots__, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def _reduced_method(method: MethodType) -> tuple[Any, ...]:
    return _bound, (method.__self__, method.__func__.__name__)


def _bound(owner: Any, name: str) -> Any:
    """A method that a part keeps; a pickle's own way to it, ``getattr``, leads anywhere."""
    if name.startswith("__") or not isinstance(getattr(type(owner), name, None), FunctionType):
        raise pickle.UnpicklingError(f"{type(owner).__qualname__} has no method {name}")
    return getattr(owner, name)


def _reduced_records(records: RunRecords) -> tuple[Any, ...]:
    """Column by column: some numbers and texts take a tenth of the time of as many objects."""
    columns = {
        name: [list(map(attrgetter(field), rows)) for field in kind.__slots__]
        for name, kind in RECORD_TYPES.items()
        if (rows := getattr(records, name))
    }
    return _restored_records, (columns, records.latencies_us, records.facts)


def _restored_records(
    columns: dict[str, list[list[Any]]], latencies_us: list[int], facts: dict[str, float]
) -> RunRecords:
    records = RunRecords(latencies_us=latencies_us, facts=facts)
    for name, cells in columns.items():
        setattr(records, name, list(map(RECORD_TYPES[name], *cells)))
    return records
