"""Saxena's optimizer and autoscaler as their pseudocode has them, to be compared with.

Algorithm 1 with its indices corrected, and figure 4 with its loop corrected, event by event: one
full table for every newcomer that is tried, and every batch of a job's range looked at.
"""

from __future__ import annotations

import math

from harness.contracts.decision import Grant, Refuse
from harness.contracts.event import EventKind

NONE = -math.inf


def optimise(values, num_slots):
    """Slots of each job by the whole table; None if infeasible. ``values[j][g]`` by slots."""
    num_jobs = len(values)
    table = [[0.0] * (num_slots + 1)]
    solution = [[0] * (num_slots + 1)]
    for job in values:
        row, chosen = [NONE] * (num_slots + 1), [0] * (num_slots + 1)
        for k in range(1, num_slots + 1):
            for g in range(1, min(len(job) - 1, k) + 1):
                found = table[-1][k - g] + float(job[g])
                if found > row[k]:
                    row[k], chosen[k] = found, g
        table.append(row)
        solution.append(chosen)
    if num_jobs and not table[num_jobs][num_slots] > 0:
        return None
    shares, k = [], num_slots
    for j in range(num_jobs, 0, -1):
        shares.append(solution[j][k])
        k -= solution[j][k]
    return shares[::-1]


class NaiveAutoscaler:
    """Decides at every event; ``drops``: what does not fit is refused."""

    def __init__(self, k_max, slot_batch, drops):
        self.k_max, self.slot_batch, self.drops = k_max, slot_batch, drops
        self.executing, self.arrived = [], []
        self.values, self.batches = {}, {}

    def decide(self, view):
        finished = {e.job_id for e in view.news if e.kind is EventKind.JOB_FINISHED}
        for event in view.news:
            if event.kind is EventKind.ARRIVAL:
                self.analyse(view.jobs[event.job_id])
                self.arrived.append(event.job_id)
        self.executing = [job_id for job_id in self.executing if job_id not in finished]
        shares = self.allocate(self.executing, view)
        while self.arrived:
            trial = [*self.executing, self.arrived[0]]
            possible = self.allocate(trial, view)
            if possible is None:
                break
            shares, self.executing = possible, trial
            self.arrived.pop(0)
        changes = {}
        if self.drops:
            changes = dict.fromkeys(self.arrived, Refuse)
            self.arrived = []
        for job_id, slots in zip(self.executing, shares, strict=True):
            grant = Grant(slots, global_batch=self.batches[job_id][slots])
            if view.jobs[job_id].grant != grant:
                changes[job_id] = grant
        return changes

    def allocate(self, jobs, view):
        return optimise([self.values[job_id] for job_id in jobs], view.num_usable)

    def analyse(self, job):
        spec, curve, largest = job.spec, job.throughput, self.slot_batch
        process_s = {
            batch: batch / curve.samples_per_s(1, batch) for batch in range(1, largest + 1)
        }
        alone = largest / process_s[largest]
        most = min(self.k_max, spec.max_slots or self.k_max)
        self.values[job.job_id] = [NONE] * (most + 1)
        self.batches[job.job_id] = [0] * (most + 1)
        low, high = spec.batch_range
        for k in range(spec.min_slots, most + 1):
            fitting = [b for b in range(low, high + 1) if math.ceil(b / k) <= largest]
            if not fitting:
                continue
            biggest = fitting[-1]
            whole_s = biggest / curve.samples_per_s(k, biggest)
            summing_s = max(0.0, whole_s - process_s[math.ceil(biggest / k)])
            for b in fitting:
                factor = b / (process_s[math.ceil(b / k)] + summing_s) / alone
                if factor > self.values[job.job_id][k]:
                    self.values[job.job_id][k], self.batches[job.job_id][k] = factor, b
