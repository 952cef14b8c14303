"""What every chart has in common: colours, fonts, scales and the words on them.

A chart is a plain Vega-Lite specification. Texts of rows enter it as data alone: values of a data
set, of a parameter or of a scale's domain, never an expression, a field's name or a format.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis.summary import Summary
from src.stats import Interval

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot, for a page and for print."""

    name: str  # of its files
    title: str  # one line
    description: str  # what is seen, in numbers, for who cannot see it
    spec: Spec  # a whole Vega-Lite specification with its data; colours and fonts come from `config`


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

_INK = {False: "#1f2328", True: "#e6e8eb"}
_MUTED = {False: "#5b6470", True: "#a4acb6"}
_LINES = {False: "#e2e5e9", True: "#343a42"}
BACKGROUND: Mapping[bool, str] = {False: "#ffffff", True: "#16191d"}
"""Colour behind a chart, by whether it is dark."""

CATEGORIES: Mapping[bool, tuple[str, ...]] = {
    False: ("#0072b2", "#d55e00", "#04a561", "#9003c4", "#7f642f", "#2c95ff", "#6e7681"),
    True: ("#4fa8de", "#ef7d2d", "#13785d", "#c528e6", "#f5d49f", "#79ebfe", "#9aa3ad"),
}
"""Colours of series, which people tell apart who see no red, no green or no blue too. They begin with the
blue and the vermilion of Okabe and Ito (Color Universal Design, 2008), lighter on a dark background; the
others were found by a search for the largest least difference (tests/analysis/test_charts_look.py)."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
"""Marks by way of compiling."""

VERDICTS = ("faster", "no difference", "slower", "geomean")
VERDICT_SHAPES = ("triangle-up", "circle", "triangle-down", "diamond")
"""What `config` gives the colours of its range `diverging` to, in this order."""


def chart(name: str, title: str, description: str, spec: Spec) -> Chart:
    """Return a chart whose specification is plain JSON data: lists, and numbers that are finite.

    Raises:
        ValueError: a number is not finite.
    """
    return Chart(name, title, description, json.loads(json.dumps(spec, allow_nan=False)))


FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"

_SPEAKING = ("model", "dtype", "optimizer", "scheduler", "lr", "backend", "mode", "gpu")
"""Axes whose values speak for themselves."""

_CLIP = 4.0
"""An interval may widen a scale beyond the outermost centre by this factor; what is further is cut off."""


def config(*, dark: bool) -> dict[str, Any]:
    """Return Vega-Lite's `config` for a light or a dark background; sizes are in px."""
    ink, muted, lines = _INK[dark], _MUTED[dark], _LINES[dark]
    category = CATEGORIES[dark]
    return {
        "background": BACKGROUND[dark],
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None, "fill": None},
        "range": {
            "category": list(category),
            "diverging": [category[0], category[6], category[1], ink],
            "ramp": [category[1], category[2], category[0], ink, category[5]],
        },
        "axis": {
            **{"labelColor": ink, "titleColor": ink, "tickColor": muted, "domainColor": muted},
            **{"gridColor": lines, "labelFontSize": 10, "titleFontSize": 11, "titleFontWeight": "normal"},
            **{"labelLimit": 200, "tickSize": 4},
        },
        # From the right, where a long title has the width of the labels too.
        "axisX": {"titleAnchor": "end", "titleAlign": "right"},
        "legend": {
            **{"labelColor": ink, "titleColor": muted, "labelFontSize": 10, "titleFontSize": 10},
            **{"titleFontWeight": "normal", "labelLimit": 220, "symbolStrokeWidth": 1.5, "rowPadding": 1},
            **{"symbolBaseFillColor": ink, "symbolBaseStrokeColor": ink},
            **{"symbolOpacity": 1, "symbolSize": 50, "columnPadding": 8},
            **{"orient": "bottom", "offset": 8, "padding": 0, "titlePadding": 4, "titleLimit": 400},
        },
        "title": {
            **{"color": ink, "subtitleColor": muted, "fontSize": 11, "subtitleFontSize": 10},
            **{"anchor": "start", "fontWeight": "bold", "offset": 6},
        },
        "text": {"color": ink, "fontSize": 10},
        "style": {
            "reference": {"color": muted, "strokeWidth": 1.2},
            "limit": {"color": muted, "strokeDash": [5, 3], "strokeWidth": 1.2},
            "muted": {"color": muted},
            "bulk": {"color": category[0], "opacity": 0.55},
            "shade": {"color": muted, "opacity": 0.15},
        },
    }


def log_scale(values: Iterable[Interval], always: Iterable[float] = ()) -> dict[str, Any]:
    """Return a scale that shows the centres, `always`, and intervals as far as they are of use.

    Raises:
        ValueError: there is neither a value nor anything that is always shown.
    """
    values = list(values)
    centers = [value.center for value in values] + list(always)
    low, high = min(centers), max(centers)
    ends = [end for value in values for end in (value.low, value.high) if end is not None]
    shown = [end for end in ends if low / _CLIP <= end <= high * _CLIP]
    low, high = min([low, *shown]), max([high, *shown])
    margin = max((high / low) ** 0.04, 1.01)
    return {"type": "log", "base": 2, "domain": [low / margin, high * margin], "nice": False}


def log_ticks(scale: Spec) -> list[float]:
    """Return four to seven round numbers on a scale of `log_scale`, fewer where there are none."""
    low, high = scale["domain"]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    within = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
    kinds = [
        [10.0**k for k in decades if k % 3 == 0],
        *([m * 10.0**k for k in decades for m in kind] for kind in within),
        *([1 + step * n for n in range(-20, 21)] for step in (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)),
    ]
    ticks = [[round(t, 9) for t in kind if low <= t <= high] for kind in kinds]
    few = [fitting for fitting in ticks if len(fitting) <= 7]
    return next((fitting for fitting in few if len(fitting) >= 4), max(few, key=len, default=[]))


def ends(value: Interval, scale: Spec) -> dict[str, float | None]:
    """Return the ends of an interval as `low` and `high`, cut off at those of the scale; None without."""
    low, high = scale["domain"]
    return {
        "low": None if value.low is None else min(max(value.low, low), high),
        "high": None if value.high is None else max(min(value.high, high), low),
    }


def lines_axis(names: str, *, heads: str | None = None, **more: Any) -> dict[str, Any]:
    """Return an axis whose labels are the texts of the parameter `names`, by number of the line.

    A text of a row is then never part of an expression. Those that `heads` says are printed bold.
    """
    weight = {"condition": {"test": f"{heads}[datum.value]", "value": "bold"}, "value": "normal"}
    return {
        **{"labelExpr": f"{names}[datum.value]", "title": None, "ticks": False, "domain": False},
        **({"labelFontWeight": weight} if heads else {}),
        **more,
    }


def lines_scale(count: int) -> dict[str, Any]:
    """Return the scale of numbered lines below each other."""
    return {"domain": list(range(count)), "paddingInner": 0.15, "paddingOuter": 0.1}


def with_ends(values: Iterable[Spec]) -> list[Spec]:
    """Return those of the values that have an interval, as `ends` gives it."""
    return [value for value in values if value["low"] is not None and value["high"] is not None]


def noted(notes: Sequence[str]) -> dict[str, Any]:
    """Return the part of a specification that says above a chart what it leaves out, if anything."""
    return {"title": {"text": list(notes), "fontWeight": "normal"}} if notes else {}


def tooltip(**titles: str) -> list[dict[str, str]]:
    """Return a tooltip of fields, each with its title; all are words."""
    return [{"field": name, "type": "nominal", "title": title} for name, title in titles.items()]


def cell_name(summary: Summary, index: int) -> str:
    """Return the labels of a cell on the axes that vary, those with a name that say nothing without it."""
    named = (
        axis.labels[index] if axis.title in _SPEAKING else f"{axis.title}={axis.labels[index]}"
        for axis in summary.shown
    )  # fmt: skip
    return ", ".join(named) or "the only cell"


def short(text: str, most: int = 34) -> str:
    """Return a label of at most `most` characters; a long one is cut in the middle, keeping its ends."""
    if len(text) <= most:
        return text
    head = (most - 1) * 3 // 5
    return f"{text[:head]}\u2026{text[len(text) - (most - 1 - head) :]}"


def spread_evenly(count: int, most: int) -> Sequence[int]:
    """Return at most `most` of the numbers below `count`, evenly spaced from the first to the last."""
    if count <= most:
        return range(count)
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
