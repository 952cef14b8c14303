"""The time of a step by arm, with what bounds it: how far each arm is from the roofline floor.

One line for each cell. A gap between the compiled step and the time its device is busy is the host's; a
gap between that and the floor is memory traffic, or arithmetic, that the update does not need.
"""

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
"""Cells above which only some, evenly spaced in the order of the table, are drawn."""

_ARMS = ("eager", "best eager", "compiled")
_BUSY, _FLOOR = "compiled: device busy", "roofline floor"
_KINDS = (*_ARMS, _FLOOR, _BUSY)
_SHAPES = {
    "eager": "circle",
    "best eager": "square",
    "compiled": "triangle-up",
    _BUSY: "stroke",
    _FLOOR: "stroke",
}
_IN_CACHE = "in_cache"
"""The warning that the floor bounds nothing."""

_S_PER_US = 1e-6


@dataclass(frozen=True, slots=True)
class _Line:
    """One cell."""

    label: str
    times: Mapping[str, Interval]  # us, by `_KINDS`
    bound: str  # of the compiled arm, empty when not known


def times(summary: Summary) -> Chart | None:
    """Return the chart, None where no cell has a time."""
    timed = [(i, cell) for i, cell in enumerate(summary.cells) if cell.eager and cell.compiled]
    if not timed:
        return None
    drawn = [timed[i] for i in look.spread_evenly(len(timed), _MOST_CELLS)]
    note = f"{len(drawn)} of {len(timed)} cells" if len(drawn) < len(timed) else ""
    lines = [_line(summary, index, cell) for index, cell in drawn]
    spec = {
        "$schema": look.SCHEMA,
        **look.noted([note] if note else []),
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **_spec(lines),
    }
    return look.chart("times", "Time of a step", _description(lines, note), spec)


def _line(summary: Summary, index: int, cell: Cell) -> _Line:
    compiled = cell.why.arms.get("compiled")
    found = {
        "eager": cell.eager,
        "best eager": None if cell.best is None or cell.eager_is_best else cell.best.us,
        "compiled": cell.compiled,
        _BUSY: _exact(compiled.device_us if compiled else None),
        _FLOOR: _exact(None if _IN_CACHE in cell.warnings else cell.why.floor_us),
    }
    return _Line(
        look.cell_name(summary, index),
        {kind: value for kind, value in found.items() if value is not None and value.center > 0},
        " or ".join(map(fmt.plain, compiled.bounds)) if compiled else "",
    )


def _exact(us: float | None) -> Interval | None:
    return None if us is None else Interval(us, None, None)


def _spec(lines: Sequence[_Line]) -> dict[str, Any]:
    seconds = [{kind: _scaled(value) for kind, value in line.times.items()} for line in lines]
    scale = look.log_scale(value for line in seconds for value in line.values())
    values = [
        {
            **{"line": number, "time": value.center, **look.ends(value, scale), "kind": kind},
            **{"cell": line.label, "bound": line.bound or fmt.NONE},
            "words": f"{fmt.time_s(value.center)} {fmt.half_width(value)}".strip(),
        }
        for number, (line, times) in enumerate(zip(lines, seconds, strict=True))
        for kind, value in times.items()
    ]
    bounded = any(line.bound for line in lines)
    x = {
        **{
            "field": "time",
            "type": "quantitative",
            "scale": scale,
            "title": "time of a step (lower is better)",
        },
        "axis": {
            "values": look.log_ticks(scale),
            "labelExpr": "replace(format(datum.value, '~s'), 'µ', 'u') + 's'",
        },
    }
    y = {"field": "line", "type": "ordinal", "scale": look.lines_scale(len(lines))}
    left = {**y, "axis": look.lines_axis("names", grid=True)}
    bare = {**y, "axis": None}
    right = {
        **y,
        "axis": {
            **look.lines_axis("bounds", orient="right", labelLimit=80),
            **{"title": "compiled is bound by", "titleFontSize": 10},
        },
    }
    return {
        "height": len(lines) * 20,
        "params": [
            {"name": "names", "value": [look.short(line.label) for line in lines]},
            {"name": "bounds", "value": [line.bound for line in lines]},
        ],
        "resolve": {"axis": {"y": "independent"}},
        "layer": _layers(values, x, left, right if bounded else bare, bare),
    }


def _layers(values: Sequence[Spec], x: Spec, left: Spec, right: Spec, bare: Spec) -> list[Spec]:
    used = [kind for kind in _KINDS if any(value["kind"] == kind for value in values)]
    kind = {"field": "kind", "type": "nominal", "title": None, "legend": {"columns": 2}}
    colour = {**kind, "scale": {"domain": _KINDS, "range": "ramp"}, "legend": {"columns": 2, "values": used}}
    shape = {**colour, "scale": {"domain": _KINDS, "range": [_SHAPES[kind] for kind in _KINDS]}}
    shown = look.tooltip(cell="cell", kind="what", words="time of a step", bound="compiled is bound by")
    points = {"x": x, "color": colour, "tooltip": shown}
    return [
        {
            "data": {"values": [v for v in values if v["kind"] in (_BUSY, _FLOOR)]},
            "mark": {"type": "tick", "thickness": 2.5, "height": 12, "opacity": 1},
            "encoding": {**points, "y": left},
        },
        {
            "data": {"values": look.with_ends(values)},
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": bare, "color": colour},
        },
        {
            "data": {"values": [v for v in values if v["kind"] in _ARMS]},
            "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1},
            "encoding": {**points, "y": right, "shape": shape},
        },
    ]


def _scaled(us: Interval) -> Interval:
    low, high = (None if end is None else end * _S_PER_US for end in (us.low, us.high))
    return Interval(us.center * _S_PER_US, low, high)


def _description(lines: Sequence[_Line], note: str) -> str:
    told = [
        f"{line.label}: "
        + ", ".join(f"{kind} {fmt.time_us(value.center)}" for kind, value in line.times.items())
        for line in lines
    ]
    return " ".join(filter(None, (f"Drawn are {note}." if note else "", f"{fmt.listed(told, 8)}.")))
