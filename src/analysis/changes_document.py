"""A comparison in words: tables of short texts, with every doubt as a numbered footnote."""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from src.analysis import format as fmt
from src.analysis.axes import USUAL
from src.analysis.cells import OK, TRACED, Cell
from src.analysis.changes import (
    FAMILY,
    IMPROVEMENT,
    NO_CHANGE,
    REGRESSION,
    UNTESTED,
    Change,
    Comparison,
    Difference,
)
from src.analysis.changes_estimates import PROCESS_SPREAD, Measured
from src.analysis.changes_traces import WHAT, recompiles_of, same_steps, states_of
from src.analysis.document import Column, Document, Entry, Footnotes, Grid, Line
from src.analysis.doubts import warnings_of
from src.analysis.summary import Summary
from src.stats import Interval

_WORDS_WIDTH = 24

_ORDER = (REGRESSION, IMPROVEMENT, UNTESTED, NO_CHANGE)

_BASE = Column("base", ("base",), number=True)
_NEW = Column("new", ("new",), number=True)
_CHANGE = Column("new / base", ("new /", "base"), number=True)
_VERDICT = Column("verdict", ("verdict",), number=False)


def document_of(comparison: Comparison, filters: Sequence[str] = ()) -> Document:
    """Return the words of a comparison; `filters` are the conditions that its rows met."""
    notes = Footnotes()
    grids = [
        _table(comparison, notes),
        _geomean(comparison),
        _recompiles(comparison),
        _states(comparison, notes),
    ]
    return Document(
        title=f"Change of {comparison.metric.name}: {_sweeps(comparison.base)} -> {_sweeps(comparison.new)}",
        head=_head(comparison, filters),
        grids=tuple(grid for grid in grids if grid.lines),
        remarks=_remarks(comparison),
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


def _sweeps(summary: Summary) -> str:
    if len(summary.sweeps) > 1:
        return f"{len(summary.sweeps)} sweeps"
    return f"sweep {fmt.shorten(str(summary.sweeps[0]), 60)}"


def _head(comparison: Comparison, filters: Sequence[str]) -> tuple[str, ...]:
    lines = [f"Base: {_runs(comparison.base)}. New: {_runs(comparison.new)}."]
    if filters:
        lines.append("Only rows with " + ", ".join(map(fmt.plain, filters)) + ".")
    numbers = [f"{_counted(len(comparison.changes), 'cell')} on both sides"]
    if comparison.vanished:
        numbers.append(f"{len(comparison.vanished)} in the base alone")
    if comparison.appeared:
        numbers.append(f"{len(comparison.appeared)} in the new side alone")
    lines.append(", ".join(numbers) + ".")
    if comparison.changes:
        lines.append(_differs(comparison))
    same = [f"{title}={value}" for title, value in comparison.constant if _telling(title, value)]
    if same:
        lines.append("The same in all: " + ", ".join(same) + ".")
    if _shown(comparison):
        lines.append(_method(comparison))
        lines.append(_counts(comparison))
    return tuple(lines)


def _runs(summary: Summary) -> str:
    outcomes = Counter(outcome for cell in summary.cells for outcome in cell.outcomes)
    counts = ", ".join(f"{n} {fmt.plain(kind).replace('_', ' ')}" for kind, n in outcomes.items())
    return f"{_counted(summary.rows, 'run')} in {_counted(len(summary.cells), 'cell')} ({counts})"


def _telling(title: str, value: str) -> bool:
    return value not in ("null", fmt.NONE) and (title, value) not in USUAL


def _differs(comparison: Comparison) -> str:
    """Return the facts that differ, with the number of cells where it is not all of them."""
    total = len(comparison.changes)
    words = []
    for fact in comparison.differs:
        some = f" (in {fact.pairs} of {total} cells)" if fact.pairs not in (None, total) else ""
        words.append(f"{fmt.plain(fact.name)} {_values(fact, fact.base)} -> {_values(fact, fact.new)}{some}")
    return (
        "Differs: " + "; ".join(words) + "."
        if words
        else "No recorded fact of the machine or versions differs."
    )


def _values(fact: Difference, values: Sequence[Any]) -> str:
    if not values:
        return "unknown" if "." in fact.name else "null"
    if fact.name == "stepsweep_commit":
        values = [re.sub(r"^([0-9a-f]{9})[0-9a-f]*", r"\1", str(value)) for value in values]
    shown = [f"{v:g}" if isinstance(v, float) else fmt.shorten(fmt.value(v), 60) for v in values[:3]]
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return ", ".join(shown) + more


def _method(comparison: Comparison) -> str:
    effects = sorted({change.min_effect for change in comparison.changes if change.p is not None})
    metric = comparison.metric
    better = "more" if metric.more_is_better else "less"
    words = f"{metric.name}: {metric.words}; {better} is better. Changes are new / base with 95 % intervals."
    if not effects:
        return words
    limits = " to ".join(dict.fromkeys(f"{100 * effect:g} %" for effect in (effects[0], effects[-1])))
    family = f" by Holm's rule for {comparison.tested} tested cells" if comparison.tested > 1 else ""
    return (
        f"{words} A regression or an improvement is a change of more than min_effect ({limits}) at "
        f"{100 * FAMILY:.0f} %{family}: where nothing changed, one is told in {100 * FAMILY:.0f} % of all "
        "comparisons at most."
    )


def _counts(comparison: Comparison) -> str:
    counts = Counter(change.verdict for change in comparison.changes)
    words = [f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict]]
    return "Verdicts: " + ", ".join(words) + "."


def _shown(comparison: Comparison) -> list[Change]:
    """Return the matched cells that have the metric on a side, the worst first."""
    present = [c for c in comparison.changes if c.base is not None or c.new is not None]

    def rank(change: Change) -> tuple[int, float]:
        size = abs(change.ratio.center - 1) if change.ratio else 0.0
        moved = change.verdict in (REGRESSION, IMPROVEMENT)
        return _ORDER.index(change.verdict), -size if moved else 0.0

    return sorted(present, key=rank)


def _table(comparison: Comparison, notes: Footnotes) -> Grid:
    shown = _number(comparison)
    lines = tuple(
        Line(
            change.labels,
            (
                shown(change.base),
                shown(change.new),
                percent(change.ratio) if change.ratio else (fmt.NONE,),
                _verdict(change),
            ),
            tuple(notes.add(text) for text in _doubts(change)),
        )
        for change in _shown(comparison)
    )
    return Grid("", comparison.axes, (_BASE, _NEW, _CHANGE, _VERDICT), lines)


def _number(comparison: Comparison) -> Callable[[Measured | None], Entry]:
    """Return what sets a number of the metric, with the interval that is good for other processes too."""
    name = comparison.metric.name

    def entry(measured: Measured | None) -> Entry:
        if measured is None:
            return (fmt.NONE,)
        interval = (
            measured.estimate.interval() if measured.estimate else Interval(measured.center, None, None)
        )
        if not comparison.metric.arm:
            return tuple(filter(None, (fmt.ratio(interval), fmt.bounds(interval))))
        text = (fmt.time_s if name.endswith("_s") else fmt.time_us)(measured.center)
        return tuple(filter(None, (text, fmt.half_width(interval))))

    return entry


def _verdict(change: Change) -> Entry:
    return tuple(change.verdict.split(" "))


def _doubts(change: Change) -> list[str]:
    """Return what must be known of either side, once where it is the same of both."""
    sides = {"base": _side_doubts(change.base_cell), "new": _side_doubts(change.new_cell)}
    untested = [f"untested: {change.reason}"] if change.verdict == UNTESTED else []
    both = [text for text in sides["base"] if text in sides["new"]]
    alone = [f"{side}: {text}" for side, texts in sides.items() for text in texts if text not in both]
    return untested + [f"both: {text}" for text in both] + alone


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


def _recompiles(comparison: Comparison) -> Grid:
    lines = []
    for change in comparison.changes:
        found = recompiles_of(change.base_cell, change.new_cell)
        if found:
            counts = (fmt.count_range(found.base),), (fmt.count_range(found.new),)
            lines.append((not found.more, Line(change.labels, (*counts, _words(found.cause)), ())))
    lines.sort(key=lambda line: line[0])
    columns = (_BASE, _NEW, Column("why", ("why",), number=False))
    return Grid("Recompiles that changed", comparison.axes, columns, tuple(line for _, line in lines))


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


def _remarks(comparison: Comparison) -> tuple[str, ...]:
    changes, metric = comparison.changes, comparison.metric
    remarks = []
    if not changes:
        remarks.append(_nothing_common(comparison))
    absent = sum(c.base is None and c.new is None for c in changes)
    if absent:
        whole = absent == len(changes)
        which = (
            "No matched cell has"
            if whole
            else f"Not in the table: {_counted(absent, 'matched cell')} without"
        )
        remarks.append(f"{which} {metric.name} on either side.")
    if any(m and m.assumed and not metric.arm for c in changes for m in (c.base, c.new)):
        remarks.append(
            "Rows of one process from before process_spread was recorded are taken to have "
            f"{100 * PROCESS_SPREAD['cuda']:g} % on a GPU and {100 * PROCESS_SPREAD['cpu']:g} % on a CPU."
        )
    if metric.arm and changes:
        remarks.append(
            "Times of different processes: the intervals know by how much a run of the same step was seen to "
            "differ from another, which rows do not tell (docs/method.md). Prefer speedups."
        )
    remarks += _about_recompiles(comparison)
    for side, cells in (("the base", comparison.vanished), ("the new side", comparison.appeared)):
        if cells and changes:
            names = [f"{label or 'the only cell'}{_outcome(cell)}" for label, cell in cells]
            remarks.append(f"In {side} alone ({len(cells)}): {fmt.listed(names)}.")
    return tuple(remarks)


def _about_recompiles(comparison: Comparison) -> list[str]:
    counted = [c for c in comparison.changes if c.base_cell.trace.recompiles and c.new_cell.trace.recompiles]
    alike = [c for c in counted if same_steps(c.base_cell, c.new_cell)]
    words = []
    if alike and not any(recompiles_of(c.base_cell, c.new_cell) for c in alike):
        words.append(f"Recompiles are the same on both sides ({_counted(len(alike), 'cell')}).")
    if len(alike) < len(counted):
        number = _counted(len(counted) - len(alike), "cell")
        words.append(
            f"Recompiles of {number} were counted over other numbers of steps, and are not compared."
        )
    return words


def _nothing_common(comparison: Comparison) -> str:
    base, new = (
        fmt.listed([f"{label or 'the only cell'}{_outcome(cell)}" for label, cell in cells], 3)
        for cells in (comparison.vanished, comparison.appeared)
    )
    return f"No cell is on both sides. Base: {base}. New: {new}."


def _outcome(cell: Cell) -> str:
    bad = [
        fmt.plain(outcome).replace("_", " ")
        for outcome in dict.fromkeys(cell.outcomes)
        if outcome not in (OK, TRACED)
    ]
    return f" ({', '.join(bad)})" if bad else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
