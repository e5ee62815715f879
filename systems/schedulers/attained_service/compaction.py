"""Compaction (EDL): slots that running jobs can give up, by host, and the loss of doing so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate

from harness.cluster import Cluster
from systems.schedulers.common.slot_claims import SlotClaims

LEAST_GAIN = 1e-9
"""Smallest gain that counts, in slots; smaller sums of floats may be rounding alone."""


@dataclass(frozen=True, slots=True)
class Donor:
    """A running job that can give up slots."""

    worth: Sequence[float]
    """Value to the job of 0, 1, ... slots, in slots."""
    num_slots: int
    least: int
    """Fewest slots that the job keeps."""
    place: tuple[object, ...]
    """Position of the job in the plan. At equal losses, the last job in the plan gives first."""


@dataclass(frozen=True)
class Offer:
    """Slots that some hosts can give, by ascending loss."""

    slots: tuple[tuple[int, str | None], ...]
    """Each slot with the job it is taken from; None: the slot is free."""
    losses: tuple[float, ...]
    """Value that is lost by taking the first 0, 1, ... slots, in slots."""


@dataclass(frozen=True, slots=True)
class Move:
    """Slots for a waiting job, and the jobs they are taken from."""

    slots: tuple[tuple[int, str | None], ...]
    gain: float
    """Gain in GPU efficiency, in slots."""


class Compaction:
    """Search for the slots by which a waiting job gains most.

    For a job that requested P slots, at most ceil(P / m) hosts give slots, m being the slots of a
    host. The number R of slots lies between the job's least and P. The gain is the value of R slots
    to the job, minus their value to the jobs that give them. Slots are taken one at a time at the
    least loss, which is optimal if curves are concave. Free slots cost nothing.

    Exact, on concave curves: for given hosts, the number of slots taken and the jobs that give
    them. If one host is allowed, its choice is exact too: all hosts are tried, and among equal
    gains the fewest slots win, then the first host. The choice is also exact if all hosts are
    allowed.

    A heuristic: the choice of hosts, if more than one is allowed but not all. The hosts with the
    most slots to give are taken (then those with the least loss), the same for all requests of as
    many hosts. It was compared with brute force over every set of hosts on 988 random small cases
    in which something can be gained (two of four hosts, of two or three slots each). The heuristic
    found the greatest gain in 75 %, nothing in 1 %, and 90 % of the greatest gain on average.

    The offer of a host is cached until a claim on the host changes.
    """

    def __init__(
        self, cluster: Cluster, claims: SlotClaims, donor_of: Callable[[str], Donor | None]
    ) -> None:
        self._cluster = cluster
        self._claims = claims
        self._donor_of = donor_of
        self._per_host = max(len(host.slots) for host in cluster.hosts)
        self._offers: dict[int, Offer] = {}
        self._wide: dict[int, Offer] = {}
        self._least_losses: list[float] = []

    def refresh(self) -> None:
        """Compute the offers of the hosts that have changed."""
        changed = self._claims.changed_hosts
        stale = changed if self._offers else range(len(self._cluster.hosts))
        if not stale:
            return
        for host in stale:
            self._offers[host] = self._offer([host])
        changed.clear()
        self._wide.clear()
        self._least_losses = [0.0]
        for count in range(1, self._per_host + 1):
            losses = [
                offer.losses[count] for offer in self._offers.values() if len(offer.slots) >= count
            ]
            if not losses:
                break
            self._least_losses.append(min(losses))

    @property
    def is_exhausted(self) -> bool:
        """Return whether no host has a slot to give."""
        return len(self._least_losses) == 1

    def best(self, worth: Sequence[float], least: int, requested: int) -> Move | None:
        """Return the slots from which a job gains most; None if no slots bring a gain."""
        num_hosts = -(-requested // self._per_host)
        if num_hosts > 1:
            offer = self._wide_offer(num_hosts)
            gain, count = _best_count(worth, offer.losses, least, requested)
            return Move(offer.slots[:count], gain) if gain > LEAST_GAIN else None
        gain, count = _best_count(worth, self._least_losses, least, requested)
        if gain <= LEAST_GAIN:
            return None
        loss = self._least_losses[count]
        for host in range(len(self._cluster.hosts)):
            offer = self._offers[host]
            if len(offer.slots) >= count and offer.losses[count] == loss:
                return Move(offer.slots[:count], gain)
        raise AssertionError("the least loss occurs at one of the hosts")

    def _wide_offer(self, num_hosts: int) -> Offer:
        known = self._wide.get(num_hosts)
        if known is None:
            offers = self._offers
            ranked = sorted(offers, key=lambda h: (-len(offers[h].slots), offers[h].losses[-1], h))
            known = self._wide[num_hosts] = self._offer(sorted(ranked[:num_hosts]))
        return known

    def _offer(self, hosts: Sequence[int]) -> Offer:
        """Return the slots that some hosts can give, taken one at a time at the least loss."""
        free = [slot for host in hosts for slot in self._claims.free_on(host)]
        here: dict[str, list[int]] = {}
        for host in hosts:
            for job_id, slots in self._claims.owners_on(host).items():
                here.setdefault(job_id, []).extend(slots)
        donors = [(job_id, one) for job_id in here if (one := self._donor_of(job_id)) is not None]
        donors.sort(key=lambda entry: entry[1].place, reverse=True)
        taken: list[tuple[int, str | None]] = []
        losses: list[float] = []
        heap = [(0.0, -1, 0)] if free else []
        heap += [
            (one.worth[one.num_slots] - one.worth[one.num_slots - 1], index, 0)
            for index, (_, one) in enumerate(donors)
            if one.num_slots > one.least
        ]
        heapify(heap)
        while heap:
            loss, index, count = heappop(heap)
            losses.append(loss)
            if index < 0:
                taken.append((free[count], None))
                if count + 1 < len(free):
                    heappush(heap, (0.0, -1, count + 1))
                continue
            job_id, one = donors[index]
            ranked = [slot for slot in self._claims.of(job_id) if slot in here[job_id]]
            taken.append((ranked[-1 - count], job_id))
            left = one.num_slots - count - 1
            if left > one.least and count + 1 < len(ranked):
                heappush(heap, (one.worth[left] - one.worth[left - 1], index, count + 1))
        return Offer(tuple(taken), tuple(accumulate(losses, initial=0.0)))


def _best_count(
    worth: Sequence[float], losses: Sequence[float], least: int, requested: int
) -> tuple[float, int]:
    """Return the greatest gain and the fewest slots that give it; (0, 0) if there is no gain."""
    best, best_count = 0.0, 0
    for count in range(least, min(requested, len(losses) - 1) + 1):
        gain = worth[count] - losses[count]
        if gain > best + LEAST_GAIN:
            best, best_count = gain, count
    return best, best_count
