"""From block times and what was compiled to columns: medians, intervals, warnings, verdict, gate.

Pure: takes numbers, returns columns; needs no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from src.bench.timing import Timing
from src.record import CUDAGRAPH_MODES, WARNINGS
from src.stats import spread, verdict

NOISY_SPREAD = 0.10
"""Interquartile range over median above which `torch.utils.benchmark` warns too (its common.py)."""

DRIFT = 0.05
"""Change of an arm's median from the first third of the rounds to the last that is reported."""

FOREIGN_LOAD = 0.05
"""Part of the host's CPUs busy with other processes during the timing that is reported."""

INVALIDATING = ("never_compiled", "fell_back_to_eager", "recompiling", "parity_failed")
"""Warnings that leave no compiled step to compare."""

LEAVE_FOREACH = ("Adam", "AdamW")
"""Optimizers that torch moves to the loop when the learning rate is a tensor, the choice is torch's
and `capturable` is not set (torch/optim/adam.py, `adam`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How the run went, apart from the times."""

    device: str
    mode: str
    compiles: bool
    """False when the compiled arm is a second eager one."""
    graphs: int
    limit_hit: bool
    warm: bool
    """Whether the compiled arm stopped compiling, before it was timed or in its trace."""
    eager_ops: int | None
    """Operations of a compiled step outside its graphs; None when it could not be told."""
    eager_path: str | None
    compilations_while_timing: int
    cudagraph_skips: int
    cache_asked_warm: bool
    cache_misses: int
    parity_asked: bool
    parity: str | None
    reference: bool
    """Whether parity had a float64 reference."""
    optimizer_class: str | None
    torch_chooses: bool
    """Whether torch chooses the implementation of the eager step: no flag does."""
    lr_as_tensor: bool
    gradients_written: bool
    eager_compiled: bool
    """Whether the eager arm runs compiled code of its own."""
    finite: bool
    enough_steps: bool = True
    """Whether every arm took the asked-for warm-up steps before it was timed."""
    foreign_load: float = 0.0
    """Part of the host's CPUs that other processes used during the timing."""


def compiled_path(c: Conduct) -> str | None:
    """Return how the compiled arm really ran, one of `record.COMPILED_PATHS`; None with backend none."""
    if not c.compiles:
        return None
    if c.graphs == 0:
        return "never_compiled"
    if c.limit_hit:
        return "eager_fallback"
    if not c.warm:
        return "recompiling"
    return "partly" if c.eager_ops else "compiled"


def times(timing: Timing) -> dict[str, Any]:
    """Return the columns of every arm's times."""
    columns: dict[str, Any] = {"rounds": timing.rounds, "timing_s": timing.seconds}
    for name, arm in timing.arms.items():
        median = arm.median_us
        columns |= {
            f"{name}_us": median.center,
            f"{name}_us_low": median.low,
            f"{name}_us_high": median.high,
            f"{name}_mean_us": arm.mean_us,
            f"{name}_block_us": list(arm.block_us),
            f"{name}_steps_per_block": arm.steps_per_block,
        }
    return columns


def judge(conduct: Conduct) -> dict[str, Any]:
    """Return the columns that a run without times has: path, warnings, and a verdict if it is invalid."""
    warnings = _named(_conduct_warnings(conduct))
    invalid = _invalid(warnings)
    return {
        "compiled_path": compiled_path(conduct),
        "warnings": warnings,
        "verdict": "invalid" if invalid else None,
        "verdict_reason": invalid,
    }


def judge_timing(
    timing: Timing, conduct: Conduct, *, min_effect: float, min_speedup: float | None
) -> dict[str, Any]:
    """Return the columns of path, speedup, warnings, verdict and gate.

    A gate asks for a speedup that is real: an invalid verdict fails it whatever the ratio.
    """
    speedup = timing.speedup("eager", "compiled")
    warnings = _named(_conduct_warnings(conduct) | _time_warnings(timing))
    invalid = _invalid(warnings)
    gate = None
    if min_speedup is not None:
        gate = "passed" if invalid is None and speedup.center >= min_speedup else "failed"
    return {
        "compiled_path": compiled_path(conduct),
        "speedup": speedup.center,
        "speedup_low": speedup.low,
        "speedup_high": speedup.high,
        "min_effect": min_effect,
        "verdict": "invalid" if invalid else verdict(speedup, min_effect),
        "verdict_reason": invalid,
        "warnings": warnings,
        "gate": gate,
    }


def _invalid(warnings: Sequence[str]) -> str | None:
    return next((name for name in INVALIDATING if name in warnings), None)


def _named(present: dict[str, bool]) -> list[str]:
    unknown = sorted(set(present) - set(WARNINGS))
    if unknown:
        raise KeyError(f"warnings without an explanation in src/record.py: {', '.join(unknown)}")
    return [name for name in WARNINGS if present.get(name)]


def _conduct_warnings(c: Conduct) -> dict[str, bool]:
    return {
        "never_compiled": c.compiles and c.graphs == 0,
        "fell_back_to_eager": c.limit_hit,
        "recompiling": not c.warm,
        "partly_compiled": compiled_path(c) == "partly",
        "recompiled_while_timing": c.compilations_while_timing > 0,
        "cudagraphs_skipped": c.device == "cuda" and c.mode in CUDAGRAPH_MODES and c.cudagraph_skips > 0,
        "cpu_modes_same_code": c.compiles and c.device == "cpu" and c.mode != "default",
        "cache_not_warm": c.compiles and c.cache_asked_warm and c.cache_misses > 0,
        "early_steps": c.device == "cpu" and not c.enough_steps,
        "parity_failed": c.parity == "failed",
        "parity_unknown": c.parity_asked and c.parity is None,
        "no_reference": c.parity is not None and not c.reference,
        "eager_left_foreach": _left_foreach(c),
        "eager_compiled": c.eager_compiled,
        "gradients_written": c.gradients_written,
        "non_finite_parameters": not c.finite,
        "foreign_load": c.foreign_load > FOREIGN_LOAD,
    }


def _left_foreach(c: Conduct) -> bool:
    moves = c.lr_as_tensor and c.torch_chooses and c.optimizer_class in LEAVE_FOREACH
    return c.device == "cuda" and moves and c.eager_path == "forloop"


def _time_warnings(timing: Timing) -> dict[str, bool]:
    blocks = [arm.block_us for arm in timing.arms.values()]
    return {
        "too_few_rounds": timing.speedup("eager", "compiled").low is None,
        "not_converged": not timing.converged,
        "noisy": any(spread(b) > NOISY_SPREAD for b in blocks),
        "drift": any(drifts(b) for b in blocks),
    }


def drifts(block_us: Sequence[float]) -> bool:
    """Return whether the median of the last third of the blocks is more than `DRIFT` off the first's."""
    third = len(block_us) // 3
    if third == 0:
        return False
    first, last = sorted(block_us[:third])[third // 2], sorted(block_us[-third:])[third // 2]
    return abs(last / first - 1) > DRIFT
