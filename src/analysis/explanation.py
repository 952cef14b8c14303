"""What explains the times of a cell: where each arm's time goes, and the floor of any step.

Knows nothing of how it reads; that is `why`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src import vocabulary
from src.analysis.repeats import Row, known, middle, typical

OF_ARM = ("device_us", "kernels", "host_us", "cpu_us", "bound", "attained", "peak_bytes")
"""Ends of the columns that explain an arm, after its name."""

_SIZES = ("state_bytes", "step_bytes", "eager_bytes", "last_level_cache_bytes")
OF_STEP: tuple[str, ...] = (*_SIZES, "bandwidth_gbps", "floor_us")
"""Columns about any step of the workload."""

COLUMNS: tuple[str, ...] = (*(f"{arm}_{end}" for arm in vocabulary.TIMED_ARMS for end in OF_ARM), *OF_STEP)


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """Where the time of one arm's step goes; None is what was not measured."""

    device_us: float | None
    host_us: float | None
    cpu_us: float | None
    attained: float | None  # floor / time of a step
    kernels: int | None
    peak_bytes: int | None
    bounds: tuple[str, ...]  # of `vocabulary.BOUNDS`, each once over the rows


@dataclass(frozen=True, slots=True)
class Explanation:
    """What explains the times of a cell; None is what was not measured."""

    arms: Mapping[str, ArmFacts]  # of `vocabulary.TIMED_ARMS`, those of which anything is known
    state_bytes: int | None
    step_bytes: int | None
    eager_bytes: int | None
    last_level_cache_bytes: int | None
    bandwidth_gbps: float | None
    floor_us: float | None


def explanation(rows: Sequence[Row]) -> Explanation:
    """Return what the rows of a cell, those whose times are used, say of why they are so."""
    arms = {arm: _facts(rows, arm) for arm in vocabulary.TIMED_ARMS}
    nothing = _facts((), vocabulary.TIMED_ARMS[0])
    return Explanation(
        arms={arm: facts for arm, facts in arms.items() if facts != nothing},
        bandwidth_gbps=middle(rows, "bandwidth_gbps"),
        floor_us=middle(rows, "floor_us"),
        **{name: typical(rows, name) for name in _SIZES},
    )


def _facts(rows: Sequence[Row], arm: str) -> ArmFacts:
    return ArmFacts(
        device_us=middle(rows, f"{arm}_device_us"),
        host_us=middle(rows, f"{arm}_host_us"),
        cpu_us=middle(rows, f"{arm}_cpu_us"),
        attained=middle(rows, f"{arm}_attained"),
        kernels=typical(rows, f"{arm}_kernels"),
        peak_bytes=typical(rows, f"{arm}_peak_bytes"),
        bounds=known(rows, f"{arm}_bound"),
    )
