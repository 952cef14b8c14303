"""The block times of a run: what its processes report and its verdict is made from.

Plain data, for the process that measures and for the one that judges.
"""

from dataclasses import dataclass

from src.spec import RunSpec
from src.stats import Interval, median_interval, paired_speedup


@dataclass(frozen=True, slots=True)
class ArmTimes:
    """All blocks of one arm in one process."""

    steps_per_block: int
    block_us: tuple[float, ...]
    """Time of one step in us, per block in the order of the rounds."""

    @property
    def median_us(self) -> Interval:
        """Median time of a step with its interval, in us."""
        return median_interval(self.block_us)


@dataclass(frozen=True, slots=True)
class Timing:
    """What the rounds of one process gave."""

    arms: dict[str, ArmTimes]
    rounds: int
    seconds: float
    """Time spent, calibration included."""
    converged: bool
    """Whether the interval got as narrow as asked for."""
    enough_rounds: bool = True
    """Whether there were as many rounds as asked for."""

    def speedup(self, baseline: str, other: str) -> Interval:
        """Return the median of the rounds' ratios `baseline` / `other`, with its interval."""
        return paired_speedup(self.arms[baseline].block_us, self.arms[other].block_us)


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """What one process of a run found out about times."""

    timing: Timing
    best: str | None
    """Name of the arm that is the fastest eager implementation: `eager_best`, or `eager` where that
    is the fastest itself; None when it was not asked for."""
    before_compile_us: tuple[float, ...]
    """Blocks of the eager arm before anything was compiled in the process, in us a step."""
    sequential_us: tuple[float, float] | None
    """Eager and compiled step timed one after the other, in us; None when not asked for."""
    warnings: tuple[str, ...]
    """Names of doubts about how the arms ran."""
    timed_from_step: int
    foreign_cpus: float
    compilations: int
    """Compilations while the arms were timed."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """What a process that repeats a run is told."""

    spec: RunSpec
    eager_best: str | None
    """The eager implementation that the first process found fastest, None when none is asked for."""
    eager_path: str | None
    """The implementation that the eager arm ran there."""
    compiled_first: bool
    """Whether the compiled arm's tensors are made before the eager arm's."""
