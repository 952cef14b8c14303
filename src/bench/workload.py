"""The step that is measured: parameters, gradients, optimizer and scheduler of one arm.

Every arm builds its own, alike to the last bit because all are made from one seed on one device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from src.bench.machine import Unsupported
from src.spec import ModelSpec, RunSpec


@dataclass(frozen=True)
class Workload:
    """One arm's own objects, and the step as a user's training loop takes it."""

    parameters: list[torch.nn.Parameter]
    optimizer: Optimizer
    scheduler: LRScheduler | None
    step: Callable[[], None]


def shapes(model: ModelSpec) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters, layer by layer: weight, then bias."""
    layer: list[tuple[int, ...]] = [(model.width, model.width)]
    if model.bias:
        layer.append((model.width,))
    return layer * model.depth


def build(spec: RunSpec, device: torch.device) -> Workload:
    """Build the objects of one arm on `device`.

    The scheduler is attached before anything is compiled: it replaces `optimizer.step` by a
    wrapper of its own, and compiling first would hide that from torch.compile.

    Raises:
        Unsupported: torch refuses the arguments.
    """
    generator = torch.Generator(device).manual_seed(spec.seed)
    dtype = getattr(torch, spec.model.dtype)
    parameters = []
    for shape in shapes(spec.model):
        scale = spec.model.width**-0.5
        data = torch.randn(shape, generator=generator, device=device, dtype=dtype) * scale
        parameter = torch.nn.Parameter(data)
        gradient = torch.randn(shape, generator=generator, device=device, dtype=dtype)
        parameter.grad = gradient.zero_() if _writes_into_gradients(spec) else gradient
        parameters.append(parameter)
    optimizer = _optimizer(spec, parameters)
    scheduler = _scheduler(spec, optimizer)
    return Workload(parameters, optimizer, scheduler, _step(optimizer, scheduler))


def _optimizer(spec: RunSpec, parameters: list[torch.nn.Parameter]) -> Optimizer:
    arguments = spec.optimizer.arguments()
    if spec.lr_as_tensor:
        arguments["lr"] = torch.tensor(arguments["lr"], device=spec.lr_device)
    if "betas" in arguments:
        arguments["betas"] = tuple(arguments["betas"])
    make = getattr(torch.optim, spec.optimizer.torch_class)
    return cast(Optimizer, _made(spec.optimizer.torch_class, make, parameters, arguments))


def _scheduler(spec: RunSpec, optimizer: Optimizer) -> LRScheduler | None:
    if spec.scheduler.torch_class is None:
        return None
    make = getattr(lr_scheduler, spec.scheduler.torch_class)
    made = _made(spec.scheduler.torch_class, make, optimizer, spec.scheduler.arguments())
    return cast(LRScheduler, made)


def _made(name: str, make: Callable[..., object], subject: object, arguments: dict[str, Any]) -> object:
    """Make an optimizer or scheduler; what torch refuses by design is not a failure of the run."""
    try:
        return make(subject, **arguments)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError) as error:
        raise Unsupported(f"torch refuses these arguments of {name}: {str(error).splitlines()[0]}") from error


def _step(optimizer: Optimizer, scheduler: LRScheduler | None) -> Callable[[], None]:
    if scheduler is None:

        def step() -> None:
            optimizer.step()
    else:

        def step() -> None:
            optimizer.step()
            scheduler.step()

    return step


def _writes_into_gradients(spec: RunSpec) -> bool:
    """Return whether a step may change the gradients: multi-tensor Nesterov SGD adds into them.

    With fixed gradients that feeds on itself, through the momentum too: a gradient of 1e-3 is
    5.3 after 10 steps and infinite after some 300. Fixed gradients of zero stay what they are.
    """
    return bool(getattr(spec.optimizer, "nesterov", False))


def all_finite(parameters: list[torch.nn.Parameter]) -> bool:
    """Return whether no parameter holds a NaN or an infinity."""
    return all(bool(torch.isfinite(p.detach()).all()) for p in parameters)
