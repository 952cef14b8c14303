"""Whether the compiled arm of a run took the same steps as the eager one: what is compared, and when.

`parity` has the rule; this module knows when it can be asked, and makes the start and the reference.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from src.bench import machine, parameters, parity
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
    *,
    draws_random: bool,
) -> Comparison:
    """Compare the arms with each other and with eager steps in float64.

    Args:
        spec: what was asked for.
        device: where the arms are.
        traced: the eager and the compiled arm's objects, both after the trace.
        rates: learning rates that they had.
        draws_random: whether a step draws random numbers. Inductor draws from a generator of its own,
            so that no two arms draw alike.
    """
    eager, compiled = traced
    needed, free = 2 * parameters.size_bytes(spec.model), machine.free_bytes(device)
    if draws_random:
        return Comparison({"parity_reason": "not compared: the step draws random numbers"})
    if needed > free:
        return Comparison({"parity_reason": f"not compared: needs {needed} bytes, {free} are free"})
    start = parameters.make(spec, device)
    written = eager.gradients is None and parity.changed_gradients(start, eager)
    reference = _reference(spec, device, sum(p.numel() for p in eager.parameters))
    columns = parity.compare(start, eager, compiled, reference, rates)
    return Comparison(columns, written, reference is not None)


def _reference(spec: RunSpec, device: torch.device, elements: int) -> Workload | None:
    """Return eager steps in float64, None where they do not fit or cannot be taken.

    Some optimizers refuse float64, in a manner of their own; their arms are compared all the same.
    """
    if elements * _REFERENCE_BYTES > machine.free_bytes(device):
        return None
    try:
        reference = workloads.build(spec, device, reference=True)
        for _ in range(spec.measure.trace_steps):
            reference.refill()
            reference.step()
    except Exception:  # whatever a user's own optimizer raises
        return None
    return reference
