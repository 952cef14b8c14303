"""Parity: whether compiled steps gave what eager steps give.

The arms started alike and took the same steps. A parameter, or a tensor of optimizer state, passes
when the root mean square of the difference is small beside its size: how far the eager arm moved
the parameter, or how large the state is.

Low precision needs more than that, since inductor keeps float32 between operations where eager
rounds each result: a third set of steps, eager and in float64, tells who is wrong. The compiled arm
also passes when it is hardly farther from them than the eager arm, as in torch's own tests
(torch/_dynamo/utils.py, `same`). That excuse holds only while the eager arm's own distance is what
rounding explains, `steps * eps * rms`: a reference that is farther away is not one.

A training step goes on from its own errors. A gradient that is zero but for rounding (of a bias that a
normalisation takes away again) moves its parameter under Adam as far as any other, and what differs in the
tenth digit differs in the third a few steps later. How far honest steps lead depends on the run, so the run
is asked: the reference is taken once more with noise in every gradient, as large as the tolerance. Compiled
steps pass that are not much farther from the reference than those, or than the eager ones. The losses of all
steps are compared as one tensor, and a module's buffers as states are. Steps that a gradient scaler left out
are left out of the reference too.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from src.bench import states
from src.bench.followed import Followed
from src.bench.workload import Workload

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.bfloat16: 5e-3, torch.float16: 2e-3}
"""Allowed difference relative to the size, by the dtype of the parameters. In float64 it is that of
float32: a compiled step counts its steps in float32, and takes the bias correction from that count,
where eager takes it from a Python float (pytorch#88173)."""

WITHOUT_REFERENCE = {torch.bfloat16: 0.05, torch.float16: 0.02}
"""The same where there is no reference that could excuse more."""

MIXED = {torch.bfloat16: 0.02, torch.float16: 2.5e-3}
"""The same for mixed precision in that dtype: 2.5 times its eps, since the layers' own numbers are rounded
too. Inductor's gradients of the weight of a layer norm were 0.013 away from exact ones, eager's 0.003."""

LOOSER = {"RAdam": 2e-3, "Muon": 0.1}
"""Optimizers that need more. RAdam subtracts nearly equal numbers in its variance rectification.
Muon orthogonalises in bfloat16 whatever the parameters' dtype, by an iteration that does not
converge to a point (torch/optim/_muon.py) and so amplifies rounding: 0.015 was seen."""

WORSE_THAN_EAGER = 1.5
"""How much farther from float64 than the eager arm the compiled arm may be. Honest steps had 0.5 to
1.1 in bfloat16; a stale constant in NAdam had 6."""


WORSE_IN_TRAINING = 3.0
"""The same of training steps, beside the eager and the shaken ones: one draw of noise against another."""


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
    shaken: float | None = None
    """Distance from the reference of one with noise in its gradients; None where there is none."""

    def relative(self, distance: float | None) -> float | None:
        """Return a distance relative to the tensor's size; None where that is zero."""
        if distance is None or (self.size == 0 and distance):
            return None
        return distance / self.size if self.size else 0.0

    def passes(self, tolerance: float) -> bool:
        allowed = tolerance * self.size
        if self.apart <= allowed:  # False for NaN
            return True
        if self.eager is None or self.compiled is None:
            return False
        if self.shaken is not None:
            return self.compiled <= WORSE_IN_TRAINING * max(self.eager, self.shaken)
        return self.eager <= allowed + self.rounding and self.compiled <= WORSE_THAN_EAGER * self.eager


def tolerance(optimizer: str, dtypes: set[torch.dtype], *, reference: bool) -> float:
    """Return the allowed relative difference for an optimizer class, and dtypes that it computes in."""
    table = TOLERANCE if reference else TOLERANCE | WITHOUT_REFERENCE
    return max(LOOSER.get(optimizer, 0.0), *(table[dtype] for dtype in dtypes))


def tolerance_of(workload: Workload, *, reference: bool) -> float:
    """Return the allowed relative difference for an arm's objects."""
    dtypes = {p.dtype for p in workload.parameters}
    allowed = tolerance(type(workload.optimizer).__name__, dtypes, reference=reference)
    if workload.training is None or workload.training.amp is None:
        return allowed
    return max(allowed, MIXED[workload.training.amp])


def compare(
    start: list[torch.nn.Parameter],
    eager: Followed,
    compiled: Followed,
    reference: Followed | None,
    shaken: Followed | None = None,
) -> dict[str, Any]:
    """Return the parity columns of two arms, and a reference, after as many steps from `start`.

    Args:
        start: parameters, with their gradients, before the first step.
        eager: the eager arm.
        compiled: the compiled arm.
        reference: eager steps in float64; None leaves the question to the eager arm.
        shaken: those with noise in their gradients, if they are training steps.
    """
    all_four = _Four(eager, compiled, reference, shaken)
    allowed = tolerance_of(eager.workload, reference=reference is not None)
    moved = list(_parameters(start, all_four))
    kept, unlike = _states(all_four)
    buffers = list(_buffers(all_four))
    losses = list(_losses(all_four))
    reason = (
        _unlike_rates(eager.rates, compiled.rates)
        or _not_finite(eager.workload, compiled.workload)
        or _wrote_gradients(start, eager.workload, compiled.workload)
        or unlike
        or _unlike_scales(eager.scales, compiled.scales)
        or (_not_moved(start, eager.workload) if any(any(rates) for rates in eager.rates) else None)
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
        **(_of_training(losses[0], moved) if losses else {}),
    }


def _of_training(loss: _Difference, moved: list[_Difference]) -> dict[str, float | None]:
    return {
        "parity_loss_error": loss.relative(loss.apart),
        "parity_shaken_error": _largest(d.relative(d.shaken) for d in moved),
    }


def changed_gradients(start: list[torch.nn.Parameter], arm: Workload) -> bool:
    """Return whether an arm's gradients are no longer those of the start."""
    return any(_gradient_changed(s, p) for s, p in zip(start, arm.parameters, strict=True))


def _gradient_changed(start: torch.nn.Parameter, now: torch.nn.Parameter) -> bool:
    if start.grad is None or now.grad is None:
        return start.grad is not now.grad
    return not torch.equal(start.grad.to_dense(), now.grad.to_dense())


@dataclass(frozen=True, slots=True)
class _Four:
    """The steps that are compared, with what there is of references."""

    eager: Followed
    compiled: Followed
    reference: Followed | None
    shaken: Followed | None

    def difference(
        self, name: str, of: Callable[[Followed], torch.Tensor | None], size: float | None = None
    ) -> _Difference:
        """Return how far the steps are apart in one tensor, which `of` finds; by default beside its size."""
        e, c = of(self.eager), of(self.compiled)
        assert e is not None  # noqa: S101  # the arms were checked to keep the same
        assert c is not None  # noqa: S101
        wide, other = _wide(e), _wide(c.to(e.device))
        apart = _apart(other, wide)
        exact, noisy = (
            None if steps is None else _wide_of(of(steps), e) for steps in (self.reference, self.shaken)
        )
        eager = compiled = shaken = None
        if exact is not None:
            eager, compiled = _rms(_apart(wide, exact)), _rms(_apart(other, exact))
            shaken = None if noisy is None else _rms(_apart(noisy, exact))
        eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0
        return _Difference(
            name,
            float(apart.abs().max()) if apart.numel() else 0.0,
            _rms(apart),
            _size(wide) if size is None else size,
            len(self.eager.rates) * eps * _size(wide),
            eager,
            compiled,
            shaken,
        )


def _parameters(start: list[torch.nn.Parameter], four: _Four) -> Iterator[_Difference]:
    for index, (s, e) in enumerate(zip(start, four.eager.workload.parameters, strict=True)):
        moved = _rms(_wide(e.detach()) - _wide(s.detach()))
        yield four.difference(f"parameter {index}", partial(_parameter, index), moved)


def _parameter(index: int, steps: Followed) -> torch.Tensor:
    return steps.workload.parameters[index].detach()


def _states(four: _Four) -> tuple[list[_Difference], str | None]:
    """Return the differences of the states, and in words what one arm keeps and the other does not."""
    kept = {
        id(steps): states.of(steps.workload.optimizer, steps.workload.parameters)
        for steps in (four.eager, four.compiled, four.reference, four.shaken)
        if steps is not None
    }
    own, other = kept[id(four.eager)], kept[id(four.compiled)]
    if own.keys() != other.keys():
        alone = ", ".join(sorted(own.keys() ^ other.keys())[:5])
        return [], f"only one of the arms keeps: {alone}"
    for name, value in own.items():
        if value.shape != other[name].shape:
            return [], f"{name}: eager {tuple(value.shape)}, compiled {tuple(other[name].shape)}"

    def named(name: str, steps: Followed) -> torch.Tensor | None:
        return kept[id(steps)].get(name)

    return [four.difference(name, partial(named, name)) for name in own], None


def _buffers(four: _Four) -> Iterator[_Difference]:
    """Yield the differences of what the modules keep besides parameters, such as running means."""
    for name in _buffers_of(four.eager):
        yield four.difference(f"buffer {name}", partial(_buffer, name))


def _buffer(name: str, steps: Followed) -> torch.Tensor | None:
    return _buffers_of(steps).get(name)


def _buffers_of(steps: Followed) -> dict[str, torch.Tensor]:
    training = steps.workload.training
    return {} if training is None else dict(training.module.named_buffers())


def _losses(four: _Four) -> Iterator[_Difference]:
    """Yield the difference of the losses over all steps, as if they were one tensor."""
    if four.eager.losses:
        yield four.difference("the loss", lambda steps: torch.tensor(steps.losses, dtype=torch.float64))


def _unlike_scales(eager: list[float], compiled: list[float]) -> str | None:
    """Gradient scalers that differ have left out different steps."""
    for step, (e, c) in enumerate(zip(eager, compiled, strict=True)):
        if e != c:
            return f"gradient scales differ after step {step}: eager {e:g}, compiled {c:g}"
    return None


def _apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(a == b, 0.0, a - b)  # infinite in both is no difference


def _wide_of(values: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """Return a reference's values; None where it has none of that shape."""
    return None if values is None or values.shape != like.shape else _wide(values.to(like.device))


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Return values in float64, the parts of complex ones side by side."""
    return (torch.view_as_real(values.resolve_conj()) if values.is_complex() else values).double()


def _rms(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) / math.sqrt(values.numel()) if values.numel() else 0.0


def _size(values: torch.Tensor) -> float:
    """Return the root mean square of a state's finite part: a smallest loss so far starts infinite."""
    return _rms(torch.where(values.isinf(), 0.0, values))


def _unlike_rates(eager: list[tuple[float, ...]], compiled: list[tuple[float, ...]]) -> str | None:
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
    room = f"allowed {allowed:.2g}"
    if worst.shaken is not None:
        distances = [worst.relative(d) for d in (worst.compiled, worst.eager, worst.shaken)]
        compiled, eager, shaken = ("-" if d is None else f"{d:.2g}" for d in distances)
        room += f"; from float64 compiled {compiled}, eager {eager}, with noise of that size {shaken}"
    return f"{worst.name} differs by {told} ({room}); {len(failed)} tensors differ"


def _largest(values: Any) -> float | None:
    known = [v for v in values if v is not None]
    if any(math.isnan(v) for v in known):
        return None
    return max(known, default=None)
