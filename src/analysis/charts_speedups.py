"""Speedups of all cells, once for each axis that varies: which choice matters, and how much.

A point for each cell, or the range of many; a larger mark for the geometric mean where there is a fair one.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from src.analysis import charts_look as look
from src.analysis import format as fmt
from src.analysis.axis_speedups import Line, Point, lines_of
from src.analysis.cells import Cell
from src.analysis.charts_look import Chart, Spec
from src.analysis.summary import Summary
from src.stats import Interval

_MOST_POINTS = 200
"""Cells above which a line shows the range of its cells and not each of them."""

_SORTS = {"faster": "faster", "slower": "slower", "no_difference": "no difference"}


_Of = Callable[[Cell], tuple[Interval | None, str | None]]


def over_eager(summary: Summary) -> Chart | None:
    """Return speedups against the eager arm, None where no axis of cells with a speedup varies."""
    words = ("eager", "the eager step as configured")
    return _chart("speedups", words, summary, lambda cell: (cell.speedup, cell.verdict))


def over_best(summary: Summary) -> Chart | None:
    """Return speedups against the best eager implementation, None where there is nothing to show."""
    words = ("best eager", "the best eager implementation")
    return _chart(
        "speedups_vs_best",
        words,
        summary,
        lambda cell: (cell.best.speedup, cell.best.verdict) if cell.best else (None, None),
    )


def _chart(name: str, words: tuple[str, str], summary: Summary, of: _Of) -> Chart | None:
    points = {
        index: Point(index, value, verdict)
        for index, (value, verdict) in enumerate(map(of, summary.cells))
        if value is not None and value.center > 0
    }
    lines = [line for axis in summary.shown for line in lines_of(summary, axis, points)]
    if not points or not lines:
        return None
    notes = _notes(summary, lines, points)
    return look.chart(
        name,
        f"Speedup over {words[1]}",
        " ".join((_description(summary, lines, points, words[1]), *(f"Drawn are {note}." for note in notes))),
        {**_spec(summary, lines, points, words[0]), **look.noted(notes)},
    )


def _notes(summary: Summary, lines: Sequence[Line], points: Mapping[int, Point]) -> list[str]:
    """Return what the chart leaves out, or puts together."""
    notes = []
    if len(points) > _MOST_POINTS:
        notes.append(f"{len(points)} cells: line from least to greatest, bar over the middle half")
    for axis in summary.shown:
        drawn = sum(line.axis == axis.title and not line.head for line in lines)
        values = len({axis.labels[index] for index in points})
        if drawn < values:
            notes.append(f"{axis.title}: {drawn} of {values} values")
    return notes


def _spec(summary: Summary, lines: Sequence[Line], points: Mapping[int, Point], over: str) -> Spec:
    many = len(points) > _MOST_POINTS
    values = [point.value for point in points.values()]
    shown = [Interval(value.center, None, None) for value in values] if many else values
    scale = look.log_scale(shown, always=[1.0])
    most = 1 if many else max(len(line.points) for line in lines)
    x = {
        "field": "center",
        "type": "quantitative",
        "scale": scale,
        "title": f"speedup over {over} (higher is better)",
        "axis": {"values": look.log_ticks(scale), "labelExpr": "format(datum.value, '.3~g') + 'x'"},
    }
    y = {"field": "line", "type": "ordinal", "scale": look.lines_scale(len(lines))}
    left = {**y, "axis": look.lines_axis("names", heads="heads")}
    bare = {**y, "axis": None}
    incomplete = any(len(line.points) < line.cells for line in lines)
    counts = [f"{len(line.points)} of {line.cells}" if not line.head else "" for line in lines]
    titled = (
        {**bare, "axis": look.lines_axis("counts", orient="right", labelLimit=70)} if incomplete else bare
    )
    means = [mean for line, entry in enumerate(lines) if (mean := _mean(line, entry, scale))]
    return {
        "$schema": look.SCHEMA,
        "width": "container",
        "height": len(lines) * (22 if many else min(max(4 * most, 18), 30)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [
            {"name": "names", "value": [look.short(line.label) for line in lines]},
            {"name": "heads", "value": [line.head for line in lines]},
            {"name": "counts", "value": counts},
        ],
        "resolve": {"axis": {"y": "independent"}},
        "layer": [
            {
                "data": {"values": [{"center": 1.0}]},
                "mark": {"type": "rule", "style": "reference"},
                "encoding": {"x": x},
            },
            *(_ranges(lines, x, left, titled) if many else _points(summary, lines, x, left, titled)),
            *_means(lines, means, x, bare, many=many),
        ],
    }


def _kinds(lines: Sequence[Line], *, many: bool) -> tuple[Spec, Spec]:
    """Return how colours and shapes tell verdicts and geomeans apart, with a legend of those in use."""
    points = [point for line in lines for point in line.points if not many]
    verdicts = {_SORTS.get(str(point.verdict), "no difference") for point in points}
    used = verdicts | ({"geomean"} if any(line.geomean for line in lines) else set())
    shown = [kind for kind in look.VERDICTS if kind in used]
    kind = {
        **{"field": "kind", "type": "nominal", "title": None},
        "legend": {"values": shown, "columns": 2 if len(shown) == 4 else 0},
    }
    return (
        {**kind, "scale": {"domain": look.VERDICTS, "range": "diverging"}},
        {**kind, "scale": {"domain": look.VERDICTS, "range": look.VERDICT_SHAPES}},
    )


def _points(summary: Summary, lines: Sequence[Line], x: Spec, left: Spec, right: Spec) -> list[Spec]:
    """Return each cell with its interval and its verdict."""
    colours, shapes = _kinds(lines, many=False)
    values = [
        {
            **{"line": number, "place": (rank + 0.5) / len(line.points), "center": point.value.center},
            **look.ends(point.value, x["scale"]),
            **{"kind": _SORTS.get(str(point.verdict), "no difference")},
            **{"cell": look.cell_name(summary, point.index), "value": f"{line.axis}: {line.label}"},
            "speedup": " ".join((fmt.ratio(point.value), fmt.bounds(point.value))),
        }
        for number, line in enumerate(lines)
        for rank, point in enumerate(line.points)
    ]
    offset = {"field": "place", "type": "quantitative", "scale": {"domain": [0, 1]}}
    shown = look.tooltip(value="axis", cell="cell", speedup="speedup", kind="verdict")
    bars = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "yOffset": offset, "color": colours}
    return [
        {
            "data": {"values": look.with_ends(values)},
            "mark": {"type": "rule", "strokeWidth": 1.2, "opacity": 0.7},
            "encoding": {**bars, "y": left},
        },
        {
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "size": 28, "opacity": 0.9},
            "encoding": {
                **{"x": x, "y": right, "yOffset": offset, "color": colours, "shape": shapes},
                "tooltip": shown,
            },
        },
    ]


def _ranges(lines: Sequence[Line], x: Spec, left: Spec, right: Spec) -> list[Spec]:
    """Return the least, the greatest and the middle half of the cells of each line."""
    values = [
        {"line": number, **_quartiles([point.value.center for point in line.points])}
        | {"value": f"{line.axis}: {line.label}", "cells": str(len(line.points))}
        for number, line in enumerate(lines)
        if line.points
    ]
    shown = look.tooltip(value="axis", cells="cells", words="least, middle half, greatest", mid="median")
    data = {"data": {"values": values}}
    return [
        {
            **data,
            "mark": {"type": "rule", "style": "reference"},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": left},
        },
        {
            **data,
            "mark": {"type": "bar", "style": "bulk", "height": {"band": 0.6}},
            "encoding": {
                **{"x": {**x, "field": "first"}, "x2": {"field": "third"}, "y": right},
                "tooltip": shown,
            },
        },
    ]


def _quartiles(values: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    first, third = ordered[quarter], ordered[len(ordered) - 1 - quarter]
    numbers = [Interval(value, None, None) for value in (ordered[0], first, third, ordered[-1])]
    return {
        **{"low": ordered[0], "first": first, "third": third, "high": ordered[-1]},
        "words": ", ".join(map(fmt.ratio, numbers)),
        "mid": fmt.ratio(Interval(median(ordered), None, None)),
    }


def _mean(number: int, line: Line, scale: Spec) -> dict[str, Any] | None:
    if line.geomean is None:
        return None
    return {
        **{"line": number, "center": line.geomean.center, "kind": "geomean"},
        **look.ends(line.geomean, scale),
        **{"value": f"{line.axis}: {line.label}", "cells": f"{line.shared} that all values have"},
        "speedup": " ".join((fmt.ratio(line.geomean), fmt.bounds(line.geomean))),
    }


def _means(lines: Sequence[Line], means: Sequence[Spec], x: Spec, y: Spec, *, many: bool) -> list[Spec]:
    if not means:
        return []
    colours, shapes = _kinds(lines, many=many)
    shown = look.tooltip(value="axis", speedup="geomean", cells="over cells")
    return [
        {
            "data": {"values": look.with_ends(means)},
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colours},
        },
        {
            "data": {"values": means},
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colours, "shape": shapes, "tooltip": shown},
        },
    ]


def _description(summary: Summary, lines: Sequence[Line], points: Mapping[int, Point], over: str) -> str:
    ordered = sorted(points.values(), key=lambda point: point.value.center)
    ends = [
        f"{fmt.ratio(point.value)} ({look.cell_name(summary, point.index)})"
        for point in (ordered[0], ordered[-1])
    ]
    verdicts = [point.verdict for point in ordered]
    counts = [f"{verdicts.count(key)} {word}" for key, word in _SORTS.items() if key in verdicts]
    sentences = [
        f"Speedup of the compiled step over {over} of {len(points)} of {len(summary.cells)} cells, "
        f"from {ends[0]} to {ends[1]}: {', '.join(counts)}."
    ]
    for axis in dict.fromkeys(line.axis for line in lines):
        means = [line for line in lines if line.axis == axis and line.geomean]
        if means:
            told = [f"{fmt.shorten(line.label, 40)} {fmt.ratio(line.geomean)}" for line in means]
            sentences.append(
                f"Geomean by {axis} over {means[0].shared} cells that all have: {fmt.listed(told, 8)}."
            )
    return " ".join(sentences)
