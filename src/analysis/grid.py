"""A summary in words: tables of short texts, with every doubt as a numbered footnote.

This is the one place that decides what a reader is told. `text` and `tables` only set it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from src import record
from src.analysis import format as fmt
from src.analysis import recompiles
from src.analysis.axes import implied
from src.analysis.cells import OK, Cell
from src.analysis.geomeans import Geomean
from src.analysis.published import Line as PublishedLine
from src.analysis.summary import Summary
from src.stats import Interval

Entry = tuple[str, ...]
"""A number and its interval, or words. A narrow table puts each part on a line of its own."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    narrow: tuple[str, ...]  # the title in lines, for a narrow table
    number: bool  # numbers stand at the right


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table."""

    labels: tuple[str, ...]  # what the line is about
    entries: tuple[Entry, ...]  # one for each column
    notes: tuple[int, ...]  # numbers of its footnotes


@dataclass(frozen=True, slots=True)
class Grid:
    """One table."""

    title: str  # empty for the first table of a document
    label_titles: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def note_at(self) -> int:
        """Return the item of a line that carries the footnotes: its end, or its label before numbers."""
        return len(self.label_titles) - 1 if self.columns[-1].number else -1


@dataclass(frozen=True, slots=True)
class Document:
    """A summary in words."""

    title: str
    head: tuple[str, ...]  # sentences above the tables
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...]  # sentences below the tables
    footnotes: tuple[str, ...]  # the first is number 1


class _Footnotes:
    """Numbers footnotes in order of their first use; equal texts share a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)


def document_of(summary: Summary, filters: Sequence[str] = ()) -> Document:
    """Return the words of a summary; `filters` are the conditions that its rows met."""
    notes = _Footnotes()
    grids, remarks = [_cells(summary, notes)], []
    if any(geomean.speedup for geomean in summary.geomeans):
        grids.append(_geomeans(summary.geomeans, notes))
    elif len(summary.cells) > 1:
        remarks = list(dict.fromkeys(f"Geomean of the speedups: {g.note}." for g in summary.geomeans))
    if summary.published:
        grids.append(_published(summary.published, notes))
    return Document(
        _title(summary), _head(summary, filters), tuple(grids), tuple(remarks), tuple(notes.numbers)
    )


def outcome_entry(cell: Cell) -> Entry:
    """Return the verdict, or what became of the rows where there is none or not of all."""
    bad = Counter(outcome for outcome in cell.outcomes if outcome != OK)
    if not bad:
        return tuple(_words(cell.verdict or "-").split(" "))
    if len(cell.outcomes) == 1:
        return (_words(next(iter(bad))),)
    ill = [f"{_words(kind)} {n}" for kind, n in bad.items()]
    ill[-1] += f" of {len(cell.outcomes)}"
    verdict = (_words(cell.verdict) + ",",) if cell.verdict else ()
    return (*verdict, *(text + "," for text in ill[:-1]), ill[-1])


def _words(name: str) -> str:
    return fmt.plain(name).replace("_", " ")


def _title(summary: Summary) -> str:
    sweeps = summary.sweeps
    sweep = f"sweep {fmt.plain(str(sweeps[0]))}" if len(sweeps) == 1 else f"{len(sweeps)} sweeps"
    return f"{fmt.plain(summary.title)} ({sweep})" if summary.title else sweep[0].upper() + sweep[1:]


def _head(summary: Summary, filters: Sequence[str]) -> tuple[str, ...]:
    outcomes = Counter(outcome for cell in summary.cells for outcome in cell.outcomes)
    counts = ", ".join(f"{n} {_words(kind)}" for kind, n in outcomes.items())
    lines = [f"{_counted(summary.rows, 'run')}: {counts}."]
    if filters:
        lines.append("Only rows with " + ", ".join(map(fmt.plain, filters)) + ".")
    machine_titles = {axis.title for axis in summary.axes if axis.kind == "machine"}
    known = [(t, v) for t, v in summary.constant if v not in ("null", "-")]
    same = [f"{t}={v}" for t, v in known if t not in machine_titles]
    lines.append("The same in all: " + ", ".join(same) + ".")
    machine = [f"{t} {v}" for t, v in known if t in machine_titles]
    if machine:
        lines.append("Machine: " + ", ".join(machine) + ".")
    lines += _models(summary)
    steps = sorted({n for cell in summary.cells for n in cell.trace_steps})
    over = f" Recompiles are counted over the first {' or '.join(map(str, steps))} steps." if steps else ""
    times = "Times are medians of a step, with 95 % intervals; speedup is eager / compiled." + over
    if any(cell.used > 1 for cell in summary.cells):
        times += " Where several runs repeat one cell: their geometric mean, with a t interval over the runs."
    lines.append(times)
    return tuple(lines)


def _models(summary: Summary) -> list[str]:
    """Return sizes: one for all, or what each choice of model stands for."""
    if len(summary.sizes) == 1:
        parameters, tensors = summary.sizes[0]
        return [f"Workload: {parameters:,} parameters in {_counted(tensors, 'tensor')}."]
    followers = [axis for axis in summary.axes if axis.title in implied(summary.axes, "model")]
    if not followers:
        return []
    model = next(axis for axis in summary.axes if axis.title == "model")
    words = {
        label: ", ".join(f"{axis.title}={axis.labels[i]}" for axis in followers)
        for i, label in enumerate(model.labels)
    }
    return ["Models: " + "; ".join(f"{label} ({text})" for label, text in words.items()) + "."]


_EAGER = Column("eager", ("eager",), number=True)
_COMPILED = Column("compiled", ("compiled",), number=True)
_SPEEDUP = Column("speedup", ("speedup",), number=True)
_RECOMPILES = Column("recompiles", ("recom-", "piles"), number=True)
_COMPILE_S = Column("compile", ("compile",), number=True)
_BREAK_EVEN = Column("break-even steps", ("break-", "even", "steps"), number=True)
_RUNS = Column("runs", ("runs",), number=True)
_VERDICT = Column("verdict", ("verdict",), number=False)


def _cells(summary: Summary, notes: _Footnotes) -> Grid:
    repeated = any(len(cell.outcomes) > 1 for cell in summary.cells)
    lines = []
    for index, cell in enumerate(summary.cells):
        entries = [
            *_pair(cell.eager, cell.compiled, cell.speedup, cell.recompiles),
            _with_half_width(fmt.time_s(cell.compile_s.center if cell.compile_s else None), cell.compile_s),
            _with_half_width(fmt.count(cell.break_even.center if cell.break_even else None), cell.break_even),
        ]
        if repeated:
            entries.append((str(cell.used) if cell.comparable else f"{cell.used} of {len(cell.outcomes)}",))
        entries.append(outcome_entry(cell))
        labels = tuple(axis.labels[index] for axis in summary.shown)
        lines.append(Line(labels, tuple(entries), tuple(notes.add(text) for text in _doubts(cell))))
    columns = [_EAGER, _COMPILED, _SPEEDUP, _RECOMPILES, _COMPILE_S, _BREAK_EVEN]
    columns += [_RUNS, _VERDICT] if repeated else [_VERDICT]
    return Grid("", tuple(axis.title for axis in summary.shown), tuple(columns), tuple(lines))


def _doubts(cell: Cell) -> list[str]:
    """Return what a reader must know before trusting the cell."""
    doubts = [fmt.shorten(text, 240) for text in cell.reasons]
    for name in cell.warnings:
        doubts.append(
            f"{fmt.plain(name)}: {record.WARNINGS.get(name, 'a warning this version does not know')}"
        )
    if cell.recompiles is not None and cell.recompiles[0] != cell.recompiles[1]:
        low, high = cell.recompiles
        doubts.append(f"recompiles differ between the runs of the cell: {low} to {high}")
    doubts += recompiles.explained(cell.recompile_reasons)
    doubts += [f"gate failed: the speedup is below gate.min_speedup={limit:g}" for limit in cell.failed_gates]
    return doubts


def _geomeans(geomeans: Sequence[Geomean], notes: _Footnotes) -> Grid:
    lines = tuple(
        Line(
            (geomean.label or "all",),
            (_ratio(geomean.speedup), (f"{geomean.covered} of {geomean.total}",)),
            (notes.add(f"geomean: {geomean.note}"),) if geomean.note else (),
        )
        for geomean in geomeans
    )
    columns = (_SPEEDUP, Column("workloads", ("workloads",), number=True))
    return Grid("Geomean of the speedups over comparable workloads", ("compiled with",), columns, lines)


def _published(published: Sequence[PublishedLine], notes: _Footnotes) -> Grid:
    lines = tuple(
        Line(
            (fmt.plain(line.label),),
            _pair(line.eager, line.compiled, line.speedup, line.recompiles),
            (notes.add(f"published; {fmt.plain(line.source)}"),) if line.source else (),
        )
        for line in published
    )
    return Grid("Published and measured", ("what",), (_EAGER, _COMPILED, _SPEEDUP, _RECOMPILES), lines)


def _pair(
    eager: Interval | None,
    compiled: Interval | None,
    speedup: Interval | None,
    counts: tuple[int, int] | None,
) -> tuple[Entry, ...]:
    times = [_with_half_width(fmt.time_us(t.center if t else None), t) for t in (eager, compiled)]
    return (*times, _ratio(speedup), (fmt.count_range(counts),))


def _ratio(interval: Interval | None) -> Entry:
    return tuple(filter(None, (fmt.ratio(interval), fmt.bounds(interval))))


def _with_half_width(text: str, interval: Interval | None) -> Entry:
    return tuple(filter(None, (text, fmt.half_width(interval))))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
