"""The shapes of a model's parameters, in their order, without any of their memory.

A stack's follow from its keys, those of a model that people train lie in a table, and a module of the user's
own is built once, without memory where it can be, and only looked at.
"""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from src.bench import modules
from src.models import CustomModelSpec, ModelSpec, ShapesSpec, StackSpec
from src.rules import SpecError

FOLDER = Path(__file__).resolve().parents[1] / "model_shapes"
"""Where the tables are: comments, then name, shape (as 768x3x16x16) and kind of each parameter."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a parameter before it is made."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = True
    has_grad: bool = True
    """Whether there is a gradient when the optimizer steps."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elements * self.dtype.itemsize


def of(model: ModelSpec) -> Iterator[Shape]:
    """Yield the shape of each parameter of a model, in the order of `parameters()`; a shared one once.

    Raises:
        SpecError: `model._target_` names nothing that makes a module with parameters to step.
        Whatever the user's own class raises.
    """
    dtype = getattr(torch, model.dtype)
    if isinstance(model, StackSpec):
        yield from _of_stack(model)  # one by one: nobody has said that so many fit
    elif isinstance(model, ShapesSpec):
        yield from (Shape(shape, dtype) for shape in _of_table(model.shapes))
    elif isinstance(model, CustomModelSpec):
        found = _of_module(model._target_, json.dumps(model.arguments))
        yield from (Shape(shape, dtype, trains, trains) for shape, trains in found)
    else:
        raise TypeError(f"no shapes are known of a {type(model).__name__}")


def _of_stack(model: StackSpec) -> Iterator[Shape]:
    """Yield of each layer the weight, then the bias."""
    for layer in range(model.depth):
        own = model.second_dtype if model.second_dtype and layer % 2 else model.dtype
        dtype = getattr(torch, own)
        asks = layer >= model.frozen_layers
        has = layer >= model.frozen_layers + model.layers_without_grad
        yield Shape((model.width, model.width), dtype, asks, has)
        if model.bias:
            yield Shape((model.width,), dtype, asks, has)


@cache
def _of_table(name: str) -> tuple[tuple[int, ...], ...]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return tuple(tuple(map(int, row["shape"].split("x"))) for row in rows)


@cache
def _of_module(dotted: str, arguments: str) -> tuple[tuple[tuple[int, ...], bool], ...]:
    """Return shape and `requires_grad` of each parameter of a user's module; arguments are JSON."""
    module = _built(dotted, json.loads(arguments))
    found = []
    for name, parameter in module.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise SpecError(f"model._target_ must make parameters with a shape: {name} of {dotted} has none")
        if not parameter.is_floating_point():
            raise SpecError(
                f"model._target_ must make parameters of real floating point: {name} of {dotted} "
                f"is of {parameter.dtype}"
            )
        found.append((tuple(parameter.shape), parameter.requires_grad))
    if not any(trains for _, trains in found):
        raise SpecError(f"model._target_ must make parameters that ask for a gradient: {dotted} made none")
    return tuple(found)


def _built(dotted: str, arguments: dict[str, Any]) -> torch.nn.Module:
    """Build a user's module without memory, or on the CPU where its constructor needs numbers.

    Such as one that reads weights, or asks a tensor for its value: that fails on the meta device, in a manner
    of each constructor's own. The generators that other code draws from are as they were before.
    """
    with torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):
                return modules.own(dotted, arguments)
        except SpecError:
            raise
        except Exception:  # if the arguments were the cause, it is raised again
            return modules.own(dotted, arguments)
