"""One function for each kind of number or name that a user reads, in one place.

None is shown as `-`. Times have three significant digits and a scaled unit.
"""

import math
from collections.abc import Sequence
from typing import Any

from src import console
from src.stats import Interval

NONE = "-"

_TIME_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "us"))


def time_us(value: float | None) -> str:
    """Return a time given in us with three significant digits, in us, ms or s."""
    if value is None:
        return NONE
    value = _round(value, 3)
    scale, unit = next(((s, u) for s, u in _TIME_UNITS if abs(value) >= s), _TIME_UNITS[-1])
    return f"{_digits(value / scale, 3)} {unit}"


def significant(value: float | None) -> str:
    """Return a number with three significant digits, for a column whose title has the unit."""
    return NONE if value is None else _digits(_round(value, 3), 3)


def percent(value: float | None) -> str:
    """Return a part of one in per cent, without the sign: one decimal below ten, none from there on."""
    if value is None:
        return NONE
    return f"{100 * value:.{1 if 100 * value < 9.95 else 0}f}"


def time_s(value: float | None) -> str:
    """Return a time given in s with three significant digits, in us, ms or s."""
    return NONE if value is None else time_us(value * 1e6)


def half_width(interval: Interval | None) -> str:
    """Return half of the interval's relative width as `±x %`, empty when there is no interval."""
    if interval is None or not math.isfinite(interval.relative_width):
        return ""
    percent = 50 * interval.relative_width
    if percent >= 1000:  # two runs that disagree: a t interval of one degree of freedom
        return "±>999 %"
    decimals = 2 if percent < 0.1 else 1 if percent < 10 else 0
    return f"±{percent:.{decimals}f} %"


def ratio(interval: Interval | None) -> str:
    """Return the centre of a ratio, such as `0.69x`."""
    return NONE if interval is None else f"{interval.center:.{_ratio_decimals(interval)}f}x"


def bounds(interval: Interval | None) -> str:
    """Return the ends of a ratio's interval as `[low, high]`, empty when there are none."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    decimals = _ratio_decimals(interval)
    return f"[{interval.low:.{decimals}f}, {interval.high:.{decimals}f}]"


def count(value: float | None) -> str:
    """Return a count with three significant digits, in thousands or millions from 10,000 on."""
    if value is None:
        return NONE
    value = _round(value, 3)
    for scale, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(scale, 1e4):
            return f"{_digits(value / scale, 3)}{suffix}"
    return f"{value:.0f}"


def count_range(value: tuple[int, int] | None) -> str:
    """Return an exact count, or `4-8` when it differs between rows."""
    if value is None:
        return NONE
    low, high = value
    return str(low) if low == high else f"{low}-{high}"


def value(raw: Any) -> str:
    """Return a value of an axis as one writes it on the command line."""
    if raw is None:
        return "null"
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, float):
        return repr(raw)
    if isinstance(raw, (list, tuple)):
        return "[" + ",".join(value(item) for item in raw) + "]"
    return plain(str(raw))


def plain(text: str) -> str:
    """Return `text` on one line, with what could steer a terminal written as an escape."""
    return console.escaped(" ".join(text.split()))


def shorten(text: str, length: int = 160) -> str:
    """Return `text` on one line of at most `length` characters."""
    line = plain(text)
    return line if len(line) <= length else line[: length - 3].rstrip() + "..."


def listed(items: Sequence[str], most: int = 5) -> str:
    """Return the first items, and how many more there are."""
    more = len(items) - most
    return "; ".join(items[:most]) + (f"; and {more} more" if more > 0 else "")


def _ratio_decimals(interval: Interval) -> int:
    """Return two decimals, more where two would hide the interval and fewer for large ratios."""
    if interval.low is not None and interval.high is not None:
        width = interval.high - interval.low
        if 0 < width < 0.02:
            return 3 if width >= 0.002 else 4
    return 2 if abs(interval.center) < 100 else 0


def _round(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def _digits(number: float, digits: int) -> str:
    if number == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(number)))
    return f"{number:.{max(decimals, 0)}f}"
