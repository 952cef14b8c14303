"""The tensors that an optimizer steps: parameters with their gradients, and their groups."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import Parameter

from src.spec import ModelSpec, RunSpec


def shapes(model: ModelSpec) -> Iterator[tuple[int, tuple[int, ...], torch.dtype]]:
    """Yield layer, shape and dtype of each parameter: of each layer the weight, then the bias."""
    assert model.width is not None  # noqa: S101  # `spec` has checked
    assert model.depth is not None  # noqa: S101
    for layer in range(model.depth):
        own = model.second_dtype if model.second_dtype and layer % 2 else model.dtype
        dtype = getattr(torch, own)
        yield layer, (model.width, model.width), dtype
        if model.bias:
            yield layer, (model.width,), dtype


def size_bytes(model: ModelSpec) -> int:
    """Return the size of all parameters."""
    return sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in shapes(model))


def make(spec: RunSpec, device: torch.device, dtype: torch.dtype | None = None) -> list[Parameter]:
    """Return parameters with gradients, the same to the last bit for the same spec and device.

    Args:
        spec: model, seed, and whether the optimizer wants sparse gradients.
        device: where they are made.
        dtype: what the numbers of the model's own dtype are converted to, None to keep it.
    """
    model = spec.model
    assert model.width is not None  # noqa: S101  # for the type checker
    generator = torch.Generator(device).manual_seed(spec.seed)
    made = []
    for layer, shape, own in shapes(model):
        values, gradient = (
            torch.randn(shape, generator=generator, device=device, dtype=own) for _ in range(2)
        )
        values *= model.width**-0.5
        frozen = layer < model.frozen_layers
        parameter = Parameter(values.to(dtype or values.dtype), requires_grad=not frozen)
        if layer >= model.frozen_layers + model.layers_without_grad:
            gradient = gradient.to(dtype or gradient.dtype)
            parameter.grad = _by_rows(gradient) if spec.optimizer.sparse_gradients else gradient
        made.append(parameter)
    return made


def _by_rows(gradient: torch.Tensor) -> torch.Tensor:
    """Return the gradient as `torch.nn.Embedding(sparse=True)` gives it: sparse in its rows."""
    return gradient.to_sparse(1)


def groups(model: ModelSpec, parameters: list[Parameter]) -> list[Parameter] | list[dict[str, Any]]:
    """Return the parameters as an optimizer's constructor takes them, in groups where asked for."""
    if model.param_groups == "decay":
        decaying = [p for p in parameters if p.dim() >= 2]
        others = [p for p in parameters if p.dim() < 2]
        without: list[dict[str, Any]] = [{"params": others, "weight_decay": 0.0}] if others else []
        return [{"params": decaying}, *without]
    if model.param_groups == "per_tensor":
        return [{"params": [p]} for p in parameters]
    return parameters
