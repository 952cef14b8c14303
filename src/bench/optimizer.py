"""The optimizer of an arm, and what compiling does to it."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch.optim import Optimizer

from src.bench import shapes, target
from src.bench.refusal import Unsupported, made
from src.spec import RunSpec

_WHAT_AN_OPTIMIZER_HAS = ("param_groups", "state", "step")


def check(spec: RunSpec) -> None:
    """Check, before anything is allocated, that the optimizer takes parameters of the model's shapes.

    Raises:
        Unsupported: it takes matrices alone (torch/optim/_muon.py, `__init__`), and some are none.
    """
    if not spec.optimizer.matrices_alone:
        return
    every = [one.shape for one in shapes.of(spec.model)]
    others = [shape for shape in every if len(shape) != 2]
    if others:
        first = "x".join(map(str, others[0])) or "scalar"
        raise Unsupported(
            f"{spec.optimizer.torch_class} takes matrices alone: {len(others)} of the {len(every)} tensors "
            f"of model={spec.model.name} are none, the first of shape {first}"
        )


def make(spec: RunSpec, parameters: Iterable[Any], *, reference: bool = False) -> Optimizer:
    """Return the optimizer of `parameters`, or of groups of them.

    Args:
        spec: optimizer and kind of learning rate; a tensor is made anew for each optimizer.
        parameters: parameters or groups.
        reference: make the plainest variant, a loop over the tensors with a float learning rate.

    Raises:
        Unsupported: the constructor of an optimizer of torch refuses the arguments.
        SpecError: `optimizer._target_` names nothing that makes an optimizer.
    """
    keywords = spec.optimizer.keywords()
    if reference:
        keywords = {k: v for k, v in keywords.items() if k not in ("foreach", "fused", "capturable")}
        if hasattr(spec.optimizer, "foreach"):
            keywords["foreach"] = False
    elif spec.lr_as_tensor:
        keywords["lr"] = torch.tensor(keywords["lr"], device=spec.lr_device)
    name = spec.optimizer.torch_class
    if name is None:
        dotted = cast(str, getattr(spec.optimizer, "_target_"))  # noqa: B009  # would be mangled in a class
        own = target.load("optimizer._target_", dotted)(parameters, **keywords)
        return cast(Optimizer, target.having(own, "optimizer._target_", dotted, *_WHAT_AN_OPTIMIZER_HAS))
    return cast(Optimizer, made(name, getattr(torch.optim, name), parameters, **keywords))


def closure(parameters: list[torch.nn.Parameter]) -> Callable[[], torch.Tensor]:
    """Return the closure that LBFGS evaluates: a loss whose gradient is the given, fixed one."""

    def loss() -> torch.Tensor:
        with torch.no_grad():
            terms = [(p * p.grad).sum() for p in parameters if p.grad is not None]
            return torch.stack(terms).sum()

    return loss


def capturable(optimizer: Optimizer) -> bool | None:
    """Return `capturable` of the first group, None for an optimizer without it."""
    value = optimizer.param_groups[0].get("capturable")
    return None if value is None else bool(value)


def step_device(optimizer: Optimizer) -> str | None:
    """Return the device of the step counters, None when there are none or they are no tensors."""
    counters = (state.get("step") for state in optimizer.state.values() if isinstance(state, dict))
    return next((c.device.type for c in counters if isinstance(c, torch.Tensor)), None)
