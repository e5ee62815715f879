"""ElasticFlow's two algorithms as the text says them: slot by slot, everything anew.

Independent of ``systems/schedulers``; only tests use it. A job is (levels, rates, need, end):
``levels`` and ``rates`` begin with 0. Time slot 0 is now. Shares are lists with a count for
each time slot before the deadline.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple


class Job(NamedTuple):
    counts: tuple[int, ...]
    rates: tuple[float, ...]
    need: float
    end: int

    def work(self, share):
        return sum(self.rates[self.counts.index(count)] for count in share)


def round_down(counts, slots):
    return max(count for count in counts if count <= slots)


def progressive_filling(job, start, share, room):
    """Algorithm 1, lines 11 to 22; ``room``: free slots by time slot, without this job."""
    share = share[:start] + [0] * (job.end - start)
    if job.work(share) >= job.need:
        return share
    for level in job.counts[1:]:
        for slot in reversed(range(start, job.end)):
            share[slot] = round_down(job.counts, min(level, room[slot]))
            if job.work(share) >= job.need:
                return share
    return None


def left_by(shares, num_slots, horizon, without=None):
    used = [0] * horizon
    for index, share in enumerate(shares):
        if index != without and share is not None:
            for slot, count in enumerate(share):
                used[slot] += count
    return [num_slots - count for count in used]


def plan(jobs, num_slots, skip=False):
    """Algorithm 1 for jobs in order of deadline: a share each (None: missed), or None."""
    horizon = max((job.end for job in jobs), default=0)
    shares = []
    for job in jobs:
        share = progressive_filling(job, 0, [], left_by(shares, num_slots, horizon))
        if share is None and not skip:
            return None
        shares.append(share)
    return shares


def grow(jobs, shares, num_slots, others=(), zero_first=False, orders=None):
    """Algorithm 2: slots in the present time slot, of the jobs and of those without a share,
    and the jobs' shares after it.

    ``orders``: how ties break, jobs first, then the others.
    """
    horizon = max((job.end for job in jobs), default=0)
    orders = orders or list(range(len(jobs) + len(others)))
    shares = [None if share is None else list(share) for share in shares]
    counts = [0 if not share else share[0] for share in shares]
    extra = [0] * len(others)
    while True:
        free = num_slots - sum(counts) - sum(extra)
        best = None
        for index, job in enumerate(jobs):
            if shares[index] is None:
                continue
            level = job.counts.index(counts[index])
            if level + 1 == len(job.counts) or job.rates[level] >= job.need:
                continue
            step = job.counts[level + 1] - counts[index]
            room = left_by(shares, num_slots, horizon, index)
            wanted = progressive_filling(job, 1, [job.counts[level + 1]], room)
            assert wanted is not None
            gain = (sum(shares[index]) - sum(wanted)) / step
            rank = 1 if counts[index] or not zero_first else 0
            key = (rank, -gain, orders[index])
            if step <= free and (best is None or key < best[0]):
                best = key, index, wanted
        for index, job in enumerate(others):
            level = job.counts.index(extra[index])
            if level + 1 == len(job.counts) or (level and job.rates[level] >= job.need):
                continue
            step, gain = job.counts[level + 1] - extra[index], 0.0
            if level:
                now, then = (job.need * job.counts[i] / job.rates[i] for i in (level, level + 1))
                gain = (now - then) / step
            rank = 1 if extra[index] or not zero_first else 0
            key = (rank, -gain, orders[len(jobs) + index])
            if step <= free and (best is None or key < best[0]):
                best = key, len(jobs) + index, None
        if best is None:
            return counts, extra, shares
        _, index, wanted = best
        if index >= len(jobs):
            job = others[index - len(jobs)]
            level = job.counts.index(extra[index - len(jobs)])
            extra[index - len(jobs)] = job.counts[level + 1]
        else:
            shares[index], counts[index] = wanted, wanted[0]


def least_usage(jobs, num_slots, grown):
    """Brute force: the least slot time of all allocations that keep every deadline.

    ``grown``: only those in which no slot is idle now that would speed up a job (constraint 7,
    for jobs that do not end in this time slot anyhow). None if there is no allocation.
    """
    best = None
    horizon = max(job.end for job in jobs)
    options = [
        [share for share in product(job.counts, repeat=job.end) if job.work(share) >= job.need]
        for job in jobs
    ]
    for shares in product(*options):
        room = left_by(shares, num_slots, horizon)
        if min(room) < 0:
            continue
        pairs = zip(jobs, shares, strict=True)
        if grown and any(could_grow(job, share, room[0]) for job, share in pairs):
            continue
        usage = sum(map(sum, shares))
        best = usage if best is None else min(best, usage)
    return best


def could_grow(job, share, free):
    level = job.counts.index(share[0])
    if level + 1 == len(job.counts) or job.rates[level] >= job.need:
        return False
    return job.counts[level + 1] - share[0] <= free
