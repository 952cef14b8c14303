"""The eager implementations of an optimizer: which there are here, and which is the fastest.

torch has up to three: a loop over the tensors, multi-tensor operations, and fused kernels. Which of
them it takes unasked is a cautious choice (on CUDA never the fused one, on a CPU always the loop), so
a compiled step is compared with the best of them as well.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from src.bench import arms, watched
from src.bench.arms import Arm
from src.bench.timing import steps_for
from src.spec import RunSpec

_BLOCK_SECONDS = 0.005
_BLOCKS = 5


@dataclass(frozen=True, slots=True)
class Trials:
    """What trying the implementations gave."""

    us: dict[str, float]
    """Time of a step in us, of each implementation that works here."""

    @property
    def fastest(self) -> str | None:
        """Name of the fastest, None when none was tried."""
        return min(self.us, key=lambda name: self.us[name]) if self.us else None


def variant(spec: RunSpec, name: str) -> RunSpec:
    """Return the spec whose eager arm runs the implementation `name` with a float learning rate.

    Not capturable: that is for CUDA graphs of one's own, and eager steps pay for it.
    """
    plain: dict[str, Any] = {"capturable": False} if hasattr(spec.optimizer, "capturable") else {}
    optimizer = replace(spec.optimizer.implementing(name), **plain)
    return replace(spec, lr_type="float", optimizer=optimizer, measure=replace(spec.measure, baseline=None))


def choices(spec: RunSpec) -> tuple[str, ...]:
    """Return the implementations that can be asked for; none where the optimizer has no such flags."""
    foreach, fused = (hasattr(spec.optimizer, flag) for flag in ("foreach", "fused"))
    return (*(("forloop", "foreach") if foreach else ()), *(("fused",) if fused else ()))


def is_plain(spec: RunSpec) -> bool:
    """Return whether the configured step has a float learning rate and is not capturable."""
    return spec.lr_type == "float" and not getattr(spec.optimizer, "capturable", False)


def trial(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Trials:
    """Try each implementation briefly, one after the other, so that they need not fit side by side.

    One that torch refuses, or that runs something else than its name, is left out.
    """
    us: dict[str, float] = {}
    for name in choices(spec):
        taken = _tried(variant(spec, name), name, device, now)
        if taken is not None:
            us[name] = taken
        gc.collect()  # an arm's block refers to the arm, so that it would linger
    return Trials(us)


def _tried(spec: RunSpec, name: str, device: torch.device, now: Callable[[], float]) -> float | None:
    """Return the time of a step in us, None where it is refused or is not what it is called."""
    made = _made(spec, device, now)
    if made is None or watched.take(made, spec).implementation != name:
        return None
    return brief_us(made.block, 0.0 if spec.measure.flush_cache else _BLOCK_SECONDS)


def _made(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm | None:
    """Return an arm that has taken a step, None where torch refuses to make it or to step."""
    try:
        made = arms.eager(spec, device, now)
        made.take_step()
    except Exception:  # each optimizer refuses in a manner of its own; out of memory is a refusal too
        return None
    made.workload.settle()
    return made


def brief_us(block: Callable[[int], float], block_seconds: float = _BLOCK_SECONDS) -> float:
    """Return the time of a step in us in the fastest of a few short blocks: stalls only add to it."""
    steps = steps_for(block, block_seconds)
    return min(block(steps) / steps for _ in range(_BLOCKS)) * 1e6
