"""The tensors that an optimizer steps: parameters with their gradients, and their groups."""

import math
from typing import Any

import torch
from torch.nn import Parameter

from src.bench import shapes
from src.models import ModelSpec
from src.spec import RunSpec


def size_bytes(model: ModelSpec) -> int:
    """Return the size of all parameters."""
    return sum(one.bytes for one in shapes.of(model))


def counts(model: ModelSpec) -> dict[str, int | None]:
    """Return the columns that tell how many elements and tensors the parameters are.

    None for more elements than a column of 64 bits holds.
    """
    elements = tensors = 0
    for one in shapes.of(model):
        elements, tensors = elements + one.elements, tensors + 1
    return {"parameters": elements if elements < 2**63 else None, "tensors": tensors}


def make(
    spec: RunSpec, device: torch.device, dtype: torch.dtype | None = None, *, single: bool = False
) -> list[Parameter]:
    """Return parameters with gradients, the same to the last bit for the same spec and device.

    One after the other, where they stay: nothing of the model's size is held beside them.

    Args:
        spec: model, seed, and whether the optimizer wants sparse gradients.
        device: where they are made.
        dtype: what the numbers of the model's own dtype are converted to, None to keep it.
        single: make them of one element in each dimension.
    """
    generator = torch.Generator(device).manual_seed(spec.seed)
    made = []
    for one in shapes.of(spec.model):
        shape = (1,) * len(one.shape) if single else one.shape
        values, gradient = (
            torch.randn(shape, generator=generator, device=device, dtype=one.dtype) for _ in range(2)
        )
        values *= _fan_in(shape) ** -0.5
        parameter = Parameter(values.to(dtype or values.dtype), requires_grad=one.requires_grad)
        if one.has_grad:
            gradient = gradient.to(dtype or gradient.dtype)
            parameter.grad = _by_rows(gradient) if spec.optimizer.sparse_gradients else gradient
        made.append(parameter)
    return made


def _fan_in(shape: tuple[int, ...]) -> int:
    """Return how many numbers an output of a layer with such a weight is the sum of, at least 1.

    As `torch.nn.init` counts it; of a vector its length.
    """
    return max(1, math.prod(shape[1:] if len(shape) > 1 else shape))


def _by_rows(gradient: torch.Tensor) -> torch.Tensor:
    """Return the gradient as `torch.nn.Embedding(sparse=True)` gives it: sparse in its rows."""
    return gradient.to_sparse(1)


def groups(model: ModelSpec, parameters: list[Parameter]) -> list[Parameter] | list[dict[str, Any]]:
    """Return the parameters as an optimizer's constructor takes them, in groups where asked for.

    Of `decay`, the rule by dimensions (karpathy/nanoGPT, `configure_optimizers`) divides every model of
    `src/model_shapes` as the rule by names does, which spares biases and norms (google-research/bert,
    optimization.py; `Trainer` of transformers): embeddings decay.
    """
    if model.param_groups == "decay":
        decaying = [p for p in parameters if p.dim() >= 2]
        others = [p for p in parameters if p.dim() < 2]
        without: list[dict[str, Any]] = [{"params": others, "weight_decay": 0.0}] if others else []
        return [{"params": decaying}, *without] if decaying else without
    if model.param_groups == "per_tensor":
        return [{"params": [p]} for p in parameters]
    return parameters
