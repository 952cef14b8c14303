"""Comparisons of which the truth is known: how often does `compare` tell a change that is none?

A side has what its processes share, one factor on all its speedups that is drawn once; a process has
luck, drawn once per cell; its median has the noise of its rounds. Rows get intervals by the rule of
`verdicts`. `python -m tests.simulated_changes` prints the tables of docs/method.md.
"""

import math
import random
from dataclasses import dataclass, replace

from src import inference
from src.analysis.changes_estimates import METRICS, measured
from src.stats import Interval, log_t_interval, normal_quantile, widened

MIN_EFFECT = 0.01
ALPHA = 0.05


@dataclass(frozen=True)
class Side:
    """How one side was measured."""

    processes: int = 1
    rows: int = 1
    luck: float = 0.01
    """Standard deviation of the logarithm of a process's factor."""


@dataclass(frozen=True)
class Kind:
    """What is compared."""

    base: Side
    new: Side
    cells: int = 1
    change: float = 1.0
    """The true one, of all cells."""
    planted: float | None = None
    """The true one of the first cell, where it is another."""
    noise: float = 0.002
    """Standard deviation of the median of a process's rounds."""
    shared: float = 0.001
    assumed: float = 0.01
    """Spread over processes that rows of one process assume."""


@dataclass(frozen=True)
class Rates:
    """What came of many comparisons of one kind."""

    false: float
    """Part of the comparisons in which a cell without a planted change has a verdict."""
    covered: float
    """Part of the cells whose interval has the true change within it."""
    mean_covered: float
    """Part of the comparisons whose geomean's interval has the true mean within it."""
    found: float
    """Part of the comparisons that tell the planted change."""


def row(side: Side, kind: Kind, log: float, draw: random.Random) -> dict:
    """Return what a row says of a speedup whose true logarithm is `log`."""
    spread = math.hypot(side.luck, kind.noise)
    values = [math.exp(draw.gauss(log, spread)) for _ in range(side.processes)]
    if side.processes > 1:
        interval, spread_told = widened(log_t_interval(values), kind.shared), None
    else:
        reach = math.exp(normal_quantile() * kind.noise)
        own = Interval(values[0], values[0] / reach, values[0] * reach)
        interval, spread_told = widened(own, math.hypot(kind.assumed, kind.shared)), kind.assumed
    ends = {"speedup": interval.center, "speedup_low": interval.low, "speedup_high": interval.high}
    told = {"processes": side.processes, "process_spread": spread_told, "shared_spread": kind.shared}
    return {**ends, **told, "device": "cuda", "min_effect": MIN_EFFECT}


def compared(kind: Kind, seed: int) -> tuple[list[bool], list[bool], bool]:
    """Return of each cell whether it has a verdict and whether its interval is right, and the geomean's."""
    draw = random.Random(f"{kind} {seed}")  # noqa: S311
    biases = [draw.gauss(0, kind.shared) for _ in range(2)]
    true = [math.log(kind.change)] * kind.cells
    if kind.planted is not None:
        true[0] = math.log(kind.planted)
    pairs = []
    for change in true:
        sides = ((kind.base, biases[0]), (kind.new, biases[1] + change))
        rows = [[row(side, kind, log, draw) for _ in range(side.rows)] for side, log in sides]
        pairs.append(tuple(measured(each, METRICS["speedup"]).estimate for each in rows))
    changes = [inference.change(*pair) for pair in pairs]
    adjusted = inference.holm([change.p_value(MIN_EFFECT) for change in changes])
    within = [abs(c.log - t) <= c.margin(ALPHA) for c, t in zip(changes, true, strict=True)]
    mean = inference.mean_change(pairs)
    return [p <= ALPHA for p in adjusted], within, abs(mean.log - sum(true) / len(true)) <= mean.margin(ALPHA)


def rates(kind: Kind, comparisons: int) -> Rates:
    """Return what comes of that many comparisons."""
    found = [compared(kind, seed) for seed in range(comparisons)]
    first = 0 if kind.planted is None else 1
    return Rates(
        false=sum(any(told[first:]) for told, _, _ in found) / comparisons,
        covered=sum(sum(within) for _, within, _ in found) / (comparisons * kind.cells),
        mean_covered=sum(mean for _, _, mean in found) / comparisons,
        found=sum(told[0] for told, _, _ in found) / comparisons,
    )


SIDES = {
    "1 process, luck 1 %": (Side(), Side()),
    "5 processes, luck 0.15 %": (Side(5, luck=0.0015),) * 2,
    "5 processes, luck 1 %": (Side(5),) * 2,
    "2 processes, luck 1 %": (Side(2),) * 2,
    "2 rows of 1 process, luck 1 %": (Side(rows=2),) * 2,
    "5 rows of 1 process, luck 1 %": (Side(rows=5),) * 2,
    "1 process against 5, luck 1 %": (Side(), Side(5)),
    "2 processes, luck 3 %, against 5, luck 0.5 %": (Side(2, luck=0.03), Side(5, luck=0.005)),
}


COLUMNS = (
    *("each side", "cells", "told, none changed", "told, all changed by 1 %", "interval covers"),
    *("geomean covers", "3 % found", "5 % found"),
)


def main() -> None:
    """Print the table."""
    lines = [COLUMNS, ("---",) * len(COLUMNS)]
    for name, (base, new) in SIDES.items():
        for cells, comparisons in ((1, 20_000), (10, 4000), (50, 1000)):
            kind = Kind(base, new, cells)
            none = rates(kind, comparisons)
            edge = rates(replace(kind, change=1 + MIN_EFFECT), comparisons)
            planted = [rates(replace(kind, planted=p), comparisons // 4).found for p in (1.03, 1.05)]
            parts = (none.false, edge.false, none.covered, none.mean_covered, *planted)
            lines.append((name, str(cells), *(f"{100 * part:.1f} %" for part in parts)))
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))  # noqa: T201  # what this program is for


if __name__ == "__main__":
    main()
