"""Whether the compiled arm of a run took the same steps as the eager one: what is compared, and when.

`parity` has the rule; this module knows when it can be asked, and makes the start and the reference.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from src.bench import machine, modules, parameters, parity
from src.bench import workload as workloads
from src.bench.followed import Followed, Shake
from src.bench.workload import Workload
from src.spec import RunSpec

_REFERENCE_BYTES = 8 * 8
"""Memory of the reference per parameter element, with states and temporaries, in bytes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing the arms gave."""

    columns: dict[str, Any] = field(default_factory=dict)
    gradients_written: bool = False
    """Whether the eager step writes into its gradients."""
    reference: bool = False
    """Whether there were float64 steps to compare with."""


def compare(
    spec: RunSpec, device: torch.device, eager: Followed, compiled: Followed, *, draws_random: bool
) -> Comparison:
    """Compare the arms with each other and with eager steps in float64.

    Args:
        spec: what was asked for.
        device: where the arms are.
        eager: the eager arm after the trace.
        compiled: the compiled arm after it.
        draws_random: whether a step draws random numbers. Inductor draws from a generator of its own,
            so that no two arms draw alike.
    """
    if draws_random:
        return Comparison({"parity_reason": "not compared: the step draws random numbers"})
    needed, free = 2 * _parameter_bytes(eager.workload), machine.free_bytes(device)
    if needed > free:
        return Comparison({"parity_reason": f"not compared: needs {needed} bytes, {free} are free"})
    if spec.training is not None:
        return _of_training(spec, device, eager, compiled)
    start = parameters.make(spec, device)
    written = eager.workload.gradients is None and parity.changed_gradients(start, eager.workload)
    reference = _reference(spec, device, eager)
    columns = parity.compare(start, eager, compiled, reference)
    return Comparison(columns, written, reference is not None)


def _of_training(spec: RunSpec, device: torch.device, eager: Followed, compiled: Followed) -> Comparison:
    exact = _retraced(spec, device, eager)
    shaken = None if exact is None else _retraced(spec, device, eager, shake=True)
    if exact is None or shaken is None:
        return Comparison({"parity_reason": "not compared: training steps in float64 cannot be taken here"})
    start = list(modules.make(spec, device).parameters())
    return Comparison(parity.compare(start, eager, compiled, exact, shaken), reference=True)


def _parameter_bytes(arm: Workload) -> int:
    return sum(p.numel() * p.element_size() for p in arm.parameters)


def _reference(spec: RunSpec, device: torch.device, eager: Followed) -> Followed | None:
    """Return eager steps in float64, None where they do not fit or cannot be taken.

    Some optimizers refuse float64, in a manner of their own; their arms are compared all the same.
    """
    if _reference_bytes(eager) > machine.free_bytes(device):
        return None
    try:
        reference = Followed(workloads.build(spec, device, reference=True))
        reference.take(reference.workload.step, spec.measure.trace_steps)
    except Exception:  # whatever a user's own optimizer raises
        return None
    return reference


def _retraced(
    spec: RunSpec, device: torch.device, eager: Followed, *, shake: bool = False
) -> Followed | None:
    """Return the training steps of the eager arm in float64, with noise in their gradients if asked for.

    None where they do not fit or cannot be taken.
    """
    if _reference_bytes(eager) > machine.free_bytes(device):
        return None
    noise = parity.tolerance_of(eager.workload, reference=True)
    try:
        steps = Followed(workloads.build(spec, device, reference=True))
        steps.retrace(eager.skipped(), _shaker(device, noise) if shake else None)
    except Exception:  # whatever a user's own optimizer or module raises
        return None
    return steps


def _reference_bytes(eager: Followed) -> int:
    return _REFERENCE_BYTES * sum(p.numel() for p in eager.workload.parameters)


def _shaker(device: torch.device, part: float) -> Shake:
    """Return what adds to every gradient noise of so large a part of its root mean square."""
    generator = torch.Generator(device).manual_seed(0)

    def shake(workload: Workload) -> None:
        for parameter in workload.parameters:
            gradient = parameter.grad
            if gradient is not None and gradient.numel():
                noise = torch.randn(gradient.shape, generator=generator, device=device, dtype=gradient.dtype)
                gradient += noise * (part * gradient.square().mean().sqrt())

    return shake
