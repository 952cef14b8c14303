"""What explains the times of a cell: where each arm's time goes, and the floor of any step.

Knows nothing of how it reads; that is `why`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from src import vocabulary
from src.analysis.repeats import Repeats, there
from src.analysis.rows import Numbers

OF_ARM = (
    *("device_us", "kernels", "host_us", "cpu_us", "bound", "attained", "peak_bytes"),
    *("reserved_bytes", "gpu_utilisation"),
)
"""Ends of the columns that explain an arm, after its name."""

_SIZES = ("state_bytes", "step_bytes", "eager_bytes", "last_level_cache_bytes")
OF_STEP: tuple[str, ...] = (*_SIZES, "bandwidth_gbps", "floor_us")
"""Columns about any step of the workload."""

WHOLE = ("_kernels", "_bytes")
"""Ends of the columns that are counts or sizes."""

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
    reserved_bytes: int | None
    gpu_utilisation: float | None  # part of the time
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


def quantity(repeats: Repeats, name: str) -> Numbers:
    """Return one of `COLUMNS` that is a number, for every cell; NaN where it was not measured."""
    return repeats.typical(name) if name.endswith(WHOLE) else repeats.middle(name)


def explanation(repeats: Repeats, group: int, known: Callable[[str], tuple[Any, ...]]) -> Explanation:
    """Return what the rows of a cell, those whose times are used, say of why they are so.

    Args:
        repeats: numbers of all cells.
        group: of this cell.
        known: each value of a column over the rows of the cell, once.
    """

    def number(name: str) -> float | None:
        return there(quantity(repeats, name), group)

    def whole(name: str) -> int | None:
        found = number(name)
        return None if found is None else int(found)

    arms = {
        arm: ArmFacts(
            device_us=number(f"{arm}_device_us"),
            host_us=number(f"{arm}_host_us"),
            cpu_us=number(f"{arm}_cpu_us"),
            attained=number(f"{arm}_attained"),
            kernels=whole(f"{arm}_kernels"),
            peak_bytes=whole(f"{arm}_peak_bytes"),
            reserved_bytes=whole(f"{arm}_reserved_bytes"),
            gpu_utilisation=number(f"{arm}_gpu_utilisation"),
            bounds=known(f"{arm}_bound"),
        )
        for arm in vocabulary.TIMED_ARMS
    }
    return Explanation(
        arms={arm: facts for arm, facts in arms.items() if facts != _NOTHING},
        bandwidth_gbps=number("bandwidth_gbps"),
        floor_us=number("floor_us"),
        **{name: whole(name) for name in _SIZES},
    )


_NOTHING = ArmFacts(None, None, None, None, None, None, None, None, ())
