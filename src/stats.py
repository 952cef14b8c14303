"""Statistics of timed blocks: floats in, numbers out.

Knows nothing of torch, rows or files. No outlier is dropped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist, fmean, median, stdev

LEVEL = 0.95
"""Confidence level of every interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A centre with an interval at `LEVEL`; `low` and `high` are None when there is none."""

    center: float
    low: float | None
    high: float | None

    @property
    def relative_width(self) -> float:
        """Width of the interval as a part of the centre, infinite when there is no interval."""
        if self.low is None or self.high is None or self.center == 0:
            return math.inf
        return (self.high - self.low) / abs(self.center)


@lru_cache(maxsize=4096)
def median_ranks(n: int) -> tuple[int, int] | None:
    """Return the 0-based ranks of the order statistics that bound the median of `n` values.

    The interval between them covers the population median with at least `LEVEL`, whatever the
    distribution: the number of values below the median is Binomial(n, 1/2) (the sign test's
    interval; Conover, Practical Nonparametric Statistics, section 3.2). None when `n` < 6, for
    which even the whole range covers less than 95 %.
    """
    tail, rank = 0, -1
    bound = (1 - LEVEL) / 2 * 2**n
    for k in range(n // 2):
        tail += math.comb(n, k)
        if tail > bound:
            break
        rank = k
    return None if rank < 0 else (rank, n - 1 - rank)


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of `values` with its distribution-free interval.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        raise ValueError("values must not be empty")
    ranks = median_ranks(len(values))
    if ranks is None:
        return Interval(median(values), None, None)
    ordered = sorted(values)
    return Interval(median(ordered), ordered[ranks[0]], ordered[ranks[1]])


def paired_speedup(baseline: Sequence[float], other: Sequence[float]) -> Interval:
    """Return the median of `baseline[i] / other[i]` with its interval.

    Pairing by round cancels what slows both arms of a round alike (clocks, other load).

    Raises:
        ValueError: the two have different lengths or are empty.
    """
    return median_interval([b / o for b, o in zip(baseline, other, strict=True)])


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive `values`.

    Raises:
        ValueError: `values` is empty or has one that is not positive.
    """
    if not values or min(values) <= 0:
        raise ValueError("geomean needs positive values")
    return math.exp(fmean(math.log(v) for v in values))


def log_t_interval(values: Sequence[float]) -> Interval:
    """Return the geometric mean of positive `values` with Student's t interval of their logarithms.

    For one value per process: blocks inside a process share its luck (memory layout, clocks), so
    only the spread over processes says what another process would give. One value has no interval.

    Raises:
        ValueError: `values` is empty or has one that is not positive.
    """
    center = geomean(values)
    if len(values) == 1:
        return Interval(values[0], None, None)
    half = t_quantile(len(values) - 1) * stdev(map(math.log, values)) / math.sqrt(len(values))
    return Interval(center, center * math.exp(-half), center * math.exp(half))


@lru_cache(maxsize=4096)
def t_quantile(df: float, alpha: float = 1 - LEVEL) -> float:
    """Return how many deviations a symmetric t interval reaches that misses in `alpha` of the cases."""
    from scipy.special import stdtrit  # noqa: PLC0415 - takes a third of a second, rarely needed

    return -float(stdtrit(df, alpha / 2))


@lru_cache(maxsize=4096)
def normal_quantile(alpha: float = 1 - LEVEL) -> float:
    """Return the same of the normal distribution."""
    return -NormalDist().inv_cdf(alpha / 2)


def widened(interval: Interval, deviation: float) -> Interval:
    """Return the interval of a positive quantity with more uncertainty than its own.

    Args:
        interval: at `LEVEL`; without ends it stays without.
        deviation: standard deviation of the logarithm, independent of what the interval knows. The
            normal quantile times this and the half widths of the logarithm add as the sides of a
            right triangle.
    """
    margins = log_margins(interval)
    if margins is None:
        return interval
    more = normal_quantile() * deviation
    below, above = (math.hypot(side, more) for side in margins)
    return Interval(interval.center, interval.center * math.exp(-below), interval.center * math.exp(above))


def quotient(numerator: Interval, denominator: Interval) -> Interval:
    """Return the quotient of two positive quantities that were measured independently.

    The half widths of the logarithms add as the sides of a right triangle, below and above apart.
    """
    center = numerator.center / denominator.center
    n, d = log_margins(numerator), log_margins(denominator)
    if n is None or d is None:
        return Interval(center, None, None)
    return Interval(
        center, center * math.exp(-math.hypot(n[0], d[1])), center * math.exp(math.hypot(n[1], d[0]))
    )


def geomean_interval(intervals: Sequence[Interval], shared: Sequence[float] | None = None) -> Interval:
    """Return the geometric mean of positive quantities, with the margin of measuring them.

    The interval says how well these quantities are known, nothing about quantities left out. There
    is none when one of the quantities has none.

    Args:
        intervals: at `LEVEL`.
        shared: of each, the standard deviation of its logarithm that is in its interval and common to
            all, as if all were off by the same factor; what remains is independent and averages out.

    Raises:
        ValueError: `intervals` is empty or has a centre that is not positive.
    """
    center = geomean([i.center for i in intervals])
    margins = [m for m in map(log_margins, intervals) if m is not None]
    if len(margins) < len(intervals):
        return Interval(center, None, None)
    common = [normal_quantile() * deviation for deviation in shared or [0.0] * len(margins)]
    together = fmean(common)

    def margin(own: Sequence[float]) -> float:
        squares = (max(m**2 - c**2, 0.0) for m, c in zip(own, common, strict=True))
        return math.hypot(math.sqrt(sum(squares)) / len(common), together)

    below, above = (margin(own) for own in zip(*margins, strict=True))
    return Interval(center, center * math.exp(-below), center * math.exp(above))


def log_margins(interval: Interval) -> tuple[float, float] | None:
    """Return how far the ends lie from the centre in logarithms; None when there are no ends."""
    low, center, high = interval.low, interval.center, interval.high
    if low is None or high is None or min(low, center, high) <= 0:
        return None
    return math.log(center / low), math.log(high / center)


def verdict(speedup: Interval, min_effect: float) -> str:
    """Return `faster`, `slower` or `no_difference`.

    The whole interval must lie beyond 1 by at least `min_effect` (as a ratio, so that a swap of
    the arms swaps the verdict). Without an interval there is no difference to claim.
    """
    if speedup.low is None or speedup.high is None:
        return "no_difference"
    if speedup.low > 1 + min_effect:
        return "faster"
    if speedup.high < 1 / (1 + min_effect):
        return "slower"
    return "no_difference"


def spread(values: Sequence[float]) -> float:
    """Return the interquartile range of `values` as a part of their median."""
    ordered = sorted(values)
    n = len(ordered)
    quarter = n // 4
    middle = median(ordered)
    return (ordered[n - 1 - quarter] - ordered[quarter]) / middle if middle else 0.0


FEWEST_FOR_LEVELS = 20
"""Fewer values than this do not tell two levels from one."""

LEAST_OF_A_LEVEL = 0.2
"""Part of the values that must lie on the smaller of two levels. A smaller part is also what the long
tail of a skewed distribution gives."""


def levels(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the two levels that `values` lie on, None when they do not.

    The values are split where the sum of squares within the two parts is least (one-dimensional
    2-means; with two parts every split of the sorted values can be tried). They lie on two levels
    when the smaller part has `LEAST_OF_A_LEVEL` of them and the means are further apart than 1 %
    and than `level_distance` times the sum of the two parts' standard deviations. The sum, and not
    a pooled deviation, because the tail of a skewed distribution makes a wide part beside a narrow
    one. Fewer than `FEWEST_FOR_LEVELS` values tell nothing.
    """
    ordered, n = sorted(values), len(values)
    if n < FEWEST_FOR_LEVELS or ordered[0] == ordered[-1]:
        return None
    # Sums of values and squares from the first to each, about the middle for the sake of rounding.
    middle = median(ordered)
    sums = [0.0, *accumulate(v - middle for v in ordered)]
    squares = [0.0, *accumulate((v - middle) ** 2 for v in ordered)]

    def within(start: int, end: int) -> float:
        return squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)

    split = min(range(1, n), key=lambda k: within(0, k) + within(k, n))
    if min(split, n - split) < LEAST_OF_A_LEVEL * n:
        return None
    low, high = fmean(ordered[:split]), fmean(ordered[split:])
    deviations = stdev(ordered[:split]) + stdev(ordered[split:])
    apart = high - low > level_distance(n) * deviations and high - low > 0.01 * low
    return (low, high) if apart else None


def level_distance(n: int) -> float:
    """Return how far apart two levels of `n` values must be, in sums of their standard deviations.

    Split best, all values of an even distribution have levels sqrt(3) = 1.73 apart, those of an
    exponential one 1.40, of a normal one 1.32; the fewer values there are, the further chance takes
    them apart. By simulation at most 1 % of the samples of any of these, and of lognormal ones,
    exceed this bound (tests/test_stats.py).
    """
    return 1.9 + 25 / n
