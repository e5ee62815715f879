"""Use of the nodes that a plan leaves idle in its first step."""

from __future__ import annotations

import heapq

from systems.schedulers.hu.instance import Instance


def grown(instance: Instance, counts: list[int]) -> list[int]:
    """Return the counts of the first step, with its idle nodes given to jobs that can use them.

    The objective ignores time within a step. So among plans of equal value, the printed model may
    choose a plan that leaves nodes idle although they would end a job sooner. One more node in the
    first step never lowers a plan's value. If speeds are concave, growing the smallest job gains
    most per node. Ties go to the job with less left, then to the earlier job.

    Args:
        instance: instance that was planned.
        counts: nodes of every job in the first step.
    """
    counts = list(counts)
    idle = instance.num_nodes - sum(counts)
    jobs = instance.jobs
    order = [(count, -jobs[i].progress[0], i) for i, count in enumerate(counts)]
    heapq.heapify(order)
    while order and idle > 0:
        count, least, number = heapq.heappop(order)
        job = jobs[number]
        place = job.counts.index(count) + 1
        if place == len(job.counts) or job.progress[place] <= job.progress[place - 1]:
            continue
        more = job.counts[place]
        if more - count <= idle:
            idle -= more - count
            counts[number] = more
            heapq.heappush(order, (more, least, number))
    return counts
