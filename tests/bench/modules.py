"""Modules such as users bring along: none of them knows stepsweep."""

import torch
from torch import nn

built = []
"""Devices of the modules that `Net` has made."""


class Net(nn.Module):
    """A convolution, a norm, and a head tied to an embedding; the norm may be frozen. 16 + 4 + 4 + 30."""

    def __init__(self, kernel=(2, 2), frozen=False):
        super().__init__()
        self.register_buffer("seen", torch.zeros(100))
        self.conv = nn.Conv2d(1, 4, kernel, bias=False)
        self.norm = nn.BatchNorm2d(4).requires_grad_(not frozen)
        self.embedding = nn.Embedding(10, 3)
        self.head = nn.Linear(3, 10, bias=False)
        self.head.weight = self.embedding.weight
        built.append(self.conv.weight.device.type)


class Reading(nn.Linear):
    """A layer whose constructor reads a number, which a tensor without memory does not have."""

    def __init__(self):
        super().__init__(4, 2)
        self.first = self.weight[0, 0].item()


def net(width):
    """Return a module; a function serves as well as a class."""
    return nn.Linear(width, width)


def huge():
    """Return 40 TB of parameters, if anyone made them."""
    return nn.Linear(3_000_000, 3_000_000, bias=False)


def nothing():
    return nn.ReLU()


def frozen():
    return nn.Linear(2, 2).requires_grad_(False)


def lazy():
    return nn.LazyLinear(2)


def whole_numbers():
    return nn.ParameterList([nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)])


def no_module():
    return [nn.Linear(2, 2)]
