"""A comparison in words: tables of short texts, with every doubt as a numbered footnote."""

import textwrap
from collections.abc import Sequence

from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.changes import IMPROVEMENT, ORDER, REGRESSION, UNTESTED, Change, Comparison
from src.analysis.changes_estimates import METRICS, Measured, Metric, measured
from src.analysis.changes_traces import WHAT, recompiles_of, states_of
from src.analysis.changes_words import head, remarks
from src.analysis.document import Column, Document, Entry, Footnotes, Grid, Line
from src.analysis.doubts import warnings_of
from src.analysis.summary import Summary
from src.stats import Interval

_WORDS_WIDTH = 24  # of a cause in a narrow table

_BASE = Column("base", ("base",), number=True)
_NEW = Column("new", ("new",), number=True)
_CHANGE = Column("new / base", ("new /", "base"), number=True)
_VERDICT = Column("verdict", ("verdict",), number=False)


def document_of(comparison: Comparison, filters: Sequence[str] = (), most: int | None = None) -> Document:
    """Return the words of a comparison.

    Args:
        comparison: what there is to say.
        filters: the conditions that its rows met.
        most: lines of a table for whose making there is time; None makes all.
    """
    notes = Footnotes()
    grids = [
        _table(comparison, notes, most),
        _geomean(comparison),
        _recompiles(comparison, most),
        _states(comparison, notes),
    ]
    return Document(
        title=f"Change of {comparison.metric.name}: {_sweeps(comparison.base)} -> {_sweeps(comparison.new)}",
        head=head(comparison, filters),
        grids=tuple(grid for grid in grids if grid.lines),
        remarks=remarks(comparison),
        footnotes=notes.texts(),
    )


def percent(interval: Interval) -> Entry:
    """Return a ratio as what it is above or below 1 in per cent, with the ends of its interval."""
    ends = [end for end in (interval.low, interval.high) if end is not None]
    width = 100 * (max(ends) - min(ends)) if ends else 1.0
    decimals = 2 if width < 1 else 1 if width < 100 else 0

    def signed(ratio: float) -> str:
        text = f"{100 * (ratio - 1):+.{decimals}f}"
        return text if float(text) else text.lstrip("+-")

    center = f"{signed(interval.center)} %"
    return (center, f"[{', '.join(map(signed, ends))}]") if ends else (center,)


def _sweeps(side: Summary) -> str:
    if len(side.sweeps) > 1:
        return f"{len(side.sweeps)} sweeps"
    return f"sweep {fmt.shorten(str(side.sweeps[0]), 60)}"


def _shown(comparison: Comparison) -> list[Change]:
    """Return the matched cells that have the metric on a side, the worst first."""
    present = [c for c in comparison.changes if c.base is not None or c.new is not None]

    def rank(change: Change) -> tuple[int, float]:
        size = abs(change.ratio.center - 1) if change.ratio else 0.0
        moved = change.verdict in (REGRESSION, IMPROVEMENT)
        return ORDER.index(change.verdict), -size if moved else 0.0

    return sorted(present, key=rank)


def _table(comparison: Comparison, notes: Footnotes, most: int | None) -> Grid:
    shown = _shown(comparison)
    lines = tuple(
        Line(
            change.labels,
            (
                _set(change.base, comparison.metric),
                _set(change.new, comparison.metric),
                percent(change.ratio) if change.ratio else (fmt.NONE,),
                _verdict(change),
            ),
            tuple(notes.add(text) for text in _doubts(change, _moved(change, comparison.metric))),
        )
        for change in shown[:most]
    )
    columns = (_BASE, _NEW, _CHANGE, _VERDICT)
    return Grid("", comparison.axes, columns, lines, left_out=len(shown) - len(lines))


def _set(number: Measured | None, metric: Metric) -> Entry:
    """Return a number of a metric with the interval that is good for other processes too."""
    if number is None:
        return (fmt.NONE,)
    interval = number.estimate.interval() if number.estimate else Interval(number.center, None, None)
    if not metric.arm:
        return tuple(filter(None, (fmt.ratio(interval), fmt.bounds(interval))))
    text = (fmt.time_s if metric.name.endswith("_s") else fmt.time_us)(number.center)
    return tuple(filter(None, (text, fmt.half_width(interval))))


def _verdict(change: Change) -> Entry:
    return tuple(change.verdict.split(" "))


def _moved(change: Change, metric: Metric) -> list[str]:
    """Return the times behind a ratio that changed, to tell which of its arms moved."""
    if change.verdict not in (REGRESSION, IMPROVEMENT) or metric.arm:
        return []
    eager = METRICS["eager_best_us" if metric.name == "speedup_vs_best" else "eager_us"]
    words = []
    for time in (eager, METRICS["compiled_us"]):
        sides = [measured(cell.measured, time) for cell in (change.base_cell, change.new_cell)]
        shown = [" ".join(_set(side, time)) for side in sides]
        words.append(f"{time.arm.replace('_', ' ')} {shown[0]} -> {shown[1]}")
    return [f"the times behind it: {', '.join(words)} (of different processes)"]


def _doubts(change: Change, moved: list[str]) -> list[str]:
    """Return what must be known of either side, once where it is the same of both."""
    sides = {"base": _side_doubts(change.base_cell), "new": _side_doubts(change.new_cell)}
    first = [f"untested: {change.reason}"] if change.verdict == UNTESTED else moved
    both = [text for text in sides["base"] if text in sides["new"]]
    alone = [f"{side}: {text}" for side, texts in sides.items() for text in texts if text not in both]
    return first + [f"both: {text}" for text in both] + alone


def _side_doubts(cell: Cell) -> list[str]:
    return [*(fmt.shorten(text, 240) for text in cell.reasons), *warnings_of(cell)]


def _geomean(comparison: Comparison) -> Grid:
    if comparison.geomean is None:
        return Grid("", (), (_CHANGE,), ())
    total = len(comparison.changes)
    line = Line((), (percent(comparison.geomean), (f"{comparison.covered} of {total}",)), ())
    columns = (_CHANGE, Column("cells", ("cells",), number=True))
    return Grid(
        "Geomean of the changes over cells that both sides measured without fault", (), columns, (line,)
    )


def _recompiles(comparison: Comparison, most: int | None) -> Grid:
    pairs = (
        (change.labels, recompiles_of(change.base_cell, change.new_cell)) for change in comparison.changes
    )
    changed = sorted(
        ((labels, found) for labels, found in pairs if found), key=lambda change: not change[1].more
    )
    lines = tuple(
        Line(
            labels,
            ((fmt.count_range(found.base),), (fmt.count_range(found.new),), _words(found.cause)),
            (),
        )
        for labels, found in changed[:most]
    )
    columns = (_BASE, _NEW, Column("why", ("why",), number=False))
    title = "Recompiles that changed"
    return Grid(title, comparison.axes, columns, lines, left_out=len(changed) - len(lines))


def _states(comparison: Comparison, notes: Footnotes) -> Grid:
    """Return one line for each thing that changed alike, with the cells in which it did."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for change in comparison.changes:
        label = ", ".join(change.labels) or "the only cell"
        for state in states_of(change.base_cell, change.new_cell):
            found.setdefault((state.what, state.base, state.new), []).append((label, state.reason))
    lines = [
        Line((what,), (_words(base), _words(new), (str(len(cells)),)), (notes.add(_where(cells)),))
        for (what, base, new), cells in sorted(found.items(), key=lambda item: WHAT.index(item[0][0]))
    ]
    words = (Column(title, (title,), number=False) for title in ("base", "new"))
    columns = (*words, Column("cells", ("cells",), number=True))
    return Grid("Other things that changed", ("what",), columns, tuple(lines))


def _where(cells: Sequence[tuple[str, str]]) -> str:
    """Return the first cells, each with its reason where one is known."""
    return "in " + fmt.listed([f"{label} ({reason})" if reason else label for label, reason in cells], 3)


def _words(text: str) -> Entry:
    """Return words that a narrow table may put on several lines."""
    return tuple(textwrap.wrap(text, _WORDS_WIDTH)) or (fmt.NONE,)
