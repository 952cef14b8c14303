"""The recompile matrix as a heat map: which optimizer with which scheduler compiles anew, at a glance.

The same places and the same marks as the matrix of texts; a panel for each kind of learning rate and
for each combination of what else varies.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis import charts_look as look
from src.analysis import format as fmt
from src.analysis import marks, matrix
from src.analysis.axes import Axis
from src.analysis.cells import Cell
from src.analysis.charts_look import Chart, Spec
from src.analysis.grid import steps_words
from src.analysis.recompiles import main_cause
from src.analysis.summary import Summary

_MOST_PANELS, _MOST_SIDE = 6, 40
"""Panels, and lines or columns of one, above which those after them are left out."""

_FILLS = {
    **dict(zip(marks.COUNTS, ("#dcebf7", "#a9cfe8", "#5f9fd0", "#20619f"), strict=True)),
    **{marks.FALLBACK: "#c8500a", marks.ENDLESS: "#f2a65a", marks.NOTHING: "#b9bec5"},
    **{marks.WRONG: "#5b2a6e", marks.FAILED: "#a3548f", marks.IMPOSSIBLE: "#e9eaec"},
    marks.UNCOUNTED: "#ffffff",
}
"""Colour of each kind, the same on any background: every entry brings its own."""

_WHITE_TEXT = (marks.COUNTS[-1], marks.FALLBACK, marks.WRONG, marks.FAILED)
_PARTLY = "n~"
_PARTLY_WORDS = " (~ part of the step ran outside the graphs)"


@dataclass(frozen=True, slots=True)
class _Panel:
    """One heat map."""

    title: str
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    places: Mapping[tuple[str, str], tuple[Cell, ...]]  # by line and column


def recompiles(summary: Summary) -> Chart | None:
    """Return the heat map, None where the rows make no matrix of recompiles."""
    if not matrix.has_matrix(summary):
        return None
    across, sides, _ = matrix.layout(summary)
    panels = _panels(summary)
    shown = panels[:_MOST_PANELS]
    notes = [f"{len(shown)} of {len(panels)} panels"] if len(shown) < len(panels) else []
    if any(max(len(panel.lines), len(panel.columns)) > _MOST_SIDE for panel in shown):
        notes.append(f"the first {_MOST_SIDE} lines and columns of each panel")
    kinds = Counter(marks.kind(cells) for panel in panels for cells in panel.places.values())
    spec = {
        "$schema": look.SCHEMA,
        **look.noted(notes),
        "spacing": 16,
        "vconcat": [_view(panel, across, sides[0], kinds) for panel in shown],
    }
    title = f"Recompiles by {sides[0].title} and {across.title}"
    return look.chart("recompiles", title, _description(summary, panels, kinds, notes), spec)


def _panels(summary: Summary) -> list[_Panel]:
    across, sides, groups = matrix.layout(summary)
    panels: dict[str, dict[tuple[str, str], list[Cell]]] = {}
    for title, members in groups.items():
        for index in members:
            more = [f"{axis.title}={axis.labels[index]}" for axis in sides[1:]]
            places = panels.setdefault(", ".join(filter(None, (title, *more))), {})
            place = (sides[0].labels[index], across.labels[index])
            places.setdefault(place, []).append(summary.cells[index])
    columns = {title: {column for _, column in places} for title, places in panels.items()}
    return [
        _Panel(
            title,
            tuple(dict.fromkeys(line for line, _ in places)),
            tuple(name for name in across.values if name in columns[title]),
            {place: tuple(cells) for place, cells in places.items()},
        )
        for title, places in panels.items()
    ]


def _view(panel: _Panel, across: Axis, side: Axis, kinds: Counter[str]) -> Spec:
    lines, columns = panel.lines[:_MOST_SIDE], panel.columns[:_MOST_SIDE]
    entries = [
        _entry(panel.places[line, column], line, column) for line in lines for column in columns
        if (line, column) in panel.places
    ]  # fmt: skip
    longest = max(len(entry["text"]) for entry in entries)
    x = {
        **{"field": "column", "type": "nominal", "scale": {"domain": columns, "padding": 0.04}},
        "axis": {"orient": "top", "labelAngle": -45, "title": None, "ticks": False, "domain": False},
    }
    y = {
        **{"field": "line", "type": "nominal", "scale": {"domain": lines, "padding": 0.06}},
        "axis": {"title": None, "ticks": False, "domain": False},
    }
    used = [kind for kind in marks.KINDS if kinds[kind]]
    partly = any(entry["partly"] for entry in entries)
    fill = {
        **{"field": "kind", "type": "nominal", "title": "recompiles" + _PARTLY_WORDS * partly},
        "scale": {"domain": used, "range": [_FILLS[kind] for kind in used]},
        "legend": {
            "columns": 3 if len(columns) > 9 else 2,
            "symbolType": "square",
            "symbolSize": 90,
            "symbolStrokeWidth": 0,
        },
    }
    shown = look.tooltip(
        line=side.title, column=across.title, text="mark", kind="recompiles", meaning="meaning", cause="why"
    )
    colour = {"condition": {"test": "datum.light", "value": "#ffffff"}, "value": "#1f2328"}
    return {
        **({"title": {"text": panel.title, "frame": "group"}} if panel.title else {}),
        "data": {"values": entries},
        "width": {"step": max(22, min(6 * longest + 6, 60))},
        "height": {"step": 18},
        "layer": [
            {"mark": {"type": "rect"}, "encoding": {"x": x, "y": y, "fill": fill, "tooltip": shown}},
            {
                "mark": {"type": "text", "fontSize": 9, "baseline": "middle", "tooltip": None, "limit": 58},
                "encoding": {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}, "color": colour},
            },
        ],
    }


def _entry(cells: Sequence[Cell], line: str, column: str) -> dict[str, Any]:
    text, used = marks.entry(cells)
    kind = marks.kind(cells)
    causes = [
        cause for cell in cells if cell.trace.recompiles != (0, 0) and (cause := main_cause(cell.trace))
    ]
    bad = [reason for cell in cells for reason in cell.reasons]
    return {
        **{"line": line, "column": column, "text": text, "kind": kind, "light": kind in _WHITE_TEXT},
        "partly": _PARTLY in used,
        "meaning": "; ".join(meaning for mark, meaning in marks.LEGEND.items() if mark in used),
        "cause": fmt.shorten("; ".join(dict.fromkeys((*bad, *causes))), 240) or fmt.NONE,
    }


def _description(
    summary: Summary, panels: Sequence[_Panel], kinds: Counter[str], notes: Sequence[str]
) -> str:
    total = sum(kinds.values())
    steps = steps_words(summary)
    told = ", ".join(f"{kind}: {kinds[kind]}" for kind in marks.KINDS if kinds[kind])
    causes = Counter(
        cause for cell in summary.cells
        if cell.trace.recompiles != (0, 0) and (cause := main_cause(cell.trace))
    )  # fmt: skip
    sentences = [
        f"{total} combinations in {len(panels)} {'panel' if len(panels) == 1 else 'panels'}; "
        f"recompiles{f' over {steps}' if steps else ''}, and how many have them: {told}.",
        *(f"Drawn are {note}." for note in notes),
    ]
    if causes:
        cause, count = causes.most_common(1)[0]
        sentences.append(f"Commonest, in {count}: {cause}.")
    return " ".join(sentences)
