"""Hosts, devices, slots and the tree that joins them: frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.instruction_sets import InstructionSet

CPU = "cpu"
"""Device type of a CPU slot. CPU slots of several types have names that begin with ``cpu_``."""


def is_cpu(device_type: str) -> bool:
    """Whether slots of this type need no accelerator."""
    return device_type == CPU or device_type.startswith(f"{CPU}_")


@dataclass(frozen=True, slots=True)
class Slot:
    """The unit of allocation: a device, or a stated share of one."""

    slot_id: int
    host: int
    """Index of its host in ``Cluster.hosts``."""
    device: int
    """Index of its device on that host."""
    device_type: str
    share: float = 1.0
    """Share of the device, in (0, 1]."""
    cores: tuple[int, ...] = ()
    """CPU cores its worker is pinned to; empty: not pinned."""
    instruction_set: InstructionSet | None = None
    """The newest that a worker on this CPU slot uses; None: whatever the machine has."""


@dataclass(frozen=True, slots=True)
class Host:
    """One machine."""

    name: str
    rack: int
    slots: tuple[int, ...]
    """Slot ids on this host, in device order."""
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """A cluster: slots 0..n-1 on hosts on racks, with the bandwidth of every level.

    ``bandwidth_gbytes_per_s`` maps the levels ``device`` (inside one device), ``host`` and
    ``rack`` and ``cluster`` to the bandwidth between two slots whose lowest common level it is.
    """

    name: str
    hosts: tuple[Host, ...]
    slots: tuple[Slot, ...]
    bandwidth_gbytes_per_s: dict[str, float]

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return len(self.slots)

    @cached_property
    def host_of(self) -> tuple[int, ...]:
        """Host index of every slot, by slot id."""
        return tuple(slot.host for slot in self.slots)

    @cached_property
    def device_types(self) -> tuple[str, ...]:
        """Device types present, sorted."""
        return tuple(sorted({slot.device_type for slot in self.slots}))

    def num_hosts_of(self, slots: Sequence[int]) -> int:
        """On how many hosts the given slots lie."""
        return len({self.host_of[slot] for slot in slots})


def uniform_cluster(
    *,
    name: str,
    num_hosts: int,
    devices_per_host: int,
    device_type: str,
    slots_per_device: int = 1,
    hosts_per_rack: int = 16,
    cores_per_slot: int = 0,
    num_cores: int = 0,
    instruction_set: str | None = None,
    bandwidth_gbytes_per_s: dict[str, float] | None = None,
) -> Cluster:
    """A cluster of equal hosts; what the files in ``configs/cluster/`` call.

    With ``cores_per_slot`` > 0, slot i of a host is pinned to cores i*cores_per_slot and on,
    modulo ``num_cores`` (so several slots can share the cores of a small machine). With
    ``instruction_set``, workers on these CPU slots use no newer one.

    Raises:
        ValueError: all contradictions at once, one a line, each with its way out.
    """
    problems = [
        f"{field} is {value}; it must be at least 1"
        for field, value in (
            ("num_hosts", num_hosts),
            ("devices_per_host", devices_per_host),
            ("slots_per_device", slots_per_device),
            ("hosts_per_rack", hosts_per_rack),
        )
        if value < 1
    ]
    if cores_per_slot < 0:
        problems.append(
            f"cores_per_slot is {cores_per_slot}; use 0 for workers that are not pinned"
        )
    if cores_per_slot > 0 and num_cores < cores_per_slot:
        problems.append(
            f"num_cores is {num_cores} but a slot asks for {cores_per_slot} cores;"
            " give the cores of a host in num_cores"
        )
    if not device_type:
        problems.append("device_type is empty; name the accelerator, for example a100 or cpu")
    if instruction_set is not None:
        known = ", ".join(InstructionSet)
        if instruction_set not in set(InstructionSet):
            problems.append(
                f"instruction_set is {instruction_set!r}; known: {known}, or null for all that the"
                " machine has"
            )
        if not is_cpu(device_type):
            problems.append(
                f"instruction_set is {instruction_set!r} for devices of type {device_type!r}; only"
                f" CPU slots have one: leave it out, or name the type {CPU}_{instruction_set}"
            )
    levels = ("device", "host", "rack", "cluster")
    bandwidths = dict(bandwidth_gbytes_per_s or {})
    for level, value in bandwidths.items():
        if level not in levels:
            problems.append(f"unknown bandwidth level {level!r}; known: {', '.join(levels)}")
        elif not value > 0:
            problems.append(f"bandwidth of level {level!r} is {value}; it must be > 0 GB/s")
    if problems:
        raise ValueError("\n".join(problems))
    newest = None if instruction_set is None else InstructionSet(instruction_set)
    hosts: list[Host] = []
    slots: list[Slot] = []
    for host in range(num_hosts):
        first = len(slots)
        for local in range(devices_per_host * slots_per_device):
            start = local * cores_per_slot
            slots.append(
                Slot(
                    slot_id=len(slots),
                    host=host,
                    device=local // slots_per_device,
                    device_type=device_type,
                    share=1.0 / slots_per_device,
                    cores=tuple((start + k) % num_cores for k in range(cores_per_slot)),
                    instruction_set=newest,
                )
            )
        hosts.append(
            Host(
                name=f"host{host:03d}",
                rack=host // hosts_per_rack,
                slots=tuple(range(first, len(slots))),
            )
        )
    return Cluster(name, tuple(hosts), tuple(slots), bandwidths)


def joined_cluster(
    *, name: str, parts: Sequence[Cluster], bandwidth_gbytes_per_s: dict[str, float] | None = None
) -> Cluster:
    """One cluster of the hosts of several, in their order: how device types come together.

    Hosts, slots and racks are numbered on; no rack spans two parts. Bandwidths are those given,
    since those of the parts may differ.

    Raises:
        ValueError: there are no parts.
    """
    if not parts:
        raise ValueError("parts is empty; give at least one cluster")
    hosts: list[Host] = []
    slots: list[Slot] = []
    num_racks = 0
    for part in parts:
        first_host, first_slot = len(hosts), len(slots)
        for index, host in enumerate(part.hosts):
            moved = tuple(first_slot + slot for slot in host.slots)
            name_here = f"host{first_host + index:03d}"
            hosts.append(replace(host, name=name_here, rack=num_racks + host.rack, slots=moved))
        slots += [
            replace(slot, slot_id=first_slot + slot.slot_id, host=first_host + slot.host)
            for slot in part.slots
        ]
        num_racks = 1 + max(host.rack for host in hosts)
    return Cluster(name, tuple(hosts), tuple(slots), dict(bandwidth_gbytes_per_s or {}))
