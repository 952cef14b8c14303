"""Parity: whether compiled steps gave what eager steps give.

The arms started alike and took the same steps. A parameter, or a tensor of optimizer state, passes
when the root mean square of the difference is small beside its size: how far the eager arm moved
the parameter, or how large the state is.

Low precision needs more than that, since inductor keeps float32 between operations where eager
rounds each result: a third set of steps, eager and in float64, tells who is wrong. The compiled arm
also passes when it is hardly farther from them than the eager arm, as in torch's own tests
(torch/_dynamo/utils.py, `same`). That excuse holds only while the eager arm's own distance is what
rounding explains, `steps * eps * rms`: a reference that is farther away is not one.

A training step goes on from its own errors, and a gradient that is zero but for rounding (of a bias that a
normalisation takes away again) moves its parameter under Adam as far as any other. So there the excuse has
no such limit: where eager steps in the run's precision are far from exact ones, so may compiled ones be.
With mixed precision the reference has none, and tells how far its rounding leads. The losses of all steps
are compared as one tensor, and a module's buffers as states are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from src.bench import states
from src.bench.workload import Workload

Rates = list[tuple[float, ...]]
"""Learning rate of every group in each step."""

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.bfloat16: 5e-3, torch.float16: 2e-3}
"""Allowed difference relative to the size, by the dtype of the parameters. In float64 it is that of
float32: a compiled step counts its steps in float32, and takes the bias correction from that count,
where eager takes it from a Python float (pytorch#88173)."""

WITHOUT_REFERENCE = {torch.bfloat16: 0.05, torch.float16: 0.02}
"""The same where there is no reference that could excuse more."""

LOOSER = {"RAdam": 2e-3, "Muon": 0.1}
"""Optimizers that need more. RAdam subtracts nearly equal numbers in its variance rectification.
Muon orthogonalises in bfloat16 whatever the parameters' dtype, by an iteration that does not
converge to a point (torch/optim/_muon.py) and so amplifies rounding: 0.015 was seen."""

WORSE_THAN_EAGER = 1.5
"""How much farther from float64 than the eager arm the compiled arm may be. Honest steps had 0.5 to
1.1 in bfloat16; a stale constant in NAdam had 6."""


WORSE_IN_TRAINING = 3.0
"""The same of training steps, whose errors feed on themselves: honest steps of two small models under mixed
precision had up to 1.95 over three seeds, in one of a hundred tensors."""


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
    worse: float = WORSE_THAN_EAGER

    def relative(self, distance: float | None) -> float | None:
        """Return a distance relative to the tensor's size; None where that is zero."""
        if distance is None or (self.size == 0 and distance):
            return None
        return distance / self.size if self.size else 0.0

    def passes(self, tolerance: float) -> bool:
        allowed = tolerance * self.size
        if self.apart <= allowed:  # False for NaN
            return True
        if self.eager is None or self.compiled is None or self.eager > allowed + self.rounding:
            return False
        return self.compiled <= self.worse * self.eager


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training step has to compare besides parameters and the optimizer's state."""

    losses: tuple[list[float], list[float]]
    """Loss of each step of the eager and of the compiled arm."""
    reference: list[float] | None
    """Of the reference."""
    dtype: torch.dtype | None
    """In which mixed precision computes; None without."""


def tolerance(optimizer: str, dtypes: set[torch.dtype], *, reference: bool) -> float:
    """Return the allowed relative difference for an optimizer class and dtypes of parameters."""
    table = TOLERANCE if reference else TOLERANCE | WITHOUT_REFERENCE
    return max(LOOSER.get(optimizer, 0.0), *(table[dtype] for dtype in dtypes))


def compare(
    start: list[torch.nn.Parameter],
    eager: Workload,
    compiled: Workload,
    reference: Workload | None,
    rates: tuple[Rates, Rates],
    *,
    trained: Trained | None = None,
) -> dict[str, Any]:
    """Return the parity columns of two arms, and a reference, after as many steps from `start`.

    Args:
        start: parameters, with their gradients, before the first step.
        eager: the eager arm.
        compiled: the compiled arm.
        reference: eager steps in float64; None leaves the question to the eager arm.
        rates: learning rates of the eager and the compiled arm.
        trained: what else training steps have.
    """
    steps = len(rates[0])
    dtypes = {p.dtype for p in eager.parameters}
    mixed = trained is not None and trained.dtype is not None
    if trained is not None and trained.dtype is not None:
        dtypes |= {trained.dtype}
    # A reference without mixed precision is no nearer to either arm.
    allowed = tolerance(type(eager.optimizer).__name__, dtypes, reference=reference is not None and not mixed)
    moved = list(_parameters(start, eager, compiled, reference, steps))
    kept, unlike = _states(eager, compiled, reference, steps)
    buffers = list(_buffers(eager, compiled, reference, steps))
    losses = [] if trained is None else [_losses(trained, steps)]
    if trained is not None:
        moved, kept, buffers, losses = (
            [replace(d, rounding=math.inf, worse=WORSE_IN_TRAINING) for d in group]
            for group in (moved, kept, buffers, losses)
        )
    reason = (
        _unlike_rates(*rates)
        or _not_finite(eager, compiled)
        or _wrote_gradients(start, eager, compiled)
        or unlike
        or _unlike_scales(eager, compiled)
        or (_not_moved(start, eager) if any(map(any, rates[0])) else None)
        or _too_far([*losses, *moved, *kept, *buffers], allowed)
    )
    return {
        "parity": "failed" if reason else "passed",
        "parity_reason": reason,
        "parity_tolerance": allowed,
        "parity_max_abs": _largest(d.largest for d in moved),
        "parity_error": _largest(d.relative(d.apart) for d in moved),
        "parity_state_error": _largest(d.relative(d.apart) for d in [*kept, *buffers]),
        "parity_eager_error": _largest(d.relative(d.eager) for d in moved),
        "parity_compiled_error": _largest(d.relative(d.compiled) for d in moved),
        **({"parity_loss_error": losses[0].relative(losses[0].apart)} if losses else {}),
    }


def changed_gradients(start: list[torch.nn.Parameter], arm: Workload) -> bool:
    """Return whether an arm's gradients are no longer those of the start."""
    return any(_gradient_changed(s, p) for s, p in zip(start, arm.parameters, strict=True))


def _gradient_changed(start: torch.nn.Parameter, now: torch.nn.Parameter) -> bool:
    if start.grad is None or now.grad is None:
        return start.grad is not now.grad
    return not torch.equal(start.grad.to_dense(), now.grad.to_dense())


def _parameters(
    start: list[torch.nn.Parameter],
    eager: Workload,
    compiled: Workload,
    reference: Workload | None,
    steps: int,
) -> Iterator[_Difference]:
    for index, (s, e, c) in enumerate(zip(start, eager.parameters, compiled.parameters, strict=True)):
        exact = None if reference is None else reference.parameters[index].detach()
        size = _rms(_wide(e.detach()) - _wide(s.detach()))
        yield _difference(f"parameter {index}", c.detach(), e.detach(), exact, size=size, steps=steps)


def _states(
    eager: Workload, compiled: Workload, reference: Workload | None, steps: int
) -> tuple[list[_Difference], str | None]:
    """Return the differences of the states, and in words what one arm keeps and the other does not."""
    own, other = (states.of(arm.optimizer, arm.parameters) for arm in (eager, compiled))
    exact = {} if reference is None else states.of(reference.optimizer, reference.parameters)
    if own.keys() != other.keys():
        alone = ", ".join(sorted(own.keys() ^ other.keys())[:5])
        return [], f"only one of the arms keeps: {alone}"
    for name, value in own.items():
        if value.shape != other[name].shape:
            return [], f"{name}: eager {tuple(value.shape)}, compiled {tuple(other[name].shape)}"
    return [
        _difference(name, other[name], value, exact.get(name), size=_size(_wide(value)), steps=steps)
        for name, value in own.items()
    ], None


def _buffers(
    eager: Workload, compiled: Workload, reference: Workload | None, steps: int
) -> Iterator[_Difference]:
    """Yield the differences of what the modules keep besides parameters, such as running means."""
    if eager.training is None or compiled.training is None:
        return
    other = dict(compiled.training.module.named_buffers())
    exact = (
        {} if reference is None or reference.training is None else reference.training.module.named_buffers()
    )
    wide = dict(exact)
    for name, value in eager.training.module.named_buffers():
        size = _size(_wide(value))
        yield _difference(f"buffer {name}", other[name], value, wide.get(name), size=size, steps=steps)


def _losses(trained: Trained, steps: int) -> _Difference:
    """Return the difference of the losses over all steps, as if they were one tensor."""
    eager, compiled = (torch.tensor(losses, dtype=torch.float64) for losses in trained.losses)
    exact = None if trained.reference is None else torch.tensor(trained.reference, dtype=torch.float64)
    return _difference("the loss", compiled, eager, exact, size=_rms(eager), steps=steps)


def _unlike_scales(eager: Workload, compiled: Workload) -> str | None:
    """Gradient scalers that differ have skipped different steps."""
    scalers = [arm.training.scaler for arm in (eager, compiled) if arm.training is not None]
    scales = [scaler.get_scale() for scaler in scalers if scaler is not None]
    if len(set(scales)) < 2:
        return None
    return f"gradient scales differ: eager {scales[0]:g}, compiled {scales[1]:g}"


def _difference(
    name: str, c: torch.Tensor, e: torch.Tensor, exact: torch.Tensor | None, *, size: float, steps: int
) -> _Difference:
    wide_e, wide_c = _wide(e), _wide(c.to(e.device))
    apart = torch.where(wide_c == wide_e, 0.0, wide_c - wide_e)  # infinite in both is no difference
    eager = compiled = None
    if exact is not None and exact.shape == e.shape:
        wide = _wide(exact.to(e.device))
        eager, compiled = (_rms(torch.where(x == wide, 0.0, x - wide)) for x in (wide_e, wide_c))
    eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0
    return _Difference(
        name,
        float(apart.abs().max()) if apart.numel() else 0.0,
        _rms(apart),
        size,
        steps * eps * _size(wide_e),
        eager,
        compiled,
    )


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Return values in float64, the parts of complex ones side by side."""
    return (torch.view_as_real(values.resolve_conj()) if values.is_complex() else values).double()


def _rms(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) / math.sqrt(values.numel()) if values.numel() else 0.0


def _size(values: torch.Tensor) -> float:
    """Return the root mean square of a state's finite part: a smallest loss so far starts infinite."""
    return _rms(torch.where(values.isinf(), 0.0, values))


def _unlike_rates(eager: Rates, compiled: Rates) -> str | None:
    for step, (e, c) in enumerate(zip(eager, compiled, strict=True)):
        if e != c:
            group = next((i for i, pair in enumerate(zip(e, c, strict=False)) if pair[0] != pair[1]), 0)
            return (
                f"learning rates differ from step {step} on, in group {group}: "
                f"eager {e[group]!r}, compiled {c[group]!r}"
            )
    return None


def _not_finite(eager: Workload, compiled: Workload) -> str | None:
    for name, arm in (("eager", eager), ("compiled", compiled)):
        if not all(bool(torch.isfinite(p.detach()).all()) for p in arm.parameters):
            return f"parameters of the {name} arm became infinite or NaN"
    return None


def _not_moved(start: list[torch.nn.Parameter], eager: Workload) -> str | None:
    if all(torch.equal(s.detach(), p.detach()) for s, p in zip(start, eager.parameters, strict=True)):
        return "no parameter moved"
    return None


def _wrote_gradients(start: list[torch.nn.Parameter], eager: Workload, compiled: Workload) -> str | None:
    """Compiled code that writes into gradients where eager does not; refilled ones cannot tell."""
    if eager.gradients is None and changed_gradients(start, compiled) and not changed_gradients(start, eager):
        return "the compiled arm wrote into its gradients, the eager arm did not"
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
