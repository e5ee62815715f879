"""Instances of Hu's allocation problem, drawn and by hand, and every plan of a small one."""

import itertools
import math
import random

import numpy as np

from systems.schedulers.hu.instance import Instance, Job, job_value

COUNTS = (1, 2, 4, 8, 16)
SPEEDS = tuple(n * 0.8 ** math.log2(n) for n in COUNTS)
"""Eq. (3): 1, 1.6, 2.56, 4.096, 6.5536."""


def hu_job(demand, step=1.0, most=16):
    """A job of so many node-hours (or other units) where a step has ``step`` hours."""
    size = COUNTS.index(most) + 1
    return Job(COUNTS[:size], tuple(step * speed / demand for speed in SPEEDS[:size]))


def modelarts(seed, num_jobs=100, num_nodes=190, mean_min=232.6, num_steps=5):
    """Jobs in mid-life: log-normal minutes, of which an even share is left; steps of 5 min."""
    rng = np.random.default_rng(seed)
    minutes = rng.lognormal(math.log(mean_min) - 1.125, 1.5, num_jobs) * rng.uniform(0, 1, num_jobs)
    jobs = tuple(hu_job(max(1.0, left), 5.0) for left in minutes)
    return Instance(jobs, num_nodes, num_steps)


def small(seed):
    """A few jobs of every sort: any curve (also falling), any counts, short and long."""
    rng = random.Random(seed)
    num_steps = rng.randint(1, 3)
    jobs = []
    for _ in range(rng.randint(1, 3)):
        counts = sorted(rng.sample((1, 2, 3, 4, 8), rng.randint(1, 4)))
        scale = 10 ** rng.uniform(-3, 0.5)
        if rng.random() < 0.7:
            progress = [scale * n * 0.8 ** math.log2(n) for n in counts]
        else:
            progress = [scale * rng.random() for _ in counts]
        jobs.append(Job(tuple(counts), tuple(progress)))
    least = sum(job.counts[0] for job in jobs)
    return Instance(tuple(jobs), least + rng.randint(0, 12), num_steps)


def best_by_brute_force(instance):
    """The optimum, by looking at every plan: of each job the best for the nodes it uses."""
    steps = instance.num_steps
    best = {(0,) * steps: 0.0}
    for job in instance.jobs:
        schedules = [
            (tuple(job.counts[choice] for choice in schedule), job_value(job, schedule))
            for schedule in itertools.product(range(len(job.counts)), repeat=steps)
        ]
        reached = {}
        for used, value in best.items():
            for more, worth in schedules:
                sums = tuple(map(sum, zip(used, more, strict=True)))
                if max(sums) <= instance.num_nodes:
                    reached[sums] = max(reached.get(sums, 0.0), value + worth)
        best = reached
    return max(best.values())
