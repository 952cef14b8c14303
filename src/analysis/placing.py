"""Where the cells of a summary stand in the table of an experiment, and published numbers beside them.

Numbers only; how they read is decided in `paper`. One place holds one cell: nothing is averaged over
machines, versions or modes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from src.analysis import format as fmt
from src.analysis.axes import Axis, arguments_of, implied
from src.analysis.cells import Cell
from src.analysis.contents import CONTENTS, QUOTIENTS, Number
from src.analysis.experiments import PARAMETERS, Experiment, Reference, TableSpec
from src.analysis.summary import Summary


class MixedError(ValueError):
    """Cells that the table would put into one place differ, and the table refuses that."""


@dataclass(frozen=True, slots=True)
class Published:
    """One published number."""

    value: float
    reference: Reference
    derived: bool = False  # the quotient of two published numbers

    def deviation(self, measured: float | None) -> float | None:
        """Return measured / published - 1, None where there is no quotient."""
        if measured is None:
            return None
        if self.value == 0:
            return 0.0 if measured == 0 else None
        return measured / self.value - 1


@dataclass(frozen=True, slots=True)
class Place:
    """What stands in one group of columns of one line."""

    cell: Cell | None = None  # None where nothing was measured
    published: Mapping[str, Published] = field(default_factory=dict)  # by content


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """One line of a table."""

    labels: tuple[str, ...]
    places: Mapping[str, Place]  # by the label of the group of columns
    cells: tuple[int, ...] = ()  # of the summary


@dataclass(frozen=True, slots=True)
class Placed:
    """A table in numbers."""

    spec: TableSpec
    label_titles: tuple[str, ...]
    groups: tuple[str, ...]  # one that is empty where the table has no groups of columns
    lines: tuple[PlacedLine, ...]
    split: tuple[Axis, ...]  # axes that the table does not name, added because cells differ in them
    untold: tuple[Axis, ...]  # axes that differ from line to line and are not shown

    def published(self, group: str, content: str) -> bool:
        """Return whether a column has a published number in any line."""
        return any(group in line.places and content in line.places[group].published for line in self.lines)


@dataclass(frozen=True, slots=True)
class _Side:
    """The labels of one side of the table, and values that sort and compare."""

    title: str
    labels: tuple[str, ...]
    values: tuple[Any, ...]


def place(summary: Summary, experiment: Experiment) -> Placed:
    """Put each cell of a summary where the table of an experiment wants it.

    Raises:
        MixedError: cells would share a place, and the table says `mixed: refuse`.
    """
    spec = experiment.table
    named = [_side(summary, title) for title in spec.rows]
    across = _side(summary, spec.columns) if spec.columns else None
    sides = [*named, across] if across else named
    split = _split(summary, sides)
    if spec.mixed == "refuse":
        _refuse(summary, sides, split)
    rows = [*named, *(_side(summary, axis.title) for axis in split)]
    lines = _lines(summary, rows, across)
    lines = _with_published(summary, lines, rows, across, experiment)
    shown = {side.title for side in rows} | ({across.title} if across else set())
    groups = dict.fromkeys(across.labels) if across else {"": None}
    groups |= dict.fromkeys(group for line in lines for group in line.places)
    return Placed(
        spec=spec,
        label_titles=tuple(side.title for side in rows),
        groups=tuple(groups),
        lines=_sorted(summary, lines, spec),
        split=split,
        untold=_untold(summary, shown),
    )


def _side(summary: Summary, title: str) -> _Side:
    if title == PARAMETERS:
        counts = tuple(cell.parameters for cell in summary.cells)
        return _Side(title, _counts(counts), counts)
    axis = next(axis for axis in summary.axes if axis.title == title)
    return _Side(title, axis.labels, axis.labels)


def _counts(counts: Sequence[int | None]) -> tuple[str, ...]:
    """Return labels for counts: short where that is exact or tells them apart, else whole."""
    short = [str(n) if n is not None and n < 10_000 else fmt.count(n) for n in counts]
    if len(set(short)) == len(set(counts)):
        return tuple(short)
    return tuple(fmt.NONE if n is None else f"{n:,}" for n in counts)


def _split(summary: Summary, sides: Sequence[_Side]) -> tuple[Axis, ...]:
    """Return the axes that must become labels: cells that would share a place differ in them.

    An axis of the machine does so wherever it varies: lines that were measured on different machines
    or versions are not comparable without a word.
    """
    named = {side.title for side in sides}
    added = [axis for axis in summary.shown if axis.kind == "machine" and axis.title not in named]
    others = [axis for axis in summary.axes if axis.varies and axis.title not in named and axis not in added]
    # Those that a summary shows come first: they lead, others follow from them.
    for axis in sorted(others, key=lambda axis: axis not in summary.shown):
        shared = _shared(len(summary.cells), sides, added)
        if any(len({axis.labels[i] for i in cells}) > 1 for cells in shared):
            added.append(axis)
    return tuple(axis for axis in summary.axes if axis in added)


def _shared(count: int, sides: Sequence[_Side], axes: Sequence[Axis]) -> list[list[int]]:
    """Return which of `count` cells share a place, for each place that has several."""
    labels = [side.labels for side in sides] + [axis.labels for axis in axes]
    places: dict[tuple[str, ...], list[int]] = {}
    for index in range(count):
        places.setdefault(tuple(of[index] for of in labels), []).append(index)
    return [cells for cells in places.values() if len(cells) > 1]


def _refuse(summary: Summary, sides: Sequence[_Side], split: Sequence[Axis]) -> None:
    for cells in _shared(len(summary.cells), sides, []):
        where = ", ".join(f"{side.title}={side.labels[cells[0]]}" for side in sides)
        for axis in split:
            values = dict.fromkeys(axis.labels[i] for i in cells)
            if len(values) > 1:
                raise MixedError(
                    f"table.mixed is refuse, and {len(cells)} cells of {where or 'the table'} differ in "
                    f"{axis.title}: {fmt.listed(list(values))}\nname it in table.rows, or choose with "
                    "table.where or --where"
                )


def _untold(summary: Summary, shown: set[str]) -> tuple[Axis, ...]:
    followers = {*implied(summary.axes, "model"), *implied(summary.axes, "device")}
    return tuple(
        axis
        for axis in summary.axes
        if axis.varies and axis.title not in shown and axis.title not in followers
    )


def _lines(summary: Summary, rows: Sequence[_Side], across: _Side | None) -> list[PlacedLine]:
    """Return a line for each combination of labels; several where cells with equal labels differ."""
    by_labels: dict[tuple[str, ...], list[dict[str, int]]] = {}
    for index in range(len(summary.cells)):
        lines = by_labels.setdefault(tuple(side.labels[index] for side in rows), [])
        group = across.labels[index] if across else ""
        free = next((line for line in lines if group not in line), None)
        if free is None:
            lines.append({group: index})
        else:
            free[group] = index
    return [
        PlacedLine(labels, {g: Place(summary.cells[i]) for g, i in line.items()}, tuple(line.values()))
        for labels, lines in by_labels.items()
        for line in lines
    ]


def _with_published(
    summary: Summary,
    lines: list[PlacedLine],
    rows: Sequence[_Side],
    across: _Side | None,
    experiment: Experiment,
) -> list[PlacedLine]:
    """Put published numbers beside the cells that they are about, and below them where one is taken."""
    stacks = [[line] for line in lines]  # a line, and those that repeat it for further publications
    stack_of = {index: stack for stack in stacks for index in stack[0].cells}
    alone = []
    for reference in experiment.references:
        numbers = _numbers(reference, experiment.table.cells)
        fitting = _fitting(summary, reference)
        for index in fitting if numbers else ():
            _put_beside(stack_of[index], index, across.labels[index] if across else "", numbers)
        if numbers and not fitting:
            alone.append(_alone(reference, numbers, rows, across))
    return [line for stack in stacks for line in stack] + alone


def _numbers(reference: Reference, cells: Sequence[str]) -> dict[str, Published]:
    """Return the published numbers that the table has contents for, and quotients of them."""
    numbers = {name: Published(value, reference) for name, value in reference.numbers.items()}
    for name, (above, below) in QUOTIENTS.items():
        over, under = reference.numbers.get(above), reference.numbers.get(below)
        if name not in numbers and over and under:
            numbers[name] = Published(over / under, reference, derived=True)
    return {name: numbers[name] for name in cells if name in numbers}


def _fitting(summary: Summary, reference: Reference) -> list[int]:
    """Return the cells that published numbers are about: all where they say, or the only one."""
    cells = range(len(summary.cells))
    if not reference.at:
        return [0] if len(cells) == 1 else []  # it says nothing about which of several
    arguments = [(*name.split(".", 1), wanted) for name, wanted in reference.at.items() if "." in name]
    sides = [
        (_side(summary, title), fmt.value(wanted), wanted)
        for title, wanted in reference.at.items()
        if "." not in title
    ]
    return [
        i
        for i in cells
        if all(label == side.labels[i] or wanted == side.values[i] for side, label, wanted in sides)
        and all(
            fmt.value(arguments_of(summary.cells[i], axis).get(name)) == fmt.value(wanted)
            for axis, name, wanted in arguments
        )
    ]


def _put_beside(stack: list[PlacedLine], index: int, group: str, numbers: Mapping[str, Published]) -> None:
    """Put published numbers of a cell into the first line of its stack that has room for them."""
    cell = stack[0].places[group].cell
    for i, line in enumerate(stack):
        published = line.places[group].published if group in line.places else {}
        if not published.keys() & numbers.keys():
            places = {**line.places, group: Place(cell, {**published, **numbers})}
            stack[i] = replace(line, places=places, cells=(*dict.fromkeys((*line.cells, index)),))
            return
    stack.append(PlacedLine(stack[0].labels, {group: Place(cell, numbers)}, (index,)))


def _alone(
    reference: Reference, numbers: Mapping[str, Published], rows: Sequence[_Side], across: _Side | None
) -> PlacedLine:
    """Return a line of its own for published numbers that no cell of the table was measured for."""
    labels = [fmt.value(reference.at[side.title]) if side.title in reference.at else "" for side in rows]
    if labels and not any(labels):
        labels[0] = fmt.plain(reference.label)
    group = ""
    if across:
        group = fmt.value(reference.at[across.title]) if across.title in reference.at else "not stated"
    return PlacedLine(tuple(labels), {group: Place(None, numbers)})


def _sorted(summary: Summary, lines: Sequence[PlacedLine], spec: TableSpec) -> tuple[PlacedLine, ...]:
    """Return the lines in the order asked for; what has no value comes last, either way."""
    sides = {name: _side(summary, name) for name, _ in spec.sort if name not in CONTENTS}
    # First by the labels from left to right, each side in the order in which its labels appeared.
    count = len(lines[0].labels) if lines else 0
    ranks = [
        {label: i for i, label in enumerate(dict.fromkeys(x.labels[n] for x in lines))} for n in range(count)
    ]
    result = sorted(
        lines,
        key=lambda line: (not line.cells, [rank[x] for rank, x in zip(ranks, line.labels, strict=True)]),
    )
    for name, descends in reversed(spec.sort):
        known = [(line, _key(name, line, sides)) for line in result]
        there = [pair for pair in known if pair[1] is not None]
        there.sort(key=lambda pair: pair[1], reverse=descends)  # type: ignore[arg-type, return-value]
        result = [line for line, _ in there] + [line for line, key in known if key is None]
    return tuple(result)


def _key(name: str, line: PlacedLine, sides: Mapping[str, _Side]) -> tuple[float, str] | None:
    """Return what a line is sorted by: the first of its places that has a value."""
    if name in sides:
        values = (sides[name].values[i] for i in line.cells)
        value = next((v for v in values if v is not None), None)
        return None if value is None else _natural(value)
    content = CONTENTS.get(name)
    for cell in (place.cell for place in line.places.values()):
        if content is None or cell is None:
            continue
        if content.number is not None and (number := content.number(cell)) is not None:
            return (_middle(number), "")
        if content.words is not None and (words := content.words(cell)) is not None:
            return (0.0, words)
    return None


def _middle(number: Number) -> float:
    return number.value if number.value is not None else number.high or 0.0


def _natural(value: Any) -> tuple[float, str]:
    """Return a key by which numbers come in their order, before words in theirs."""
    try:
        return (float(value), "")
    except ValueError:
        return (float("inf"), str(value))


def values_of(placed: Placed, content: str) -> Iterator[float]:
    """Yield every number of a content, measured or published, for a unit that fits them all."""
    of = CONTENTS[content].number
    for line in placed.lines:
        for place in line.places.values():
            number = of(place.cell) if of and place.cell else None
            if number is not None and number.value is not None:
                yield number.value
            if content in place.published:
                yield place.published[content].value
