"""A small job with what makes moving its state hard, and the processes that move it.

Strides other than usual, a parameter without dimensions, one that is frozen, BatchNorm's
counters, two parameter groups, a learning rate and a batch that change every step.
"""

import multiprocessing
import threading

import torch
from torch import nn

from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.donor import Donor
from systems.elastic.transfer.listing import Listing
from systems.elastic.transfer.peer import send_state
from systems.elastic.transfer.pieces import Limits, gradient_views
from systems.elastic.transfer.receiver import Receiver
from systems.elastic.transfer.training_state import StateMismatch, TrainingState
from systems.runtime.reduction.ordered import BucketLayout
from systems.runtime.tensors.flat_buffers import FlatBuffers
from systems.runtime.tensors.state import digests, hyper_parameters
from systems.runtime.wire.groups import build_group

TOKEN = "the job's own token"

OPTIMIZERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "momentum": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.1),
    "nesterov": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.01, amsgrad=True),
    "adam_foreach": lambda groups: torch.optim.Adam(groups, lr=0.01, foreach=True),
    "adam_fused": lambda groups: torch.optim.Adam(groups, lr=0.01, fused=True),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.01),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda groups: torch.optim.Adagrad(groups, lr=0.05, lr_decay=0.01),
    "adadelta": lambda groups: torch.optim.Adadelta(groups),
    "adamax": lambda groups: torch.optim.Adamax(groups),
    "nadam": lambda groups: torch.optim.NAdam(groups, decoupled_weight_decay=True),
    "radam": lambda groups: torch.optim.RAdam(groups),
    "asgd": lambda groups: torch.optim.ASGD(groups, t0=3),
    "rprop": lambda groups: torch.optim.Rprop(groups),
    "adafactor": lambda groups: torch.optim.Adafactor(groups),
}


def pieces_left(donor):
    """Not yet sent; None before the log has begun."""
    return len(donor._pieces) if donor._is_logging else None


class PacedDonor(Donor):
    """Sends so few pieces between two updates that many updates come between the first and the
    last, however fast either thread is on a busy machine."""

    PIECES = 12

    def __init__(self, *arguments, **options):
        self._turns = threading.Semaphore(self.PIECES)
        super().__init__(*arguments, **options)

    def reduced(self, step, rate_batch, samples, buckets, groups=None):
        # Updates before the log begins send nothing, and would add up to turns for all pieces.
        is_logging = self._is_logging
        super().reduced(step, rate_batch, samples, buckets, groups)
        if is_logging:
            self._turns.release(self.PIECES)

    def _send_piece(self, piece):
        return self._turns.acquire(timeout=0.1) and super()._send_piece(piece)


class HeldDonor(Donor):
    """Reads and sends the end of its log only when it may."""

    def __init__(self, *arguments, **options):
        self.may_end = threading.Event()
        super().__init__(*arguments, **options)

    def _send_last(self, last):
        self.may_end.wait(20)
        super()._send_last(last)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convolution = nn.Conv2d(2, 16, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(16)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.frozen = nn.Parameter(torch.randn(50), requires_grad=False)
        self.wide = nn.Linear(16 * 4, width)
        self.last = nn.Linear(width, 5)

    def forward(self, x):
        x = self.norm(self.convolution(x)).relu().flatten(1)
        return self.last((self.wide(x) * self.scale).relu())


class Job:
    """A model in training, its gradients in flat buckets as the reduction keeps them."""

    def __init__(
        self, optimizer, seed=1, width=600, clips=False, is_flat=False, is_scheduled=False
    ):
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.model = Net(width)
        trained = [value for value in self.model.parameters() if value.requires_grad]
        groups = [{"params": trained[:4], "weight_decay": 0.01}, {"params": trained[4:]}]
        self.optimizer = OPTIMIZERS[optimizer](groups)
        flat = FlatBuffers(self.model) if is_flat else None
        self.state = TrainingState(self.model, self.optimizer, flat)
        self.clips = clips
        self.is_scheduled = is_scheduled
        """Whether learning rates are set between updates, as a script's scheduler does it."""
        self.step = 0
        order = list(reversed(range(len(trained))))  # of the backward
        sizes = [value.numel() for value in trained]
        self.layout = [
            BucketLayout(tuple(part), sum(sizes[index] for index in part), torch.float32)
            for part in (order[:2], order[2:4], order[4:])
        ]
        self.buckets = [torch.zeros(bucket.numel) for bucket in self.layout]
        self.views = gradient_views(self.state, self.layout, self.buckets)
        self._listings = {}

    def gradients(self):
        """Forward, which changes the buffers, and backward, which overwrites the buckets."""
        x, y = torch.randn(8, 2, 4, 4), torch.randint(0, 5, (8,))
        loss = nn.functional.cross_entropy(self.model(x), y)
        indices = list(self.views)
        found = torch.autograd.grad(loss, [self.state.parameters[index] for index in indices])
        return dict(zip(indices, found, strict=True))

    def backward(self, gradients):
        for index, gradient in gradients.items():
            self.views[index].copy_(gradient)
            self.state.parameters[index].grad = self.views[index]

    def update(self, step, global_batch):
        if not self.is_scheduled:
            self.schedule(step, global_batch)
        if self.clips:
            nn.utils.clip_grad_norm_(self.state.parameters, 0.1)
        self.optimizer.step()

    def schedule(self, step, global_batch):
        for rank, group in enumerate(self.optimizer.param_groups):
            group["lr"] = 1e-3 * global_batch / (1 + rank + step % 7)

    def train_step(self, donors=()):
        gradients = self.gradients()
        for donor in donors:
            donor.wait_sent()
        self.backward(gradients)
        global_batch = 8 + self.step % 3
        if donors:
            (donor,) = donors
            with donor.lock:
                groups = hyper_parameters(self.optimizer) if self.is_scheduled else None
                donor.reduced(self.step, global_batch, 8 * self.step, self.buckets, groups)
                self.update(self.step, global_batch)
        else:
            self.update(self.step, global_batch)
        self.step += 1
        if self.is_scheduled:
            self.schedule(self.step, global_batch)

    def train_beside(self, donor):
        """A step, then wait for a piece or two, while the next is already on its way."""
        self.train_step([donor])
        left = pieces_left(donor)
        for _ in range(200):
            if donor.join(0.001) or donor.caught_up:
                return
            if left is None or pieces_left(donor) < max(1, left - 1):
                return

    def train(self, num_steps):
        for _ in range(num_steps):
            self.train_step()

    def receiver(self, **options):
        self.num_applied = 0

        def apply(step, global_batch, samples, buckets):
            self.num_applied += 1
            self.update(step, global_batch)

        return Receiver(TOKEN, self.state, self.layout, apply, **options)

    def donor(self, ports, token=TOKEN, kind=Donor, piece_bytes=None, **options):
        addresses = [("127.0.0.1", port) for port in ports]
        return kind(addresses, token, self.listing(piece_bytes), **options)

    def listing(self, piece_bytes=None):
        """The same for all transfers of this job in such pieces."""
        if piece_bytes not in self._listings:
            limits = [Limits(piece_bytes, 48)] * 2 if piece_bytes else []
            self._listings[piece_bytes] = Listing(self.state, self.layout, *limits)
        return self._listings[piece_bytes]

    def digests(self):
        return digests(self.model, self.optimizer)


def processes():
    """A start method whose children have torch imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.elastic.transfer.preload"])
    return context


def join(pipe, optimizer, num_warm_up, job_options, options):
    """A joiner: says its port, then what came of it."""
    job = Job(optimizer, seed=2, **job_options)
    job.train(num_warm_up)
    receiver = job.receiver(**options)
    pipe.send(receiver.port)
    applied = []
    try:
        received = receiver.run(lambda: applied.append(job.num_applied), wait_s=100)
    except (TransferError, StateMismatch) as error:
        pipe.send((type(error).__name__, str(error)))
    else:
        pipe.send((received, job.digests(), applied, receiver.pulls))


def give(pipe, optimizer, port, options):
    """A donor that trains until it is killed."""
    job = Job(optimizer)
    donor = job.donor([port], **options)
    while not donor.failed:
        job.train_step([donor])
    pipe.send(repr(donor.failed))


def send(pipe, optimizer, port, options):
    """One that sends its state between two steps."""
    job = Job(optimizer)
    job.train(3)
    send_state([("127.0.0.1", port)], TOKEN, job.state, job.step, {"at": 7}, **options)
    pipe.send(job.digests())


def receive(pipe, optimizer, options):
    job = Job(optimizer, seed=2)
    receiver = job.receiver(**options)
    pipe.send(receiver.port)
    pipe.send((receiver.run(wait_s=100), job.digests()))


def broadcast(pipe, optimizer, store_port, rank):
    job = Job(optimizer, seed=rank)
    job.train(2 + rank)
    group = build_group("127.0.0.1", store_port, 1, rank, 3, 30.0)
    received = broadcast_state(group, job.state, 1, job.step, {"from": rank})
    pipe.send((received, job.digests()))
    pipe.recv()
