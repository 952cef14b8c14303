"""From how the arms ran to columns: the path of the compiled arm, and the doubts about it.

Pure: takes facts, returns columns; needs no torch. `src.verdicts` judges the times.
"""

from dataclasses import dataclass
from typing import Any

from src.vocabulary import CUDAGRAPH_MODES, INVALIDATING, WARNINGS

FOREIGN_LOAD = 0.05
"""Part of the host's CPUs busy with other processes during the timing that is reported."""

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
    saves_power: bool = False
    """Whether the CPU's frequency governor is not for performance."""
    compilations_while_timing: int = 0
    enough_steps: bool = True
    """Whether every arm took the asked-for warm-up steps before it was timed."""
    foreign_load: float = 0.0
    """Part of the host's CPUs that other processes used during the timing."""


def compiled_path(c: Conduct) -> str | None:
    """Return how the compiled arm really ran, one of `vocabulary.COMPILED_PATHS`; None with backend none."""
    if not c.compiles:
        return None
    if c.graphs == 0:
        return "never_compiled"
    if c.limit_hit:
        return "eager_fallback"
    if not c.warm:
        return "recompiling"
    return "partly" if c.eager_ops else "compiled"


def judge(conduct: Conduct) -> dict[str, Any]:
    """Return path, warnings, and a verdict if it is invalid: all that a run without times has."""
    warnings = warnings_of(conduct)
    invalid = next((name for name in INVALIDATING if name in warnings), None)
    return {
        "compiled_path": compiled_path(conduct),
        "warnings": warnings,
        "verdict": "invalid" if invalid else None,
        "verdict_reason": invalid,
    }


def warnings_of(conduct: Conduct) -> list[str]:
    """Return the named doubts about how the arms ran."""
    return _named(_conduct_warnings(conduct))


def _named(present: dict[str, bool]) -> list[str]:
    unknown = sorted(set(present) - set(WARNINGS))
    if unknown:
        raise KeyError(f"warnings without an explanation in src/vocabulary.py: {', '.join(unknown)}")
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
        "governor_saves_power": c.saves_power,
    }


def _left_foreach(c: Conduct) -> bool:
    moves = c.lr_as_tensor and c.torch_chooses and c.optimizer_class in LEAVE_FOREACH
    return c.device == "cuda" and moves and c.eager_path == "forloop"
