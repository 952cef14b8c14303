"""What a cell's rows say of one number, for comparing it with rows of other processes.

An interval in a row tells how well that run knows its number. Another run of the same thing differs by
more: by the luck of its processes and by what all of them share. For speedups rows have both in their
intervals; it is taken apart here, since what is shared does not average out over cells. For times it is
not in the rows, and is added.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src import vocabulary
from src.analysis.rows import Row
from src.inference import Estimate, repeated
from src.stats import Interval, log_margins, normal_quantile, t_quantile


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a row that two sides are compared by."""

    name: str
    words: str
    more_is_better: bool
    arm: str = ""  # whose absolute time it is; empty for a ratio of arms of one process
    spread: bool = True  # whether one run of it has an interval


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("speedup", "eager time / compiled time, paired within a process", more_is_better=True),
        Metric(
            "speedup_vs_best",
            "time of the fastest eager implementation / compiled time, paired within a process",
            more_is_better=True,
        ),
        Metric("compiled_us", "time of a compiled step", more_is_better=False, arm="compiled"),
        Metric("eager_us", "time of an eager step", more_is_better=False, arm="eager"),
        Metric(
            "eager_best_us",
            "time of a step of the fastest eager implementation",
            more_is_better=False,
            arm="eager_best",
        ),
        Metric(
            "compile_s",
            "wall time of the first call of the compiled arm",
            more_is_better=False,
            arm="compiled",
            spread=False,
        ),
    )
}

PROCESS_SPREAD = {"cuda": 0.01, "cpu": 0.017}
"""Standard deviation of a speedup over processes that is assumed of rows of one process that assume none
(schema versions 1 and 2): as seen on an H200 and on two CPU cores (docs/method.md)."""


@dataclass(frozen=True, slots=True)
class Luck:
    """Standard deviations of the logarithm of a step's absolute time."""

    process: float  # over the processes of a run
    run: float  # of a run, whatever its processes: how fast the machine was meanwhile


DEVICE_LIMITED, HOST_LIMITED, ON_CPU = Luck(0.002, 0.01), Luck(0.16, 0.16), Luck(0.02, 0.04)
"""Of runs of one eager step in five processes each (experiments/results/*_two_eager_arms.parquet).

On an H200 with a step of 240 us: 0.16 over processes (root mean square of 20 runs; eleven of them had
0.002), and 0.13 between runs, of which one was so far off that it takes 0.16 for 95 % of all pairs of
runs to agree. With a step of 2 ms: 0.002 over processes, and 0.001 between six runs of one hour; 0.01 is
what kernel times differed by between two hosts (experiments/results/README.md). On a CPU: 0.014 and
0.018 over processes, 0.037 between runs."""

HOST_ROOM = 3
"""A step is limited by the device, whatever the host does, when it takes this many times what enqueuing it
takes: the host was seen to be twice as slow as at other times."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of one side of a comparison."""

    center: float
    estimate: Estimate | None  # None without an interval
    lacking: str  # why there is none
    rows: int  # that it is made from
    assumed: bool  # whether a spread over processes was assumed that the row does not tell


def measured(rows: Sequence[Row], metric: Metric) -> Measured | None:
    """Return what rows of one cell say of a metric, None when they do not have it."""
    present = [row for row in rows if row[metric.name] is not None and row[metric.name] > 0]
    if not present:
        return None
    if len(present) > 1:
        shared = max(_shared(row, metric) for row in present) ** 2
        estimate = repeated([row[metric.name] for row in present], shared)
        return Measured(math.exp(estimate.log), estimate, "", len(present), assumed=False)
    return _of_one(present[0], metric)


def min_effect(rows: Sequence[Row]) -> float:
    """Return the largest effect that one of the rows calls none, 0 when none says so."""
    return max((row["min_effect"] or 0.0 for row in rows), default=0.0)


def _of_one(row: Row, metric: Metric) -> Measured:
    center = float(row[metric.name])
    if not metric.spread:
        return Measured(center, None, "a single compilation, without interval,", 1, assumed=False)
    margins = log_margins(Interval(center, row[f"{metric.name}_low"], row[f"{metric.name}_high"]))
    if margins is None:
        return Measured(center, None, "no interval", 1, assumed=False)
    # The wider side for both: a claim must not hang on which of them is looked at.
    margin, processes = max(margins), row["processes"] or 1
    paired = not metric.arm
    inside = (row["shared_spread"] or 0.0) if paired else 0.0
    shared = _shared(row, metric) ** 2
    if processes > 1:
        seen = max(margin**2 - (normal_quantile() * inside) ** 2, 0.0)
        sampled = seen / t_quantile(processes - 1) ** 2
        estimate = Estimate(math.log(center), sampled, processes - 1, shared=shared)
        return Measured(center, estimate, "", 1, assumed=False)
    told = row["process_spread"] if paired else None
    variance = max((margin / normal_quantile()) ** 2 - inside**2, 0.0)
    variance += 0.0 if told is not None else _process(row, metric) ** 2
    estimate = Estimate(math.log(center), assumed=variance, shared=shared)
    return Measured(center, estimate, "", 1, assumed=told is None)


def _shared(row: Row, metric: Metric) -> float:
    """Return what no repetition within a run shows, as a standard deviation."""
    if metric.arm:
        return _luck(row, metric).run
    told = row["shared_spread"]
    return float(vocabulary.SHARED_SPREAD.get(row["device"], 0.0) if told is None else told)


def _process(row: Row, metric: Metric) -> float:
    return _luck(row, metric).process if metric.arm else PROCESS_SPREAD.get(row["device"], 0.017)


def _luck(row: Row, metric: Metric) -> Luck:
    if row["device"] != "cuda":
        return ON_CPU
    host_us = row[f"{metric.arm}_host_us"]
    if not metric.spread or host_us is None:  # compiling is the host's work
        return HOST_LIMITED
    return DEVICE_LIMITED if HOST_ROOM * host_us <= row[metric.name] else HOST_LIMITED
