"""The step that is measured: parameters, gradients, optimizer and scheduler of one arm, and what trains them.

Every arm builds its own, alike to the last bit because all are made from one seed on one device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from src.bench import optimizer as optimizers
from src.bench import parameters as tensors
from src.bench import scheduler as schedulers
from src.bench import torch_private, training
from src.bench.training import Compile, Training
from src.spec import RunSpec


@dataclass(frozen=True)
class Workload:
    """One arm's own objects, and the step as a user's training loop takes it."""

    parameters: list[Parameter]
    optimizer: Optimizer
    scheduler: Any | None
    step: Callable[[], Any]
    """Returns the loss if it is a training step."""
    gradients: list[torch.Tensor] | None = None
    """Copies of the gradients, where the step writes into them."""
    training: Training | None = None
    """What else a training step has; None where the optimizer's step alone is measured."""
    scheduler_arguments: tuple[float, ...] = ()
    """Of the scheduler's step: its metric, if it wants one."""

    def compiled_step(self, compile_: Compile, target: str) -> Callable[[], Any]:
        """Return the step with `target`, one of `workloads.TARGETS`, compiled."""
        if self.training is None:
            return compile_(self.step)
        return self.training.step(compile_, target)

    def step_scheduler(self) -> None:
        """Take the scheduler's step alone."""
        if self.scheduler is not None:
            self.scheduler.step(*self.scheduler_arguments)

    def learning_rates(self) -> tuple[float, ...]:
        """Return the learning rate of each group."""
        return tuple(float(group["lr"]) for group in self.optimizer.param_groups)

    def refill(self) -> None:
        """Put back the gradients where the step writes into them."""
        if self.gradients is not None:
            for gradient, original in zip(_gradients(self.parameters), self.gradients, strict=True):
                gradient.copy_(original)

    def renew_gradients(self) -> None:
        """Put the gradients into other memory, as a backward pass after `zero_grad` does.

        What a step finds there stays the same. Their old memory may come back the next time.
        """
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()

    def fix_gradients(self) -> None:
        """Tell torch that the gradients stay where they are, so that CUDA graphs need no copies."""
        for gradient in _gradients(self.parameters):
            torch_private.mark_static(gradient)

    def settle(self) -> None:
        """Make the step repeatable without refilling: zero the gradients and what came from them.

        Multi-tensor Nesterov SGD adds into the gradients. With fixed ones that feeds on itself,
        through the momentum too: a gradient of 1e-3 is 5.3 after 10 steps and infinite after some
        300. Zeros stay what they are, and an optimizer takes as long over them.
        """
        if self.gradients is None:
            return
        for gradient in _gradients(self.parameters):
            gradient.zero_()
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    value.zero_()


def _gradients(parameters: list[Parameter]) -> list[torch.Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def build(spec: RunSpec, device: torch.device, *, reference: bool = False, single: bool = False) -> Workload:
    """Build the objects of one arm on `device`, or those of the reference in float64.

    With `single`, over as many parameters of one element in each dimension.

    The scheduler is attached before anything is compiled: it replaces `optimizer.step` by a
    wrapper of its own, and compiling first would hide that from torch.compile.

    Raises:
        Unsupported: torch refuses the arguments.
        SpecError: a dotted path names nothing that can be used.
    """
    if spec.training is not None:
        return _build_training(spec, device, reference=reference)
    parameters = tensors.make(spec, device, torch.float64 if reference else None, single=single)
    groups = tensors.groups(spec.model, parameters)
    optimizer = optimizers.make(spec, groups, reference=reference)
    scheduler = schedulers.make(spec.scheduler, optimizer)
    kept = [g.clone() for g in _gradients(parameters)] if writes_into_gradients(spec) else None
    return Workload(parameters, optimizer, scheduler, _step(spec, parameters, optimizer, scheduler), kept)


def _build_training(spec: RunSpec, device: torch.device, *, reference: bool) -> Workload:
    schedulers_made: list[Any] = []

    def update_of(module: nn.Module, scaler: Any | None) -> tuple[Optimizer, Callable[[], None]]:
        parameters = list(module.parameters())
        optimizer = optimizers.make(spec, tensors.groups(spec.model, parameters), reference=reference)
        scheduler = schedulers.make(spec.scheduler, optimizer)
        schedulers_made.append(scheduler)
        if scaler is None:
            return optimizer, _step(spec, parameters, optimizer, scheduler)
        return optimizer, _scaled_step(spec, scaler, optimizer, scheduler)

    made = training.build(spec, device, update_of, reference=reference)
    (scheduler,) = schedulers_made
    parameters = list(made.module.parameters())
    return Workload(
        parameters,
        made.optimizer,
        scheduler,
        made.step(),
        training=made,
        scheduler_arguments=_scheduler_arguments(spec),
    )


def _scheduler_arguments(spec: RunSpec) -> tuple[float, ...]:
    metric = getattr(spec.scheduler, "metric", None)
    return () if metric is None else (metric,)


def _scaled_step(
    spec: RunSpec, scaler: Any, optimizer: Optimizer, scheduler: Any | None
) -> Callable[[], None]:
    """Return the optimizer's step as a gradient scaler takes it, which skips it if a gradient is infinite."""
    arguments = _scheduler_arguments(spec)
    if scheduler is None:

        def step() -> None:
            scaler.step(optimizer)
            scaler.update()
    else:

        def step() -> None:
            scaler.step(optimizer)
            scaler.update()
            scheduler.step(*arguments)

    return step


def _step(
    spec: RunSpec, parameters: list[Parameter], optimizer: Optimizer, scheduler: Any | None
) -> Callable[[], None]:
    """Return the step: this very code is compiled, so each case is as plain as a user's own loop."""
    metric = getattr(spec.scheduler, "metric", None)
    if spec.optimizer.needs_closure:
        return _step_with_closure(
            optimizer, optimizers.closure(parameters), scheduler, _scheduler_arguments(spec)
        )
    if scheduler is None:

        def step() -> None:
            optimizer.step()
    elif metric is None:

        def step() -> None:
            optimizer.step()
            scheduler.step()
    else:

        def step() -> None:
            optimizer.step()
            scheduler.step(metric)

    return step


def _step_with_closure(
    optimizer: Optimizer, loss: Callable[[], Any], scheduler: Any | None, arguments: tuple[float, ...]
) -> Callable[[], None]:
    if scheduler is None:

        def step() -> None:
            optimizer.step(loss)
    else:

        def step() -> None:
            optimizer.step(loss)
            scheduler.step(*arguments)

    return step


def writes_into_gradients(spec: RunSpec) -> bool:
    """Return whether a step may change the gradients: multi-tensor Nesterov SGD adds into them."""
    return spec.optimizer.torch_class == "SGD" and bool(getattr(spec.optimizer, "nesterov", False))


def all_finite(parameters: list[Parameter]) -> bool:
    """Return whether no parameter holds a NaN or an infinity."""
    return all(bool(torch.isfinite(p.detach()).all()) for p in parameters)
