"""Whether the compiled arm of a run took the same steps as the eager one: what is compared, and when.

`parity` has the rule; this module knows when it can be asked, and makes the start and the reference.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from src.bench import machine, modules, parameters, parity, training
from src.bench import workload as workloads
from src.bench.workload import Workload
from src.spec import RunSpec

_REFERENCE_BYTES = 8 * 8
"""Memory of the reference per parameter element, with states and temporaries, in bytes."""

Rates = tuple[list[tuple[float, ...]], list[tuple[float, ...]]]
"""Learning rates of every group in every step: of the eager arm, and of the compiled one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing the arms gave."""

    columns: dict[str, Any] = field(default_factory=dict)
    gradients_written: bool = False
    """Whether the eager step writes into its gradients."""
    reference: bool = False
    """Whether there were float64 steps to compare with."""


def compare(
    spec: RunSpec,
    device: torch.device,
    traced: tuple[Workload, Workload],
    rates: Rates,
    losses: tuple[list[float], list[float]] = ([], []),
    *,
    draws_random: bool,
) -> Comparison:
    """Compare the arms with each other and with eager steps in float64.

    Args:
        spec: what was asked for.
        device: where the arms are.
        traced: the eager and the compiled arm's objects, both after the trace.
        rates: learning rates that they had.
        losses: losses that they had, if they took training steps.
        draws_random: whether a step draws random numbers. Inductor draws from a generator of its own,
            so that no two arms draw alike.
    """
    eager, compiled = traced
    if draws_random:
        return Comparison({"parity_reason": "not compared: the step draws random numbers"})
    needed, free = 2 * _parameter_bytes(eager), machine.free_bytes(device)
    if needed > free:
        return Comparison({"parity_reason": f"not compared: needs {needed} bytes, {free} are free"})
    reference, of_reference = _reference(spec, device, sum(p.numel() for p in eager.parameters))
    if spec.training is None:
        start = parameters.make(spec, device)
        written = eager.gradients is None and parity.changed_gradients(start, eager)
        trained = None
    else:
        start = list(modules.make(spec, device).parameters())
        written = False
        trained = parity.Trained(
            losses, of_reference if reference else None, training.AMP_DTYPES.get(spec.training.amp)
        )
    columns = parity.compare(start, eager, compiled, reference, rates, trained=trained)
    return Comparison(columns, written, reference is not None)


def _parameter_bytes(arm: Workload) -> int:
    return sum(p.numel() * p.element_size() for p in arm.parameters)


def _reference(spec: RunSpec, device: torch.device, elements: int) -> tuple[Workload | None, list[float]]:
    """Return eager steps in float64, None where they do not fit or cannot be taken, and their losses.

    Some optimizers refuse float64, in a manner of their own; their arms are compared all the same.
    """
    losses: list[float] = []
    if elements * _REFERENCE_BYTES > machine.free_bytes(device):
        return None, losses
    try:
        reference = workloads.build(spec, device, reference=True)
        for _ in range(spec.measure.trace_steps):
            reference.refill()
            loss = reference.step()
            if reference.training is not None:
                losses.append(float(loss.detach()))
    except Exception:  # whatever a user's own optimizer raises
        return None, losses
    return reference, losses
