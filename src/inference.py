"""From what two sides measured to a change, its interval and whether it is real: floats in, numbers out.

All on the logarithm, where a factor is a sum. Knows nothing of rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from src.stats import LEVEL, Interval, normal_quantile, t_quantile

LEAST_P = 1e-12
"""No p-value is told to be smaller: so far out nobody knows the distribution."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A positive quantity on the logarithm, with the variances of its mean and where they come from."""

    log: float
    sampled: float = 0.0  # seen in values that repeat the quantity
    df: float = math.inf  # degrees of freedom of `sampled`
    assumed: float = 0.0  # known beforehand, of this quantity alone
    shared: float = 0.0  # known beforehand, common to all quantities of its side

    def interval(self) -> Interval:
        """Return the quantity with its interval at `LEVEL`."""
        return Change(self.log, _by_df([self], 1), self.assumed + self.shared).interval()


def repeated(values: Sequence[float], shared: float) -> Estimate:
    """Return what several positive values of one quantity say: mean of the logarithms, s^2 / n.

    Raises:
        ValueError: there are fewer than two values, or one that is not positive.
    """
    logs = [math.log(v) for v in values]
    n, mean = len(logs), fmean(logs)
    if n < 2:
        raise ValueError("a spread needs at least two values")
    # `statistics.variance` counts in fractions, which takes twenty times as long.
    squares = math.fsum((log - mean) ** 2 for log in logs)
    return Estimate(mean, squares / (n - 1) / n, n - 1, shared=shared)


@dataclass(frozen=True, slots=True)
class Change:
    """New / base of a quantity."""

    log: float
    sampled: Mapping[float, float]  # variance that was seen, by its degrees of freedom
    known: float  # variance that is known beforehand

    def margin(self, alpha: float) -> float:
        """Return the half width on the logarithm of the interval that misses in `alpha` of the cases.

        The margins of the parts join as the sides of a right triangle, as in `stats.widened` and
        `stats.quotient`: Student's quantile times the deviation of each sample, the normal one times what
        is known. Such an interval misses in `alpha` of the cases at most, whatever the variances (Banerjee,
        Approximate confidence interval for linear functions of means of k populations when the
        population variances are not equal, Sankhya 22, 1960). One t interval with Welch's degrees of
        freedom is narrower, and wrong where it matters: of 2 values against 5 of a fifth of their deviation
        it misses twice as often as it says at 5 %, 26 times at 0.1 %, which is where Holm's rule looks for
        50 cells.
        """
        squares = self.known * normal_quantile(alpha) ** 2
        return math.sqrt(squares + sum(v * t_quantile(df, alpha) ** 2 for df, v in self.sampled.items()))

    def interval(self) -> Interval:
        """Return the change with its interval at `LEVEL`."""
        margin = self.margin(1 - LEVEL)
        return Interval(*(math.exp(self.log + side) for side in (0.0, -margin, margin)))

    def p_value(self, min_effect: float) -> float:
        """Return the p-value against a change of at most `min_effect`, either way.

        It is the smallest alpha whose interval lies wholly beyond 1 + `min_effect` or below
        1 / (1 + `min_effect`), 1 when none does: below 1 - `LEVEL` just when the interval at `LEVEL` does,
        which is the rule of `stats.verdict`. That is the sum of two one-sided tests, each at the edge
        of what is no effect, so that a claim of a direction is wrong in alpha / 2 of the cases at most.
        """
        excess = abs(self.log) - math.log1p(min_effect)
        if excess <= 0:
            return 1.0
        seen = sum(self.sampled.values())
        if seen + self.known == 0:
            return LEAST_P
        # All variance known would give the least p-value, all of it in the smallest sample the greatest.
        score = excess / math.sqrt(seen + self.known)
        least = max(2 * _NORMAL.cdf(-score), LEAST_P)
        if seen == 0:
            return least
        most = max(2 * _t_tail(min(self.sampled), score), LEAST_P)
        if self.known == 0 and len(self.sampled) == 1:
            return most
        return self._solved(excess, least, most)

    def _solved(self, excess: float, low: float, high: float) -> float:
        """Return the alpha between two whose margin is `excess`, by bisection of its logarithm."""
        below, above = math.log(low), math.log(high)
        while above - below > 1e-4:
            middle = (below + above) / 2
            if self.margin(math.exp(middle)) > excess:
                below = middle
            else:
                above = middle
        return math.exp(above)


def change(base: Estimate, new: Estimate) -> Change:
    """Return new / base of two quantities that were measured independently of each other.

    What a side's cells share counts on both sides: where it is the same on both, the interval is wider
    than it need be.
    """
    return mean_change([(base, new)])


def mean_change(pairs: Sequence[tuple[Estimate, Estimate]]) -> Change:
    """Return the geometric mean of the changes of several cells.

    What each cell has of its own averages out, what a side's cells share does not: it counts in
    full, as if all cells of a side were off by the same factor.

    Raises:
        ValueError: there are no pairs.
    """
    if not pairs:
        raise ValueError("a mean needs at least one pair")
    n = len(pairs)
    estimates = [e for pair in pairs for e in pair]
    own = sum(e.assumed for e in estimates) / n**2
    shared = sum(fmean(math.sqrt(e.shared) for e in side) ** 2 for side in zip(*pairs, strict=True))
    mean = fmean(new.log - base.log for base, new in pairs)
    return Change(mean, _by_df(estimates, n), own + shared)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in the order given.

    A family of tests of which those with an adjusted p-value of at most alpha are told has a false
    one in at most alpha of all cases, however the tests depend on each other (Holm, A simple
    sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979).
    """
    n = len(p_values)
    adjusted, running = [0.0] * n, 0.0
    for rank, index in enumerate(sorted(range(n), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (n - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _by_df(estimates: Sequence[Estimate], n: int) -> dict[float, float]:
    """Return the sampled variance of a sum of estimates over `n`, by degrees of freedom."""
    parts: dict[float, float] = {}
    for e in estimates:
        if e.sampled > 0:
            parts[e.df] = parts.get(e.df, 0.0) + e.sampled / n**2
    return parts


def _t_tail(df: float, value: float) -> float:
    from scipy.special import stdtr  # noqa: PLC0415 - as in stats

    return float(stdtr(df, -value))
