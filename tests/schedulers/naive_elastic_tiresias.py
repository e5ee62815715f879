"""Elastic-Tiresias as its text says it: every decision looks at everything and remembers nothing
but the groups."""

from __future__ import annotations

import math

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.view import ClusterView
from harness.replay.occupancy import Occupancy
from systems.placements.consolidated import Consolidated
from tests.schedulers.naive_tiresias import TOLERANCE_S, NaiveTiresias


class NaiveElasticTiresias(NaiveTiresias):
    def __init__(self, limits, promote_after, compact_above, least_share):
        super().__init__(limits, promote_after)
        self.compact_above, self.least_share = compact_above, least_share

    def decide(self, view: ClusterView) -> Decision:
        self.view, now = view, view.time_s
        self.level = {i: self.level.get(i, 0) for i in view.jobs}
        for job in view.jobs.values():
            self.since.setdefault(job.job_id, job.spec.arrival_s)
            self.base.setdefault(job.job_id, 0.0)
            while self.left_s(job, now) <= TOLERANCE_S:
                self.level[job.job_id] += 1
                self.since[job.job_id] = now
        for job in view.jobs.values():
            if self.promotion_s(job) <= now + TOLERANCE_S:
                self.level[job.job_id], self.since[job.job_id] = 0, now
                self.base[job.job_id] = job.attained_slot_s
        self.slots = {
            i: tuple(job.grant.slots or job.slots) for i, job in view.jobs.items() if job.grant
        }
        ranked = [job.job_id for job in sorted(view.jobs.values(), key=self.rank)]
        self.plan(ranked)
        waiting = [i for i in ranked if i not in self.slots]
        if len(waiting) > self.compact_above:
            for job_id in waiting:
                self.compact(job_id, ranked)
        elif not waiting:
            self.expand()
        self.untangle(sorted(self.slots, key=lambda i: self.rank(view.jobs[i])))
        changes = {}
        for job_id, job in view.jobs.items():
            after = self.slots.get(job_id)
            if after is None and job.grant is not None:
                changes[job_id] = Suspend()
            elif after is not None and (
                job.grant is None or set(job.grant.slots or job.slots) != set(after)
            ):
                changes[job_id] = Grant(len(after), slots=after)
        moments = [now + self.left_s(job, now) for job in view.jobs.values() if job.grant]
        return Decision(changes, min(moments, default=math.inf))

    def left_s(self, job, now):
        if self.level[job.job_id] >= len(self.limits):
            return math.inf
        service = job.attained_service_slot_s(now) - self.base[job.job_id]
        size = job.grant.num_slots if job.grant else job.spec.requested_slots
        return (self.limits[self.level[job.job_id]] - service) / size

    def asked(self, job_id):
        return self.view.jobs[job_id].spec.requested_slots

    def speed(self, job_id, num_slots):
        return self.view.jobs[job_id].throughput.samples_per_s(num_slots)

    def most(self, job_id):
        top = self.view.jobs[job_id].spec.max_slots
        return self.view.cluster.num_slots if top is None else top

    def gain(self, job_id, num_slots):
        if num_slots + 1 > self.most(job_id):
            return 0.0
        return self.speed(job_id, num_slots + 1) / self.speed(job_id, num_slots) - 1.0

    def worth(self, job_id, num_slots):
        counts = range(self.view.jobs[job_id].spec.min_slots, self.most(job_id) + 1)
        return self.speed(job_id, num_slots) / max(self.speed(job_id, w) / w for w in counts)

    def least(self, job_id):
        spec = self.view.jobs[job_id].spec
        if not spec.elastic:
            return spec.requested_slots
        return max(spec.min_slots, math.ceil(self.least_share * spec.requested_slots))

    def occupancy(self):
        free = Occupancy(self.view.cluster)
        for slots in self.slots.values():
            free.take(slots)
        return free

    def resize(self, job_id, num_slots):
        free, held = self.occupancy(), self.slots.get(job_id, ())
        self.slots[job_id] = Consolidated().place(num_slots, self.view.cluster, free, held)

    def plan(self, ranked):
        free, starts = self.view.num_usable, []
        for job_id in ranked:
            asked = self.asked(job_id)
            demand = min(len(self.slots.get(job_id, ())) or asked, asked)
            if demand > free:
                self.slots.pop(job_id, None)
                continue
            free -= demand
            if job_id not in self.slots:
                starts.append(job_id)
        sizes = {i: len(slots) for i, slots in self.slots.items()}
        while sum(sizes.values()) + sum(map(self.asked, starts)) > self.view.num_usable:
            above = [i for i in sizes if sizes[i] > self.asked(i)]
            above.sort(key=lambda i: self.view.jobs[i].spec.order, reverse=True)
            sizes[min(above, key=lambda i: self.gain(i, sizes[i] - 1))] -= 1
        for job_id, size in sizes.items():
            if size != len(self.slots[job_id]):
                self.resize(job_id, size)
        for job_id in starts:
            self.resize(job_id, self.asked(job_id))

    def expand(self):
        sizes = {i: len(slots) for i, slots in self.slots.items()}
        order = sorted(sizes, key=lambda i: self.view.jobs[i].spec.order)
        order = [i for i in order if self.view.jobs[i].spec.elastic]
        grown = {}
        while sum(sizes.values()) < self.view.num_usable and order:
            best = max(order, key=lambda i: self.gain(i, sizes[i]))
            if self.gain(best, sizes[best]) <= 0:
                break
            sizes[best] += 1
            grown[best] = None
        for job_id in grown:
            self.resize(job_id, sizes[job_id])

    def compact(self, job_id, ranked):
        hosts = self.view.cluster.hosts
        per_host = max(len(host.slots) for host in hosts)
        num_hosts = math.ceil(self.asked(job_id) / per_host)
        sets = [[host] for host in range(len(hosts))]
        if num_hosts > 1:
            offers = {host: self.offer([host], ranked) for host in range(len(hosts))}
            sets = sorted(
                offers, key=lambda h: (-len(offers[h]), sum(loss for loss, *_ in offers[h]), h)
            )
            sets = [sorted(sets[:num_hosts])]
        best_gain, best = 0.0, None
        for count in range(self.least(job_id), self.asked(job_id) + 1):
            for chosen in sets:
                offer = self.offer(chosen, ranked)[:count]
                if len(offer) < count:
                    continue
                gain = self.worth(job_id, count) - sum(loss for loss, *_ in offer)
                if gain > best_gain + 1e-9:
                    best_gain, best = gain, offer
        if best is not None:
            for _, slot, donor in best:
                if donor is not None:
                    self.slots[donor] = tuple(one for one in self.slots[donor] if one != slot)
            self.slots[job_id] = tuple(sorted(slot for _, slot, _ in best))

    def untangle(self, ranked):
        """Of the jobs that move, none waits for slots that an earlier one holds."""
        moving = []
        for job_id in ranked:
            held, claim = set(self.view.jobs[job_id].slots), set(self.slots[job_id])
            if held <= claim or claim <= held:
                continue
            if not any(set(self.view.jobs[other].slots) & (claim - held) for other in moving):
                moving.append(job_id)
                continue
            kept = tuple(slot for slot in self.slots[job_id] if slot in held)
            spec = self.view.jobs[job_id].spec
            self.slots[job_id] = kept
            if not spec.elastic or len(kept) < spec.min_slots:
                del self.slots[job_id]

    def offer(self, hosts, ranked):
        """(loss, slot, donor or None), one after another at the least loss."""
        free, slots, taken = self.occupancy(), dict(self.slots), []
        left = [slot for host in hosts for slot in free.on_host(host)]
        host_of = self.view.cluster.host_of
        while True:
            options = [(0.0, 0, slot, None) for slot in left[:1]]
            for donor in slots:
                here = [slot for slot in slots[donor] if host_of[slot] in hosts]
                size = len(slots[donor])
                if (
                    here
                    and self.level[donor] > 0
                    and self.view.jobs[donor].spec.elastic
                    and size > self.least(donor)
                ):
                    loss = self.worth(donor, size) - self.worth(donor, size - 1)
                    options.append((loss, len(ranked) - ranked.index(donor), here[-1], donor))
            if not options:
                return taken
            loss, _, slot, donor = min(options, key=lambda option: option[:2])
            taken.append((loss, slot, donor))
            if donor is None:
                left.remove(slot)
            else:
                slots[donor] = tuple(one for one in slots[donor] if one != slot)
