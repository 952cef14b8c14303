"""Rows that repeat one thing become one number.

A single row keeps its own interval: over its processes, or of its one process with the spread that
is assumed. Several rows give one value each, and a t interval over those; how sure each row was of
itself then does not matter. Knows nothing of cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_high
from typing import Any

from src import stats, vocabulary
from src.stats import Interval

Row = Mapping[str, Any]


def number(rows: Sequence[Row], name: str) -> Interval | None:
    """Return a row's own interval, or the geometric mean of several rows with their t interval."""
    present = [row for row in rows if row[name] is not None]
    if not present:
        return None
    if len(present) == 1:
        return Interval(present[0][name], present[0][f"{name}_low"], present[0][f"{name}_high"])
    return stats.log_t_interval([row[name] for row in present])


def speedup(rows: Sequence[Row], name: str) -> Interval | None:
    """Return `number` of a speedup, of several rows widened by what all their processes share.

    A row's own interval has that in it; a t interval over rows does not see it.
    """
    found = number(rows, name)
    shared = [_shared(row) for row in rows if row[name] is not None]
    return found if found is None or len(shared) == 1 else stats.widened(found, max(shared))


def _shared(row: Row) -> float:
    """Return what a row takes to be shared, or of a row from before that was known, what is now."""
    told = row["shared_spread"]
    return float(vocabulary.SHARED_SPREAD.get(row["device"], 0.0) if told is None else told)


def single(rows: Sequence[Row], name: str) -> Interval | None:
    """Return the geometric mean of a column that rows have one positive value of, without an interval.

    Its interval is that of several rows; one observation has none.
    """
    values = [row[name] for row in rows if row[name]]
    return stats.log_t_interval(values) if values else None


def ratio(rows: Sequence[Row], numerator: str, denominator: str) -> Interval | None:
    """Return the quotient of two columns that were not timed in pairs."""
    present = [row for row in rows if row[numerator] and row[denominator]]
    if len(present) > 1:
        return stats.log_t_interval([row[numerator] / row[denominator] for row in present])
    above, below = number(present, numerator), number(present, denominator)
    return stats.quotient(above, below) if above and below else None


def middle(rows: Sequence[Row], name: str) -> float | None:
    """Return what the rows say of a quantity that explains a time, without an interval.

    The geometric mean, as for times, so that what is a quotient of other columns stays so; the
    median where a value is zero.
    """
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None
    if len(set(values)) == 1 or min(values) <= 0:
        return float(median(values))
    return stats.geomean(values)


def typical(rows: Sequence[Row], name: str) -> int | None:
    """Return what the rows say of a count or a size: the median, the upper of two middle ones."""
    values = [row[name] for row in rows if row[name] is not None]
    return median_high(values) if values else None


def break_even(
    eager: Interval | None, compiled: Interval | None, speedup: Interval | None, compile_s: Interval | None
) -> Interval | None:
    """Return the steps after which the compile seconds are earned back, None when no step saves time.

    The interval follows that of the speedup, which is paired and so narrower than the times'.

    Args:
        eager: time of a step in us.
        compiled: time of a step in us.
        speedup: of the two.
        compile_s: seconds of the first call.
    """
    if eager is None or compiled is None or speedup is None or compile_s is None:
        return None
    saved_us = eager.center - compiled.center
    if saved_us <= 0:
        return None
    center = compile_s.center * 1e6 / saved_us
    if speedup.low is None or speedup.high is None or speedup.low <= 1:
        return Interval(center, None, None)
    ends = [compile_s.center * 1e6 / (eager.center * (1 - 1 / s)) for s in (speedup.high, speedup.low)]
    return Interval(center, min(ends[0], center), max(ends[1], center))


def distinct(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return each item once, in the order of first appearance."""
    return tuple(dict.fromkeys(items))


def known(rows: Iterable[Row], name: str) -> tuple[Any, ...]:
    """Return each value of a column once, in the order of the rows, without nulls."""
    return distinct(row[name] for row in rows if row[name] is not None)
