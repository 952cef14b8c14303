"""All numbers that an optimizer keeps, by name: what two arms must agree in besides their parameters."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

_DEEPEST = 5
"""Levels of lists and dictionaries that are looked into."""

_SEEN_ELSEWHERE = ("param_groups", "state", "defaults")


def of(optimizer: Any, parameters: list[torch.nn.Parameter]) -> dict[str, torch.Tensor]:
    """Return what an optimizer keeps, as real dense tensors by names that are alike in every arm.

    Args:
        optimizer: its `state`, whatever the keys and however nested, with numbers as tensors, and the
            tensors among its own attributes.
        parameters: these, and their gradients, are no state.
    """
    names = {id(p): f"parameter {index}" for index, p in enumerate(parameters)}
    known = {*names, *(id(p.grad) for p in parameters if p.grad is not None)}
    found: dict[str, torch.Tensor] = {}
    for key, entry in optimizer.state.items():
        owner = names.get(id(key), str(key))
        for path, value in _leaves(entry, "", _DEEPEST):
            if id(value) not in known:
                found[f"{path.lstrip('.')} of {owner}" if path else owner] = value
    for name, attribute in vars(optimizer).items():
        if name not in _SEEN_ELSEWHERE:
            found |= {
                f"optimizer.{name}{path}": value
                for path, value in _leaves(attribute, "", _DEEPEST)
                if id(value) not in known and isinstance(value, torch.Tensor)
            }
    return {name: _as_tensor(value) for name, value in found.items()}


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every tensor and number in nested lists and dictionaries."""
    if isinstance(value, torch.Tensor | int | float):
        yield path, value
    elif depth and isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _leaves(entry, f"{path}.{key}", depth - 1)
    elif depth and isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _leaves(entry, f"{path}[{index}]", depth - 1)


def _as_tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        return torch.tensor(float(value), dtype=torch.float64)
    dense: torch.Tensor = value.detach().to_dense() if value.is_sparse else value.detach()
    return dense
