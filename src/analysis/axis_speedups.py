"""Speedups of cells by the values of one axis, and means over cells that alone tell the values apart.

A geometric mean is over cells that differ in nothing but the axis, and that every value of the axis has:
a mean over other cells would compare the cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src import stats
from src.analysis.axes import Axis, apart, implied
from src.analysis.summary import Summary
from src.stats import Interval

MOST_VALUES = 30
"""Values of an axis above which those after them are left out."""


@dataclass(frozen=True, slots=True)
class Point:
    """One cell."""

    index: int  # of the cell in the summary
    value: Interval
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """One value of one axis, or an axis's title with nothing beside it."""

    axis: str
    label: str
    points: tuple[Point, ...]
    cells: int  # measured or not
    geomean: Interval | None
    shared: int  # cells in the geomean
    head: bool = False


def lines_of(summary: Summary, axis: Axis, points: Mapping[int, Point]) -> list[Line]:
    """Return a line with the title of an axis and one for each of its values that has a speedup.

    Args:
        summary: the cells, of which `points` are those with a speedup, by index.
        axis: one that varies.
        points: what is known of those cells.
    """
    members: dict[str, list[int]] = {}
    for index, label in enumerate(axis.labels):
        members.setdefault(label, []).append(index)
    measured = [label for label, indices in members.items() if any(i in points for i in indices)]
    if not measured:
        return []
    shared = _shared(summary, axis, members, points)
    lines = [Line(axis.title, axis.title, (), 0, None, 0, head=True)]
    for label in measured[:MOST_VALUES]:
        own = tuple(points[i] for i in members[label] if i in points)
        common = shared.get(label, ())
        mean = None
        if len(common) > 1:
            spreads = [summary.cells[i].shared_spread for i in common]
            mean = stats.geomean_interval([points[i].value for i in common], spreads)
        lines.append(Line(axis.title, label, own, len(members[label]), mean, len(common)))
    return lines


def _shared(
    summary: Summary, axis: Axis, members: Mapping[str, Sequence[int]], points: Mapping[int, Point]
) -> dict[str, list[int]]:
    """Return for each value of an axis the cells whose like every other value has, in one order.

    Nothing where machines differ, unless the axis tells them apart: a mean never mixes machines.
    """
    followers = set(implied(summary.axes, axis.title)) if axis.title in ("model", "device") else set()
    others = [a for a in summary.axes if a.varies and a is not axis and a.title not in followers]
    if any(other.kind == "machine" for other in others):
        return {}
    places: dict[str, dict[tuple[str, ...], int]] = {}
    for label, indices in members.items():
        usable = [i for i in indices if i in points and summary.cells[i].comparable]
        keys = apart([(*(other.labels[i] for other in others), "") for i in usable])
        places[label] = dict(zip(keys, usable, strict=True))
    common = set.intersection(*(set(place) for place in places.values()))
    return {label: [place[key] for key in place if key in common] for label, place in places.items()}
