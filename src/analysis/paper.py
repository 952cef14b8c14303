"""The table of an experiment in words, as a paper prints it.

Numbers of a column are bare and share one unit, which stands in its title. What qualifies a number,
its interval, warnings, why it is missing, where another was published, is a footnote.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from src.analysis import contents, doubts
from src.analysis import format as fmt
from src.analysis.axes import Axis
from src.analysis.cells import Cell
from src.analysis.contents import CONTENTS, Content, Number, Unit
from src.analysis.document import Column, Document, Entry, Footnotes, Grid, Line
from src.analysis.experiments import Experiment
from src.analysis.facts import CELL_FACTS
from src.analysis.grid import selection_head, steps_words, title_of
from src.analysis.placing import Place, Placed, PlacedLine, Published, place, values_of
from src.analysis.summary import Summary
from src.vocabulary import INVALIDATING, WARNINGS

_TITLE_ROOM = 12  # of a narrow title, above which it goes over several lines
_TIMED = ("us", "ratio", "steps", "part")  # kinds of contents that warnings about times concern
_OF_TRACES = tuple(name for name in INVALIDATING if name != "parity_failed")  # told with its reason
_MANY_GROUPS = 6  # groups of one column each, from which on they are dealt out over tables below each other


@dataclass(frozen=True, slots=True)
class _Slot:
    """One column of the table: what of which place it shows."""

    column: Column
    group: str
    content: Content
    what: str  # measured, published or deviation


def paper_of(summary: Summary, experiment: Experiment, filters: Sequence[str] = ()) -> Document:
    """Return the table of an experiment; `filters` are the conditions that its rows met.

    Raises:
        MixedError: cells would share a place, and the table says `mixed: refuse`.
    """
    placed = place(summary, experiment)
    names = placed.spec.cells
    units = _units(placed)
    slots = list(_slots(placed, units))
    notes = Footnotes()
    lines = tuple(_line(line, placed, slots, units, notes) for line in placed.lines)
    single = len(placed.groups) > 1 and len(slots) == len(placed.groups)
    columns = tuple(slot.column for slot in slots)
    legend = [(CONTENTS[name].title, CONTENTS[name].meaning) for name in names]
    if any(_ranges(placed)):
        legend.append(("n-m", "fewest and most over the runs, where they differ"))
    if any(not any(entry) for line in lines for entry in line.entries):
        legend.append(("blank", "not run, or not published"))
    return Document(
        title_of(summary, experiment.title),
        (*selection_head(summary, filters), *_head(summary, placed)),
        (Grid("", placed.label_titles, columns, lines, divisible=single and len(slots) > _MANY_GROUPS),),
        tuple(_remarks(summary, placed)),
        notes.texts(),
        tuple(legend),
    )


def _ranges(placed: Placed) -> Iterator[bool]:
    """Yield of each number whether it is a count that differs between runs."""
    for line in placed.lines:
        for here in line.places.values():
            numbers = (of(here.cell) for of in map(_number_of, placed.spec.cells) if of and here.cell)
            yield from (number is not None and number.value is None for number in numbers)


def _number_of(name: str) -> Callable[[Cell], Number | None] | None:
    return CONTENTS[name].number


def _units(placed: Placed) -> dict[str, Unit]:
    """Return the unit of each content. Those of one kind share it: a reader compares them."""
    values: dict[str, list[float]] = {}
    for name in placed.spec.cells:
        values.setdefault(CONTENTS[name].kind, []).extend(values_of(placed, name))
    units = {kind: contents.unit_of(kind, found) for kind, found in values.items() if kind != "words"}
    return {name: units.get(CONTENTS[name].kind, Unit("", 1.0)) for name in placed.spec.cells}


def _slots(placed: Placed, units: Mapping[str, Unit]) -> Iterator[_Slot]:
    """Yield the columns: of each group each content, with what was published beside it."""
    names = placed.spec.cells
    grouped = placed.spec.columns is not None
    compared = {name for group in placed.groups for name in names if placed.published(group, name)}
    for group in placed.groups:
        for name in names:
            content = CONTENTS[name]
            title = content.title + (f" ({units[name].label})" if units[name].label else "")
            beside = placed.published(group, name)
            whats = ("measured", "published", "deviation") if beside else ("measured",)
            for what in whats:
                leaf = {"deviation": "deviation (%)"}.get(what, what) if beside else title
                heads = [fmt.plain(group)] if grouped else []
                heads += [title if beside else ""] if compared else []
                if grouped and len(names) == 1 and not compared:
                    heads, leaf = [], fmt.plain(group)
                number = content.kind != "words"
                yield _Slot(Column(leaf, _narrow(leaf), number, tuple(heads)), group, content, what)


def _narrow(title: str) -> tuple[str, ...]:
    """Return a title in lines, cut between its words."""
    lines = [""]
    for word in title.replace("-", "- ").replace("_", "_ ").split(" "):
        glue = "" if lines[-1].endswith(("-", "_")) or not lines[-1] else " "
        if lines[-1] and len(lines[-1] + glue + word) > _TITLE_ROOM:
            lines.append(word)
        else:
            lines[-1] += glue + word
    return tuple(lines)


def _line(
    line: PlacedLine, placed: Placed, slots: Sequence[_Slot], units: Mapping[str, Unit], notes: Footnotes
) -> Line:
    """Return a line in words. Its notes stand at its label, or in a group at the first of its entries."""
    grouped = placed.spec.columns is not None
    said = {group: _notes(here, placed, units, notes) for group, here in line.places.items()}
    entries: list[Entry] = []
    marks: list[tuple[int, ...]] = []
    seen = set[str]()
    for slot in slots:
        here = line.places.get(slot.group)
        mark: tuple[int, ...] = ()
        if here is None:
            entries.append(("",))
        else:
            entries.append(_entry(slot, here, units[slot.content.name], placed.spec.intervals))
            if grouped and slot.group not in seen:
                mark = said[slot.group]
            if slot.what == "published" and slot.content.name in here.published:
                mark = tuple(sorted({*mark, notes.add(_source(here.published[slot.content.name]))}))
            seen.add(slot.group)
        marks.append(mark)
    whole = () if grouped else said.get("", ())
    return Line(line.labels, tuple(entries), whole, tuple(marks) if any(marks) else ())


def _entry(slot: _Slot, here: Place, unit: Unit, intervals: str) -> Entry:
    content, published = slot.content, here.published.get(slot.content.name)
    if slot.what == "published":
        return (_bare(content, Number(published.value), unit),) if published else ("",)
    if here.cell is None:
        return ("",)
    if content.words is not None:
        return tuple((content.words(here.cell) or fmt.NONE).split(" "))
    number = content.number(here.cell) if content.number else None
    if slot.what == "deviation":
        return (_signed(published.deviation(number.value if number else None)),) if published else ("",)
    inline = contents.spread(content.kind, number) if intervals == "inline" else ""
    return (_bare(content, number, unit), *([inline] if inline else []))


def _bare(content: Content, number: Number | None, unit: Unit) -> str:
    return contents.shown(content.kind, number, unit)


def _signed(part: float | None) -> str:
    if part is None:
        return fmt.NONE
    text = f"{100 * part:+.{1 if abs(100 * part) < 9.95 else 0}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def _source(published: Published) -> str:
    reference = published.reference
    derived = "quotient of two published numbers; " if published.derived else ""
    where = f"hardware: {fmt.plain(reference.hardware)}; source: {fmt.plain(reference.source)}"
    return f"published: {fmt.plain(reference.label)}; {derived}{where}"


def _notes(here: Place, placed: Placed, units: Mapping[str, Unit], notes: Footnotes) -> tuple[int, ...]:
    """Return the footnotes of one cell: why it has no number, what to doubt, how wide the intervals are."""
    if here.cell is None:
        return ()
    texts = list(_doubts(here.cell, placed.spec.cells))
    if placed.spec.intervals == "footnotes":
        texts += _intervals(here.cell, placed.spec.cells)
    return tuple(sorted({notes.add(text) for text in texts}))


def _doubts(cell: Cell, names: Sequence[str]) -> Iterator[str]:
    """Yield what a reader must know about the numbers shown, and no more: a summary has all of it."""
    told = {f"invalid: {name}" for name in cell.warnings}  # the warning says the same, and what it means
    yield from (fmt.shorten(text, 240) for text in cell.reasons if text not in told)
    if not cell.used:
        yield from (f"hint: {fmt.shorten(text, 240)}" for text in cell.hints)
    if any(CONTENTS[name].kind in _TIMED for name in names):
        yield from doubts.warnings_of(cell)
    else:
        yield from (fmt.plain(f"{n}: {WARNINGS[n]}") for n in cell.warnings if n in _OF_TRACES)
    yield from doubts.parity_failures(cell)
    best = doubts.slower_than_best(cell)
    if best and "speedup" in names and not {"speedup_vs_best", "verdict_vs_best"} & set(names):
        yield f"slower than the best eager implementation ({best})"
    if "recompiles" in names and cell.trace.recompiles not in (None, (0, 0)):
        yield from dict.fromkeys(f"recompiles: {fmt.shorten(text, 160)}" for text in cell.trace.causes)


def _intervals(cell: Cell, names: Sequence[str]) -> Iterator[str]:
    widths = []
    for name in names:
        content = CONTENTS[name]
        width = contents.spread(content.kind, content.number(cell)) if content.number else ""
        if width:
            widths.append(f"{content.title} {width}")
    if widths:
        yield f"95 % intervals: {', '.join(widths)}"


def _head(summary: Summary, placed: Placed) -> Iterator[str]:
    """Yield sentences on how to read the table."""
    spec = placed.spec
    if spec.columns:
        shown = ", ".join(CONTENTS[name].title for name in spec.cells)
        yield f"Columns: values of {spec.columns}; in each: {shown}."
    if any(CONTENTS[name].kind == "us" for name in spec.cells):
        yield "Times are of one step: medians, over several processes or runs their geometric means."
    steps = steps_words(summary)
    counted = [name for name in spec.cells if name in ("recompiles", "graphs")]
    if steps and counted:
        yield f"{' and '.join(counted).capitalize()} are counted over {steps}."
    if any(line.places[group].published for line in placed.lines for group in line.places):
        yield "Deviation is measured / published - 1."


def _remarks(summary: Summary, placed: Placed) -> Iterator[str]:
    if placed.split:
        names = ", ".join(axis.title for axis in placed.split)
        yield f"Split by {names}, which the table does not name: cells differ in it and are not one number."
    if placed.untold:
        yield f"Different from line to line and not shown: {'; '.join(map(_values, placed.untold))}."
    yield from _alike(placed)
    if any(_spreads(cell, placed.spec.cells) for cell in summary.cells):
        if placed.spec.intervals == "none":
            yield "95 % intervals are left out: the CSV file has them."
        else:
            yield from doubts.intervals(summary)


def _spreads(cell: Cell, names: Sequence[str]) -> bool:
    return any(True for _ in _intervals(cell, names))


def _values(axis: Axis) -> str:
    return f"{axis.title} {fmt.listed(list(dict.fromkeys(axis.labels)), 4).replace('; ', ', ')}"


def _alike(placed: Placed) -> Iterator[str]:
    """Yield what tells lines with equal labels apart, which no axis does."""
    same: dict[tuple[tuple[str, ...], str], list[Cell]] = {}
    for line in placed.lines:
        for group, here in line.places.items():
            if here.cell is not None and all(
                here.cell is not cell for cell in same.get((line.labels, group), ())
            ):
                same.setdefault((line.labels, group), []).append(here.cell)
    for (labels, _), cells in same.items():
        if len(cells) == 1:
            continue
        names = [name for name in CELL_FACTS if len({repr(cell.facts[name]) for cell in cells}) > 1]
        if names:
            yield f"Lines with equal labels ({', '.join(labels)}) differ in {', '.join(names)}."
