"""A workload whose modules hand on tuples and mappings, and into which a difference can be planted.

``planted`` says where: ``backward`` of one operator, so that its forward pass shows nothing; the
``mapping`` in a tuple that a module returns; or the ``code`` of a module around its parts. The size
is that of last bits.
"""

import torch
from torch import nn

from tests.backends.tiny_workload import Tiny

LITTLE = 1 + 2.0**-22
"""One or two units in the last place of a float."""


class Scaled(torch.autograd.Function):
    """Its value again; its gradient times ``factor``."""

    @staticmethod
    def forward(ctx, value, factor):
        ctx.factor = factor
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Passing(nn.Module):
    """An operator of ours: the same value, and a backward pass of its own."""

    def __init__(self, planted):
        super().__init__()
        self.factor = LITTLE if planted else 1.0

    def forward(self, value):
        return Scaled.apply(value, self.factor)


class Parting(nn.Module):
    """Returns a tuple with a mapping in it, and what is no tensor."""

    def __init__(self, planted):
        super().__init__()
        self.factor = LITTLE if planted else 1.0
        self.linear = nn.Linear(8, 8)

    def forward(self, value):
        found = self.linear(value)
        return found, {"squared": found * found * self.factor, "cache": None}


class Block(nn.Module):
    """The code between its parts is its own; what it is given goes two ways."""

    def __init__(self, planted):
        super().__init__()
        self.factor = LITTLE if planted == "code" else 1.0
        self.part = Parting(planted == "mapping")
        self.activation = nn.ReLU(inplace=True)
        self.passing = Passing(planted == "backward")
        self.out = nn.Linear(8, 8)

    def forward(self, *, value):
        found, more = self.part(value)
        mixed = self.activation(found * self.factor + more["squared"])
        return (value + self.out(self.passing(mixed)),)


class Net(nn.Module):
    """Two blocks, of which the second has the difference."""

    def __init__(self, planted):
        super().__init__()
        self.first, self.second = Block(""), Block(planted)
        self.head = nn.Linear(8, 2)

    def forward(self, value):
        (value,) = self.first(value=value)
        (value,) = self.second(value=value)
        return self.head(value)


class Planted(Tiny):
    """See the module's text."""

    def __init__(self, planted="", **options):
        super().__init__(**options)
        self._planted = planted

    def build_model(self, seed):
        torch.manual_seed(seed)
        return Net(self._planted)
