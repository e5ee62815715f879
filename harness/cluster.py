"""Cluster model: hosts, devices, slots and the tree that joins them, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from harness.machine.instruction_sets import InstructionSet

CPU = "cpu"
"""Device type of a CPU slot. Types of CPU slots that differ in speed have names that begin with
``cpu_``."""


def is_cpu(device_type: str) -> bool:
    """Return whether slots of this type need no accelerator."""
    return device_type == CPU or device_type.startswith(f"{CPU}_")


@dataclass(frozen=True, slots=True)
class Slot:
    """Unit of allocation: a device, or a stated share of one."""

    slot_id: int
    host: int
    """Index of its host in ``Cluster.hosts``."""
    device: int
    """Index of its device on that host."""
    device_type: str
    share: float = 1.0
    """Share of the device, in (0, 1]."""
    cores: tuple[int, ...] = ()
    """CPU cores to which its worker is pinned; empty: not pinned."""
    instruction_set: InstructionSet | None = None
    """Newest instruction set that a worker on this CPU slot uses; None: no limit."""


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
    """Cluster with slots 0 to n - 1 on hosts in racks, and the bandwidth of every level.

    ``bandwidth_gbytes_per_s`` maps the levels ``device`` (inside one device), ``host``, ``rack``
    and ``cluster`` to a bandwidth. It holds between two slots whose lowest common level is that
    level.

    A ``shared_speed`` that is not empty says that jobs may share devices. Each slot of a device is
    then a place for a worker on the whole device. Of n workers that train there, each runs at
    ``shared_speed[n - 1]`` times its speed alone. Otherwise every slot is a device, or a share of
    one, that no other slot disturbs.
    """

    name: str
    hosts: tuple[Host, ...]
    slots: tuple[Slot, ...]
    bandwidth_gbytes_per_s: dict[str, float]
    shared_speed: tuple[float, ...] = ()

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return len(self.slots)

    @cached_property
    def host_of(self) -> tuple[int, ...]:
        """Host index of every slot, by slot id."""
        return tuple(slot.host for slot in self.slots)

    @cached_property
    def devices(self) -> tuple[tuple[int, ...], ...]:
        """Slots that a job has to itself if it shares with no other job, in slot order. Each entry
        has the slots of one device if jobs may share devices, otherwise one slot. T(w) counts these
        entries."""
        if not self.shared_speed:
            return tuple((slot.slot_id,) for slot in self.slots)
        found: dict[tuple[int, int], list[int]] = {}
        for slot in self.slots:
            found.setdefault((slot.host, slot.device), []).append(slot.slot_id)
        return tuple(map(tuple, found.values()))

    @cached_property
    def device_of(self) -> tuple[int, ...]:
        """Index in ``devices`` of every slot, by slot id."""
        of_slot = {slot: index for index, slots in enumerate(self.devices) for slot in slots}
        return tuple(of_slot[slot] for slot in range(self.num_slots))

    @cached_property
    def device_types(self) -> tuple[str, ...]:
        """Device types present, sorted."""
        return tuple(sorted({slot.device_type for slot in self.slots}))

    def num_hosts_of(self, slots: Sequence[int]) -> int:
        """Return the number of hosts with any of the given slots."""
        return len({self.host_of[slot] for slot in slots})

    def unshared(self) -> Cluster:
        """Return the cluster for schedulers that never share devices: one slot per entry of
        ``devices``."""
        if not self.shared_speed:
            return self
        number = {slots[0]: index for index, slots in enumerate(self.devices)}
        hosts = tuple(
            replace(host, slots=tuple(number[slot] for slot in host.slots if slot in number))
            for host in self.hosts
        )
        slots = tuple(
            replace(self.slots[slot], slot_id=index, share=1.0) for slot, index in number.items()
        )
        return replace(self, hosts=hosts, slots=slots, shared_speed=())


MOST_CORES = 1_000_000
"""Largest number of cores over all slots of a cluster; a slot without cores counts as one."""


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
    shared_speed: list[float] | None = None,
    addresses: list[str] | None = None,
) -> Cluster:
    """Return a cluster of equal hosts; the files in ``configs/cluster/`` call this function.

    With ``cores_per_slot`` > 0, slot i of a host is pinned to the cores from i*cores_per_slot on,
    modulo ``num_cores``. So several slots can share the cores of a small machine. With
    ``instruction_set``, workers on these CPU slots use no newer one. ``shared_speed`` has one
    factor for each number of workers on a device, and lets jobs share devices (``Cluster``). The
    slots of a device are then pinned to the same cores. ``addresses`` has the address of each host,
    at which the driver and the other hosts reach it; None means that all hosts are this machine.

    Raises:
        ValueError: all contradictions at once, one line each, with the way out.
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
    num_slots = num_hosts * devices_per_host * slots_per_device
    if num_slots * max(1, cores_per_slot) > MOST_CORES:
        # The bound protects memory: each slot is an object, and each of its cores a number.
        problems.append(
            f"{num_slots} slots of {max(1, cores_per_slot)} cores are more than the"
            f" {MOST_CORES:,} cores that a cluster may have; make it smaller"
        )
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
    if addresses is not None and len(addresses) != num_hosts:
        problems.append(
            f"addresses has {len(addresses)} entries for {num_hosts} hosts; give one for each host"
        )
    elif addresses is not None and len(set(addresses)) < num_hosts:
        problems.append(f"addresses is {addresses}; no two hosts can have the same one")
    speeds = tuple(shared_speed or ())
    problems += _shared_speed_problems(speeds, slots_per_device) if shared_speed is not None else []
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
            start = (local // slots_per_device if speeds else local) * cores_per_slot
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
                **({} if addresses is None else {"address": addresses[host]}),
            )
        )
    return Cluster(name, tuple(hosts), tuple(slots), bandwidths, speeds)


def _shared_speed_problems(speeds: Sequence[float], slots_per_device: int) -> list[str]:
    """Return why a list cannot be the speed factors by number of workers on a device."""
    said = f"shared_speed is {list(speeds)}"
    problems = []
    if slots_per_device < 2 or len(speeds) != slots_per_device:
        problems.append(
            f"{said}, but a device has {slots_per_device} slots; give one factor for each number of"
            " busy slots, of 2 slots or more (slots_per_device), or null where none are shared"
        )
    if speeds and speeds[0] != 1.0:
        problems.append(f"{said}; the first factor is the speed of a worker alone, so make it 1.0")
    if not all(0.0 < speed <= 1.0 for speed in speeds) or any(
        later > earlier for earlier, later in pairwise(speeds)
    ):
        problems.append(f"{said}; each factor must be above 0, and no larger than the one before")
    return problems


def joined_cluster(
    *, name: str, parts: Sequence[Cluster], bandwidth_gbytes_per_s: dict[str, float] | None = None
) -> Cluster:
    """Return one cluster with the hosts of several, in their order, to combine device types.

    Hosts, slots and racks are numbered consecutively over the parts; no rack spans two parts. The
    bandwidths must be given, because those of the parts may differ.

    Raises:
        ValueError: there are no parts, or their devices are shared differently.
    """
    if not parts:
        raise ValueError("parts is empty; give at least one cluster")
    speeds = {part.shared_speed for part in parts}
    if len(speeds) > 1:
        raise ValueError(
            f"parts differ in shared_speed ({', '.join(str(list(s)) for s in sorted(speeds))});"
            " give all of them the same, and as many slots a device"
        )
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
    bandwidths = dict(bandwidth_gbytes_per_s or {})
    return Cluster(name, tuple(hosts), tuple(slots), bandwidths, speeds.pop())
