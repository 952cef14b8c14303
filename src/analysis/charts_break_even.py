"""After how many steps compiling has paid off: each cell, or the share of many cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis import charts_look as look
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.charts_look import Chart, Spec
from src.analysis.summary import Summary
from src.stats import Interval

_MOST_CELLS = 40
"""Cells above which the chart shows the share of them that has broken even, not each of them."""

_CACHES = ("cold cache", "warm cache")
_LOOKS = {"range": ["circle", "square"]}
_TITLE = "break-even steps, against eager"
_NO_LINE = {"condition": {"test": "nevers[datum.value]", "value": 0}, "value": 1}
"""No line through the words of a cell that never breaks even."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A cell of which it is known whether compiling pays off."""

    label: str
    steps: Mapping[str, Interval]  # by `_CACHES`; none when it never does
    never: str  # why, empty when it does


def break_even(summary: Summary) -> Chart | None:
    """Return the chart, None where no cell breaks even."""
    lines = [line for index, cell in enumerate(summary.cells) if (line := _line(summary, index, cell))]
    paying = [line for line in lines if line.steps]
    if not paying:
        return None
    many = len(lines) > _MOST_CELLS
    values = [value for line in paying for value in line.steps.values()]
    scale = look.log_scale([Interval(v.center, None, None) for v in values] if many else values)
    x = {
        **{"field": "steps", "type": "quantitative", "title": _TITLE, "scale": scale},
        "axis": {"values": look.log_ticks(scale), "format": "~s"},
    }
    spec = {
        "$schema": look.SCHEMA,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **(_shares(lines, x) if many else _each(lines, x)),
    }
    return look.chart("break_even", "Break-even steps", _description(summary, lines, paying), spec)


def _line(summary: Summary, index: int, cell: Cell) -> _Line | None:
    """Return what is known of a cell, None where that is nothing."""
    found = zip(_CACHES, (cell.break_even, cell.break_even_warm), strict=True)
    steps = {cache: value for cache, value in found if value is not None and value.center > 0}
    label = look.cell_name(summary, index)
    if steps:
        return _Line(label, steps, "")
    if cell.compile_s is None or cell.verdict not in ("slower", "no_difference"):
        return None
    return _Line(label, {}, f"never: {cell.verdict.replace('_', ' ')}")


def _each(lines: Sequence[_Line], x: Spec) -> dict[str, Any]:
    """Return a line for each cell, those that pay off soonest above, those that never do below."""
    ordered = sorted(
        lines, key=lambda line: min((v.center for v in line.steps.values()), default=float("inf"))
    )
    scale = x["scale"]
    values = [
        {
            **{"line": number, "steps": value.center, **look.ends(value, scale), "cache": cache},
            **{"cell": line.label, "words": f"{fmt.count(value.center)} {fmt.half_width(value)}".strip()},
        }
        for number, line in enumerate(ordered)
        for cache, value in line.steps.items()
    ]
    never = [
        {"line": n, "cell": line.label, "why": line.never} for n, line in enumerate(ordered) if line.never
    ]
    used = [cache for cache in _CACHES if any(value["cache"] == cache for value in values)]
    y = {
        **{"field": "line", "type": "ordinal", "scale": look.lines_scale(len(ordered))},
        "axis": look.lines_axis("names", grid=True, gridOpacity=_NO_LINE),
    }
    colour = {
        "field": "cache",
        "type": "nominal",
        "title": None,
        "scale": {"domain": used, "range": "category"},
    }
    shape = {**colour, "scale": {"domain": used, "range": _LOOKS["range"][: len(used)]}}
    shown = look.tooltip(cell="cell", cache="compiled with", words="break-even steps")
    return {
        "height": len(ordered) * 18,
        "params": [
            {"name": "names", "value": [look.short(line.label) for line in ordered]},
            {"name": "nevers", "value": [bool(line.never) for line in ordered]},
        ],
        "layer": [
            {
                "data": {"values": look.with_ends(values)},
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour},
            },
            {
                "data": {"values": values},
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": shown},
            },
            {
                "data": {"values": never},
                "mark": {"type": "text", "align": "right", "baseline": "middle", "style": "muted", "dx": -2},
                "encoding": {
                    **{"x": {"value": "width"}, "y": y, "text": {"field": "why", "type": "nominal"}},
                    "tooltip": look.tooltip(cell="cell", why="break-even steps"),
                },
            },
        ],
    }


def _shares(lines: Sequence[_Line], x: Spec) -> dict[str, Any]:
    """Return the share of the cells that has broken even by each number of steps."""
    values = []
    for cache in _CACHES:
        known = [line for line in lines if cache in line.steps or line.never]
        steps = sorted(line.steps[cache].center for line in known if cache in line.steps)
        shares = [(steps[i], 100 * (i + 1) / len(known)) for i in look.spread_evenly(len(steps), 400)]
        values += [{"steps": n, "share": share, "cache": cache} for n, share in shares]
    used = [cache for cache in _CACHES if any(value["cache"] == cache for value in values)]
    y = {
        **{"field": "share", "type": "quantitative", "title": f"cells, of {len(lines)} (%)"},
        "scale": {"domain": [0, 100]},
    }
    same = {"field": "cache", "type": "nominal", "title": None}
    return {
        "height": 220,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.8},
        "encoding": {
            **{"x": x, "y": y, "color": {**same, "scale": {"domain": used, "range": "category"}}},
            "strokeDash": {**same, "scale": {"domain": used, "range": [[1, 0], [5, 3]][: len(used)]}},
        },
    }


def _description(summary: Summary, lines: Sequence[_Line], paying: Sequence[_Line]) -> str:
    sentences = []
    for cache in _CACHES:
        steps = sorted((line.steps[cache].center, line.label) for line in paying if cache in line.steps)
        if steps:
            told = [f"{fmt.count(count)} steps ({label})" for count, label in (steps[0], steps[-1])]
            sentences.append(
                f"With a {cache} compiling has paid off after {' to '.join(dict.fromkeys(told))}"
                f"{f' in {len(steps)} cells' if len(steps) > 1 else ''}."
            )
    never = len(lines) - len(paying)
    if never:
        sentences.append(f"It never does in {never}, which are not faster.")
    unknown = len(summary.cells) - len(lines)
    if unknown:
        sentences.append(f"Of {unknown} cells it is not known.")
    return " ".join(sentences)
