"""Rows that repeat one thing become one number, for all things at once.

A single row keeps its own interval: over its processes, or of its one process with the spread that
is assumed. Several rows give one value each, and a t interval over those; how sure each row was of
itself then does not matter. Knows nothing of cells: rows come in groups that have numbers.
"""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from src import stats, vocabulary
from src.analysis.rows import Numbers, Rows
from src.stats import Interval

Places = npt.NDArray[np.int64]

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Estimates:
    """A quantity of each group with its interval; NaN where there is none."""

    center: Numbers
    low: Numbers
    high: Numbers

    def at(self, group: int) -> Interval | None:
        """Return the quantity of one group, None where it has none."""
        center = there(self.center, group)
        return None if center is None else Interval(center, there(self.low, group), there(self.high, group))


def there(numbers: Numbers, group: int) -> float | None:
    """Return a number, None where it is NaN."""
    number = numbers.item(group)
    return None if math.isnan(number) else number


class Repeats:
    """Numbers of groups of rows; each is computed, for all groups, when it is first asked for."""

    def __init__(self, rows: Rows, used: Places, group: Places, count: int) -> None:
        """Take rows that enter numbers.

        Args:
            rows: these and others.
            used: places of the rows that enter numbers.
            group: number of the group of each of these, from 0, in ascending order.
            count: number of groups; one may have no row in use.
        """
        self._rows = rows
        self._used = used
        self._group = group
        self._count = count
        self._known: dict[tuple[str, str], Any] = {}

    def number(self, name: str) -> Estimates:
        """Return a row's own interval, or the geometric mean of several rows with their t interval."""
        return self._once(self._number, name)

    def speedup(self, name: str) -> Estimates:
        """Return `number` of a speedup, of several rows widened by what all their processes share.

        A row's own interval has that in it; a t interval over rows does not see it.
        """
        return self._once(self._speedup, name)

    def single(self, name: str) -> Estimates:
        """Return the geometric mean of a column that rows have one positive value of, without an interval.

        Its interval is that of several rows; one observation has none.
        """
        return self._once(self._single, name)

    def middle(self, name: str) -> Numbers:
        """Return what the rows say of a quantity that explains a time, without an interval.

        The geometric mean, as for times, so that what is a quotient of other columns stays so; the
        median where a value is zero. NaN where no row has it.
        """
        return self._once(self._middle, name)

    def typical(self, name: str) -> Numbers:
        """Return what the rows say of a count or a size: the median, the upper of two middle ones."""
        return self._once(self._typical, name)

    def ratio(self, numerator: str, denominator: str) -> Estimates:
        """Return the quotient of two columns of times that were not timed in pairs."""
        key = ("ratio", f"{numerator}/{denominator}")
        if key not in self._known:
            self._known[key] = self._ratio(numerator, denominator)
        found: Estimates = self._known[key]
        return found

    def largest(self, name: str) -> Numbers:
        """Return the largest value of a column, NaN where no row has one."""
        return self._once(self._largest, name)

    def _once(self, make: Callable[[str], _Found], name: str) -> _Found:
        key = (make.__name__, name)
        if key not in self._known:
            self._known[key] = make(name)
        found: _Found = self._known[key]
        return found

    def _number(self, name: str) -> Estimates:
        means, own = self._means(self._of(name))
        for ends, end in ((means.low, "low"), (means.high, "high")):
            ends[own.groups] = self._rows.numbers(f"{name}_{end}")[own.places]
        return means

    def _single(self, name: str) -> Estimates:
        return self._means(self._of(name))[0]

    def _speedup(self, name: str) -> Estimates:
        found = self.number(name)
        several = self._of(name).several(self._count)
        shared = self._shared(name)
        more = stats.normal_quantile() * shared[several]
        center = found.center[several]
        if not len(center):
            return found
        with np.errstate(divide="ignore"):  # rows so far apart that an end is nothing, or has no bound
            below = np.hypot(_log(center / found.low[several]), more)
            above = np.hypot(_log(found.high[several] / center), more)
        low, high = found.low.copy(), found.high.copy()
        low[several], high[several] = center * _exp(-below), center * _exp(above)
        return Estimates(found.center, low, high)

    def _shared(self, name: str) -> Numbers:
        """Return what the rows that have this speedup take to be shared, the largest of each group.

        Of a row from before that was known it is what is known now.
        """
        places = self._of(name).places
        told = self._rows.numbers("shared_spread")[places]
        devices = self._rows.column("device")
        lacking = np.flatnonzero(np.isnan(told))
        told[lacking] = [vocabulary.SHARED_SPREAD.get(devices[places[i]], 0.0) for i in lacking]
        largest = np.zeros(self._count)
        np.maximum.at(largest, self._of(name).groups, told)
        return largest

    def _ratio(self, numerator: str, denominator: str) -> Estimates:
        above, below = (self._rows.numbers(name)[self._used] for name in (numerator, denominator))
        both = (above > 0) & (below > 0)
        values = np.divide(above, below, out=np.full(len(both), np.nan), where=both)
        means, alone = self._means(_Values(values, self._group, self._used).at(both))
        over, under = (self._margins(name, alone.places) for name in (numerator, denominator))
        means.low[alone.groups] = alone.values * _exp(-np.hypot(over[0], under[1]))
        means.high[alone.groups] = alone.values * _exp(np.hypot(over[1], under[0]))
        return means

    def _margins(self, name: str, places: Places) -> tuple[Numbers, Numbers]:
        """Return how far the ends of rows' own intervals lie from the centre in logarithms."""
        low, center, high = (self._rows.numbers(f"{name}{end}")[places] for end in ("_low", "", "_high"))
        low, high = (np.where(ends > 0, ends, np.nan) for ends in (low, high))
        return _log(center / low), _log(high / center)

    def _middle(self, name: str) -> Numbers:
        found = self._of(name)
        if not len(found.values):
            return _nothing(self._count)
        least, low, high, most = found.ranked(self._count)
        result = (low + high) / 2
        spread = (least != most) & (least > 0)
        kept = found.at(spread[found.groups])
        size = kept.counts(self._count)[spread]
        result[spread] = _exp(_sums(_log(kept.values), size) / size)
        return result

    def _typical(self, name: str) -> Numbers:
        return self._of(name).ranked(self._count)[2]

    def _largest(self, name: str) -> Numbers:
        return self._of(name).ranked(self._count)[3]

    def _means(self, given: "_Values") -> "tuple[Estimates, _Values]":
        """Return geometric means with t intervals, none of a value that stands alone; and those values."""
        found = given.positive()
        n = found.counts(self._count)
        alone, many = found.at(n[found.groups] == 1), found.at(n[found.groups] > 1)
        center, low, high = (_nothing(self._count) for _ in range(3))
        center[alone.groups] = alone.values
        if len(many.values):
            several = n > 1
            size = n[several]
            logs, first = _log(many.values), np.cumsum(size) - size
            mean = _sums(logs, size) / size
            off = logs - np.repeat(mean, size)
            equal = np.minimum.reduceat(logs, first) == np.maximum.reduceat(logs, first)
            off[np.repeat(equal, size)] = 0.0  # not what rounding leaves
            deviation = np.sqrt(_sums(off * off, size) / (size - 1))
            half = _quantiles(size) * deviation / np.sqrt(size)
            center[several] = _exp(mean)
            low[several], high[several] = center[several] * _exp(-half), center[several] * _exp(half)
        return Estimates(center, low, high), alone

    def _of(self, name: str) -> "_Values":
        return self._once(self._present, name)

    def _present(self, name: str) -> "_Values":
        values = self._rows.numbers(name)[self._used]
        return _Values(values, self._group, self._used).at(~np.isnan(values))


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of a column, without those that are not there."""

    values: Numbers
    groups: Places  # in ascending order
    places: Places  # of the rows that have them

    def at(self, kept: npt.NDArray[np.bool_]) -> "_Values":
        """Return some of them."""
        return _Values(self.values[kept], self.groups[kept], self.places[kept])

    def positive(self) -> "_Values":
        """Return those that have a logarithm."""
        return self.at(self.values > 0)

    def counts(self, count: int) -> Places:
        """Return how many values each group has."""
        return np.bincount(self.groups, minlength=count)

    def several(self, count: int) -> npt.NDArray[np.bool_]:
        """Return which groups have more than one positive value."""
        return self.positive().counts(count) > 1

    def ranked(self, count: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the least, the two middle and the largest value of each group, NaN where it has none."""
        ordered = self.values[np.lexsort((self.values, self.groups))]
        n = self.counts(count)
        start, some = np.cumsum(n) - n, n > 0
        result = []
        for offset in (np.zeros_like(n), (n - 1) // 2, n // 2, n - 1):
            found = _nothing(count)
            found[some] = ordered[(start + offset)[some]]
            result.append(found)
        least, low, high, most = result
        return least, low, high, most


def _log(numbers: Numbers) -> Numbers:
    """Return logarithms: those of numpy differ in the last digit from processor to processor."""
    return np.array([math.log(number) for number in numbers.tolist()])


def _exp(numbers: Numbers) -> Numbers:
    return np.array([math.inf if number > _MOST else math.exp(number) for number in numbers.tolist()])


_MOST = math.log(sys.float_info.max)


def _sums(numbers: Numbers, sizes: Places) -> Numbers:
    """Return the sums of the first numbers, of those that follow them, and so on, rounded once."""
    values, ends = numbers.tolist(), np.cumsum(sizes).tolist()
    return np.array(
        [math.fsum(values[end - size : end]) for end, size in zip(ends, sizes.tolist(), strict=True)]
    )


def _quantiles(sizes: Places) -> Numbers:
    """Return Student's quantile for the mean of each of these numbers of values."""
    kinds, kind = np.unique(sizes, return_inverse=True)
    return np.array([stats.t_quantile(size - 1) for size in kinds.tolist()])[kind]


def _nothing(count: int) -> Numbers:
    return np.full(count, np.nan)


def break_even(eager: Estimates, compiled: Estimates, speedup: Estimates, compile_s: Numbers) -> Estimates:
    """Return the steps after which the compile seconds are earned back; none where no step saves time.

    The interval follows that of the speedup, which is paired and so narrower than the times'.

    Args:
        eager: time of a step in us.
        compiled: time of a step in us.
        speedup: of the two.
        compile_s: seconds of the first call.
    """

    def steps(saved_us: Numbers) -> Numbers:
        return np.divide(compile_s * 1e6, saved_us, out=_nothing(len(saved_us)), where=saved_us > 0)

    center = steps(eager.center - compiled.center)
    sure = speedup.low > 1
    with np.errstate(invalid="ignore", divide="ignore"):
        first, last = (steps(eager.center * (1 - 1 / s)) for s in (speedup.high, speedup.low))
    return Estimates(
        center,
        np.where(sure, np.minimum(first, center), np.nan),
        np.where(sure, np.maximum(last, center), np.nan),
    )


def distinct(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return each item once, in the order of first appearance."""
    return tuple(dict.fromkeys(items))
