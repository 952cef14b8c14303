"""Speedups and attained fractions against the number of parameters: from which size on compiling pays.

Two panels share the axis of parameters (log). Above: the compiled step against the eager one and
against the best eager implementation, with 95 % intervals. Below: what part of the roofline floor each
arm attains. A colour for each workload, a mark for each way of compiling, a dash for what is compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis import charts_look as look
from src.analysis import format as fmt
from src.analysis.axes import Axis, axes_of, implied
from src.analysis.cells import Cell
from src.analysis.charts_look import Chart, Spec
from src.analysis.summary import Summary
from src.stats import Interval

_SIZE_AXES = ("model", "width", "depth", "bias")
_MOST_LOOKS = len(look.SHAPES)
"""Colours, and marks, that can be told apart."""

_MOST_LINES = 14
"""Lines of each kind that a panel can hold, of some workloads with every way of compiling."""

OVER_EAGER, OVER_BEST = "over eager", "over best eager"
_ARMS = ("compiled", "best eager", "eager")
_DASHES: Mapping[str, list[int]] = {
    **{OVER_EAGER: [1, 0], OVER_BEST: [5, 3]},
    **{"compiled": [1, 0], "best eager": [5, 3], "eager": [1, 3]},
}
_HOLLOW = (OVER_BEST, "best eager")

_VIEW_WIDTH = 280
"""px of each panel; with its axis it is as wide as a column of a paper."""


@dataclass(frozen=True, slots=True)
class _Series:
    """The cells of one line, from the smallest model to the largest."""

    workload: str  # optimizer and what else differs
    compiling: str  # mode and what else differs
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        return ", ".join(filter(None, (self.workload, self.compiling)))


@dataclass(frozen=True, slots=True)
class _Panel:
    """What the two panels differ in."""

    kinds: tuple[str, ...]  # of lines
    value: Callable[[Cell, str], Interval | None]
    words: Callable[[Interval], str]
    y: Spec
    reference: float


def model_sizes(summary: Summary) -> Chart | None:
    """Return the chart, None where fewer than two numbers of parameters have a speedup."""
    usable = [cell for cell in summary.cells if cell.speedup and cell.parameters]
    if len({cell.parameters for cell in usable}) < 2:
        return None
    every = _series(usable)
    compilings = list(dict.fromkeys(s.compiling for s in every))[:_MOST_LOOKS]
    most = min(max(_MOST_LINES // len(compilings), 1), _MOST_LOOKS)
    workloads = list(dict.fromkeys(s.workload for s in every))[:most]
    series = [s for s in every if s.workload in workloads and s.compiling in compilings]
    note = f"{len(series)} of {len(every)} lines" if len(series) < len(every) else ""
    panels = [_speedups(series), _attained(series)]
    panels = [
        panel for panel in panels if any(_entries(panel, s, kind) for s in series for kind in panel.kinds)
    ]
    views = [
        _view(panel, series, workloads, compilings, title="parameters" if panel is panels[-1] else None)
        for panel in panels
    ]
    spec: dict[str, Any] = {
        "$schema": look.SCHEMA,
        **look.noted([note] if note else []),
        "vconcat": views,
        "usermeta": {"stretches": True},  # a page may make the plots wider
        "spacing": 14,
        "resolve": {"legend": {"strokeDash": "independent"}, "scale": {"strokeDash": "independent"}},
    }
    return look.chart(
        "model_sizes", "Speedup and attained fraction by model size", _description(series, note), spec
    )


def _series(usable: Sequence[Cell]) -> list[_Series]:
    axes = axes_of(usable)
    followers = {*_SIZE_AXES, *implied(axes, "model"), *implied(axes, "device")}
    shown = [axis for axis in axes if axis.varies and axis.title not in followers]
    optimizer = [axis for axis in axes if axis.title == "optimizer"]
    mode = [axis for axis in axes if axis.title == "mode"]
    workload = [*optimizer, *(a for a in shown if a.kind != "compile" and a.title != "optimizer")]
    compiling = [*mode, *(a for a in shown if a.kind == "compile" and a.title != "mode")]
    groups: dict[tuple[str, str], list[Cell]] = {}
    for index, cell in enumerate(usable):
        groups.setdefault((_label(workload, index), _label(compiling, index)), []).append(cell)
    return [
        _Series(*labels, tuple(sorted(members, key=lambda cell: cell.parameters or 0)))
        for labels, members in groups.items()
    ]


def _label(axes: Sequence[Axis], index: int) -> str:
    return ", ".join(axis.labels[index] for axis in axes)


def _speedup(cell: Cell, kind: str) -> Interval | None:
    if kind == OVER_EAGER:
        return cell.speedup
    return cell.best.speedup if cell.best else None


def _fraction(cell: Cell, arm: str) -> Interval | None:
    """Return the attained fraction of an arm in per cent; the best eager one may be the eager arm."""
    name = "eager_best" if arm == "best eager" and not cell.eager_is_best else arm.removeprefix("best ")
    attained = cell.explains(f"{name}_attained")
    return None if attained is None else Interval(100 * attained, None, None)


def _speedups(series: Sequence[_Series]) -> _Panel:
    values = [_speedup(cell, kind) for s in series for cell in s.cells for kind in (OVER_EAGER, OVER_BEST)]
    scale = look.log_scale([value for value in values if value], always=[1.0])
    y = {
        "scale": scale,
        "title": "speedup of the compiled step",
        "axis": {"values": look.log_ticks(scale), "labelExpr": "format(datum.value, '.3~g') + 'x'"},
    }
    return _Panel(
        (OVER_EAGER, OVER_BEST), _speedup, lambda v: " ".join((fmt.ratio(v), fmt.bounds(v))), y, 1.0
    )


def _attained(series: Sequence[_Series]) -> _Panel:
    values = [_fraction(cell, arm) for s in series for cell in s.cells for arm in _ARMS]
    top = max([100.0, *(value.center for value in values if value)])
    y = {"scale": {"domain": [0, 1.05 * top], "nice": False}, "title": "attained fraction (%)"}
    return _Panel(_ARMS, _fraction, lambda v: f"{fmt.percent(v.center / 100)} %", y, 100.0)


def _view(
    panel: _Panel,
    series: Sequence[_Series],
    workloads: Sequence[str],
    compilings: Sequence[str],
    *,
    title: str | None,
) -> Spec:
    """Return one panel."""
    values = [entry for s in series for kind in panel.kinds for entry in _entries(panel, s, kind)]
    kinds = [kind for kind in panel.kinds if any(entry["kind"] == kind for entry in values)]
    x = {**_parameters(series), "title": title}
    y = {"field": "center", "type": "quantitative", **panel.y}
    colour = {
        **{"field": "workload", "type": "nominal", "title": "optimizer", "legend": {"columns": 1}},
        "scale": {"domain": workloads, "range": "category"},
    }
    shape = {
        **{"field": "compiling", "type": "nominal", "title": "compile mode", "legend": {"columns": 1}},
        "scale": {"domain": compilings, "range": look.SHAPES[: len(compilings)]},
    }
    dash = {
        **{"field": "kind", "type": "nominal", "title": None},
        "scale": {"domain": kinds, "range": [_DASHES[kind] for kind in kinds]},
        "legend": {"orient": "top", "offset": 2, "symbolType": "stroke", "symbolSize": 400},
    }
    shown = look.tooltip(size="parameters", label="series", kind="what", words="value")
    bars = look.with_ends(values)
    points = {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": shown}
    return {
        "width": _VIEW_WIDTH,
        "height": 190,
        "layer": [
            *(_cached(series, x) if panel.kinds == _ARMS else []),
            {
                "data": {"values": [{"center": panel.reference}]},
                "mark": {"type": "rule", "style": "reference"},
                "encoding": {"y": y},
            },
            {
                "data": {"values": values},
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "strokeDash": dash,
                    "detail": {"field": "label"},
                },
            },
            {
                "data": {"values": bars},
                "mark": {"type": "rule", "strokeWidth": 1.2},
                "encoding": {
                    **{"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
                },
            },
            {
                "data": {"values": [entry for entry in values if entry["kind"] not in _HOLLOW]},
                "mark": {"type": "point", "filled": True, "size": 36, "opacity": 1},
                "encoding": points,
            },
            {
                "data": {"values": [entry for entry in values if entry["kind"] in _HOLLOW]},
                "mark": {"type": "point", "filled": False, "size": 30, "opacity": 1},
                "encoding": points,
            },
        ],
    }


def _parameters(series: Sequence[_Series]) -> Spec:
    sizes = [cell.parameters or 0 for s in series for cell in s.cells]
    scale = {"type": "log", "domain": [min(sizes) / 1.6, max(sizes) * 1.6], "nice": False}
    return {
        **{"field": "parameters", "type": "quantitative", "scale": scale},
        "axis": {"values": look.log_ticks(scale), "format": "~s"},
    }


def _entries(panel: _Panel, series: _Series, kind: str) -> list[dict[str, Any]]:
    found = [(cell, value) for cell in series.cells if (value := panel.value(cell, kind))]
    domain = panel.y["scale"]
    return [
        {
            **{"parameters": cell.parameters, "center": value.center, **look.ends(value, domain)},
            **{"workload": series.workload, "compiling": series.compiling, "label": series.label},
            **{"kind": kind, "size": fmt.count(cell.parameters), "words": panel.words(value)},
        }
        for cell, value in found
    ]


def _cached(series: Sequence[_Series], x: Spec) -> list[Spec]:
    """Shade the sizes up to the largest that fits into the last-level cache: the floor is none there."""
    cached = [c.parameters or 0 for s in series for c in s.cells if "in_cache" in c.warnings]
    if not cached:
        return []
    low, high = x["scale"]["domain"]
    data = {"data": {"values": [{"low": low, "high": min(max(cached) * 1.5, high)}]}}
    text = {"type": "text", "style": "muted", "align": "left", "baseline": "top", "dx": 4, "dy": 18}
    return [
        {
            **data,
            "mark": {"type": "rect", "style": "shade"},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            **data,
            "mark": {**text, "text": ["fits into the", "last-level cache"]},
            "encoding": {"x": {**x, "field": "low"}, "y": {"value": 0}},
        },
    ]


def _description(series: Sequence[_Series], note: str) -> str:
    sentences = [f"Drawn are {note}."] if note else []
    for one in series[:4]:
        for kind in (OVER_EAGER, OVER_BEST):
            values = [(cell, value) for cell in one.cells if (value := _speedup(cell, kind))]
            if values:
                told = [f"{fmt.ratio(v)} at {fmt.count(cell.parameters)}" for cell, v in values]
                sentences.append(f"{one.label}, speedup {kind} by parameters: {fmt.listed(told, 12)}.")
        compiled = [(c, v) for c in one.cells if (v := _fraction(c, "compiled"))]
        if compiled:
            told = [f"{fmt.percent(v.center / 100)} % at {fmt.count(c.parameters)}" for c, v in compiled]
            sentences.append(f"Its compiled step attains of the roofline floor: {fmt.listed(told, 12)}.")
    if len(series) > 4:
        sentences.append(f"And {len(series) - 4} more lines.")
    return " ".join(sentences)
