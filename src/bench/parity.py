"""Parity: whether compiled steps gave what eager steps give.

The arms started alike and took the same steps. Of every parameter and every tensor of optimizer
state the difference is compared with what rounding explains:

    rms(compiled - eager) <= tolerance * size + steps * eps * rms(eager)

`size` is how far the eager arm moved a parameter, or how large a state is; `eps` is the tensor's
machine epsilon, as each step rounds each element. Where that fails, a third set of steps, eager and
in float64, tells who is wrong: the compiled arm passes when it is no more than twice as far from
them as the eager arm. That is the rule of torch's own tests (torch/_dynamo/utils.py, `same`), and
it is what low precision needs: inductor keeps float32 intermediates where eager rounds each one.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from src.bench.workload import Workload

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.02}
"""Allowed difference relative to the movement, by the dtype of the parameters. In float64 it is that
of float32: a compiled step counts its steps in float32, and takes the bias correction from that
count, where eager takes it from a Python float (pytorch#88173)."""

LOOSER = {"RAdam": 2e-3, "Muon": 0.1}
"""Optimizers that need more. RAdam subtracts nearly equal numbers in its variance rectification.
Muon orthogonalises in bfloat16 whatever the parameters' dtype, by an iteration that does not
converge to a point (torch/optim/_muon.py) and so amplifies rounding: 0.015 was seen."""

WORSE_THAN_EAGER = 2.0
"""How much farther from float64 than the eager arm the compiled arm may be."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """How far the arms are apart in one tensor, as root mean squares."""

    name: str
    largest: float
    apart: float
    size: float
    rounding: float
    eager: float | None
    """Distance of the eager arm from the reference."""
    compiled: float | None

    def relative(self, distance: float | None) -> float | None:
        """Return a distance relative to the tensor's size; None without one, or where that is zero."""
        if distance is None:
            return None
        if self.size == 0:
            return None if distance else 0.0
        return distance / self.size

    def passes(self, tolerance: float) -> bool:
        allowed = tolerance * self.size + self.rounding
        if self.apart <= allowed:  # False for NaN
            return True
        if self.eager is None or self.compiled is None:
            return False
        return self.compiled <= WORSE_THAN_EAGER * self.eager + allowed


def tolerance(optimizer: str, dtypes: set[torch.dtype]) -> float:
    """Return the allowed relative difference for an optimizer class and dtypes of parameters."""
    return max(LOOSER.get(optimizer, 0.0), *(TOLERANCE[dtype] for dtype in dtypes))


def compare(
    start: list[torch.Tensor],
    eager: Workload,
    compiled: Workload,
    reference: Workload | None,
    rates: tuple[list[float], list[float]],
) -> dict[str, Any]:
    """Return the parity columns of two arms, and a reference, after as many steps from `start`.

    Args:
        start: parameters before the first step.
        eager: the eager arm.
        compiled: the compiled arm.
        reference: eager steps in float64; None leaves the question to the eager arm.
        rates: learning rate of each step, of the eager and the compiled arm.
    """
    steps = len(rates[0])
    allowed = tolerance(type(eager.optimizer).__name__, {p.dtype for p in eager.parameters})
    parameters = list(_parameters(start, eager, compiled, reference, steps))
    states, unlike = _states(eager, compiled, reference, steps)
    reason = (
        _unlike_rates(*rates)
        or _not_finite(eager, compiled)
        or unlike
        or (_not_moved(start, eager) if any(rates[0]) else None)
        or _too_far([*parameters, *states], allowed)
    )
    return {
        "parity": "failed" if reason else "passed",
        "parity_reason": reason,
        "parity_tolerance": allowed,
        "parity_max_abs": _largest(d.largest for d in parameters),
        "parity_error": _largest(d.relative(d.apart) for d in parameters),
        "parity_state_error": _largest(d.relative(d.apart) for d in states),
        "parity_eager_error": _largest(d.relative(d.eager) for d in parameters),
        "parity_compiled_error": _largest(d.relative(d.compiled) for d in parameters),
    }


def _parameters(
    start: list[torch.Tensor], eager: Workload, compiled: Workload, reference: Workload | None, steps: int
) -> Iterator[_Difference]:
    for index, (s, e, c) in enumerate(zip(start, eager.parameters, compiled.parameters, strict=True)):
        exact = None if reference is None else reference.parameters[index]
        moved = _rms(e.detach().double() - s.double())
        yield _difference(f"parameter {index}", c, e, exact, size=moved, steps=steps)


def _states(
    eager: Workload, compiled: Workload, reference: Workload | None, steps: int
) -> tuple[list[_Difference], str | None]:
    """Return the differences of the states, and in words what one arm's state has and the other lacks."""
    differences = []
    for index, (e, c) in enumerate(zip(eager.parameters, compiled.parameters, strict=True)):
        own, other = _tensors(eager.optimizer.state.get(e)), _tensors(compiled.optimizer.state.get(c))
        if own.keys() != other.keys():
            return [], f"state of parameter {index}: eager has {sorted(own)}, compiled {sorted(other)}"
        exact = {}
        if reference is not None:
            exact = _tensors(reference.optimizer.state.get(reference.parameters[index]))
        for name, value in own.items():
            if value.shape != other[name].shape:
                return [], f"{name} of parameter {index}: eager {value.shape}, compiled {other[name].shape}"
            size = _rms(value.double())
            where = f"{name} of parameter {index}"
            found = _difference(where, other[name], value, exact.get(name), size=size, steps=steps)
            differences.append(found)
    return differences, None


def _tensors(state: Any) -> dict[str, torch.Tensor]:
    """Return what a state holds in numbers, as tensors on their device."""
    if not isinstance(state, Mapping):
        return {}
    found = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            found[str(name)] = value.detach().to_dense() if value.is_sparse else value.detach()
        elif isinstance(value, int | float):
            found[str(name)] = torch.tensor(float(value), dtype=torch.float64)
    return found


def _difference(
    name: str, c: torch.Tensor, e: torch.Tensor, exact: torch.Tensor | None, *, size: float, steps: int
) -> _Difference:
    wide_e = e.detach().double()
    wide_c = c.detach().to(e.device).double()
    apart = wide_c - wide_e
    eager = compiled = None
    if exact is not None and exact.shape == e.shape:
        wide = exact.detach().to(e.device).double()
        eager, compiled = _rms(wide_e - wide), _rms(wide_c - wide)
    eps = torch.finfo(e.dtype).eps if e.is_floating_point() else 0.0
    return _Difference(
        name,
        float(apart.abs().max()) if apart.numel() else 0.0,
        _rms(apart),
        size,
        steps * eps * _rms(wide_e),
        eager,
        compiled,
    )


def _rms(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) / math.sqrt(values.numel()) if values.numel() else 0.0


def _unlike_rates(eager: list[float], compiled: list[float]) -> str | None:
    for step, (e, c) in enumerate(zip(eager, compiled, strict=True)):
        if e != c:
            return f"learning rates differ from step {step} on: eager {e!r}, compiled {c!r}"
    return None


def _not_finite(eager: Workload, compiled: Workload) -> str | None:
    for name, arm in (("eager", eager), ("compiled", compiled)):
        if not all(bool(torch.isfinite(p.detach()).all()) for p in arm.parameters):
            return f"parameters of the {name} arm became infinite or NaN"
    return None


def _not_moved(start: list[torch.Tensor], eager: Workload) -> str | None:
    if all(torch.equal(s, p.detach()) for s, p in zip(start, eager.parameters, strict=True)):
        return "no parameter moved"
    return None


def _too_far(differences: list[_Difference], allowed: float) -> str | None:
    failed = [d for d in differences if not d.passes(allowed)]
    if not failed:
        return None
    worst = max(failed, key=lambda d: d.relative(d.apart) or math.inf)
    relative = worst.relative(worst.apart)
    told = f"{worst.apart:.2g}" if relative is None else f"{relative:.2g} of its size or movement"
    return f"{worst.name} differs by {told} (allowed {allowed:.2g}); {len(failed)} tensors differ"


def _largest(values: Any) -> float | None:
    known = [v for v in values if v is not None]
    if any(math.isnan(v) for v in known):
        return None
    return max(known, default=None)
