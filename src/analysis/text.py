"""A document as plain text for a terminal of a given width.

A table takes the first layout that fits: a line for each cell; intervals below their numbers; the
axes below each other as well; the axes on a line of their own above the numbers; there also the ends
of an interval below each other. Where none fits, the columns of the last are dealt out over tables
below each other, with space between them, and with the labels beside them again if that takes no more
tables. Nothing is cut off: a terminal too narrow for a column wraps
the lines itself.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len

from src.analysis.document import Document, Grid

_LABEL_ROOM = 24  # stacked labels may wrap, but not in less room than this
_WORDS_ROOM = 16  # width above which words in a narrow column go over several lines
_NUMBER_ROOM = 8  # the same for an interval in the narrowest layout: one of its ends


def render(document: Document, width: int, *, unicode: bool = True) -> str:
    """Return the document as text, at most `width` columns wide where that is possible."""
    parts = [_wrapped(document.title, width), ""]
    parts += [_wrapped(line, width) for line in document.head]
    for grid in document.grids:
        parts += ["", *([_wrapped(grid.title, width), ""] if grid.title else [])]
        parts.append(_table(grid, width, unicode=unicode))
    if document.remarks:
        parts += ["", *(_wrapped(text, width) for text in document.remarks)]
    if document.legend:
        room = max(cell_len(mark) for mark, _ in document.legend) + 2
        parts += ["", *(_wrapped(m.ljust(room) + text, width, " " * room) for m, text in document.legend)]
    if document.footnotes:
        indent = " " * (len(str(len(document.footnotes))) + 3)
        parts.append("")
        for number, text in enumerate(document.footnotes, 1):
            parts.append(_wrapped(f"[{number}]".ljust(len(indent)) + text, width, indent))
    text = "\n".join(parts) + "\n"
    return text if unicode else _ascii(text)


def _ascii(text: str) -> str:
    drawn = text.replace("─", "-").replace("±", "+-")
    return drawn.encode("ascii", "backslashreplace").decode("ascii")


def _wrapped(text: str, width: int, indent: str = "  ") -> str:
    """Return prose in lines; a path or an address is never cut, even where it is too long."""
    lines = textwrap.wrap(
        text, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def _lines(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=True) or [""]


Item = list[str]
"""The lines of one item of a table."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """A table cut into items, before it is drawn."""

    gap: int  # spaces between columns
    titles: list[Item]
    rows: list[list[Item]]
    heads: list[str]  # a line above the titles and above each row, empty when labels are columns
    grouped: bool = False  # rows without a head belong to the head before them
    above: tuple[tuple[str, ...], ...] = ()  # heads of the last columns, the others have none

    def widths(self) -> list[int]:
        """Return the width of each column; the last one below a head has room for what its head lacks."""
        widths = [
            max(cell_len(text) for item in (title, *(row[i] for row in self.rows)) for text in (*item, ""))
            for i, title in enumerate(self.titles)
        ]
        for level in range(len(self.above[0]) if self.above else 0):
            for first, last, head in self.spans(level):
                room = sum(widths[first:last]) + self.gap * (last - first - 1)
                widths[last - 1] += max(max(map(cell_len, _head(head, room))) - room, 0)
        return widths

    def spans(self, level: int) -> Iterator[tuple[int, int, str]]:
        """Yield the first column below each head of a level, the one after its last, and the head."""
        offset = len(self.titles) - len(self.above)
        for heads, group in groupby(enumerate(self.above, offset), lambda each: each[1][: level + 1]):
            columns = [column for column, _ in group]
            if heads[level]:
                yield columns[0], columns[-1] + 1, heads[level]

    def width(self) -> int:
        """Return the width of the table, without its heads."""
        widths = self.widths()
        return sum(widths) + self.gap * (len(widths) - 1)


def _head(head: str, room: int) -> list[str]:
    """Return a head in lines, for the room above its columns."""
    return _lines(head, max(room, _WORDS_ROOM), "")


def _table(grid: Grid, width: int, *, unicode: bool) -> str:
    grid = _with_marks(grid)
    if not unicode:
        grid = _ascii_grid(grid)
    if grid.divisible:
        return "\n\n".join("\n".join(_drawn(b, [False] * len(b.titles), width)) for b in _blocks(grid, width))
    heads, grid = _parted(grid, width) if grid.grouped else ([""] * (1 + len(grid.lines)), grid)
    numbers = [column.number for column in grid.columns]
    above = tuple(column.heads for column in grid.columns) if grid.levels else ()
    layouts = [replace(layout, above=above) for layout in _layouts(grid, heads, width)]
    for layout in layouts:
        labels = len(layout.titles) - len(numbers)
        if layout.width() <= width:
            return "\n".join(_drawn(layout, [False] * labels + numbers, width))
    # Over several tables there is room again: the first of the layouts of this kind with space between.
    same = [each for each in layouts if each.gap == 2 and len(each.titles) == len(layout.titles)]
    airy = next((each for each in same if max(each.widths()) <= width), same[-1])
    chosen, labels = _beside(layouts, airy, len(numbers), width)
    parts = _dealt(chosen, [False] * labels + numbers, labels, width)
    return "\n\n".join("\n".join(_drawn(part, n, width)) for part, n in parts)


def _parted(grid: Grid, width: int) -> tuple[list[str], Grid]:
    """Return the heads of the groups, each at its first line, and the grid without what they say."""

    def head(labels: Sequence[str]) -> str:
        return _wrapped(", ".join(labels[: grid.grouped]), width)

    heads = [head(line.labels) for line in grid.lines]
    firsts = [h if i == 0 or h != heads[i - 1] else "" for i, h in enumerate(heads)]
    lines = tuple(replace(line, labels=line.labels[grid.grouped :]) for line in grid.lines)
    rest = replace(grid, label_titles=grid.label_titles[grid.grouped :], lines=lines)
    return [head(grid.label_titles), *firsts], rest


def _beside(layouts: Sequence[_Layout], airy: _Layout, numbers: int, width: int) -> tuple[_Layout, int]:
    """Return a layout whose labels stand beside the numbers, if that takes no more tables, and its labels."""
    above = len(airy.titles) - numbers
    fewest = len(_parts(airy, above, width))
    for layout in layouts:
        labels, widths = len(layout.titles) - numbers, layout.widths()
        beside = sum(w + layout.gap for w in widths[:labels])
        fits = labels and beside + max(widths[labels:]) <= width
        if fits and layout.gap == airy.gap and len(_parts(layout, labels, width)) <= fewest:
            return layout, labels
    return airy, above


def _parts(layout: _Layout, labels: int, room: int) -> list[list[int]]:
    """Return which columns go beside the labels into each table, one after the other as many as fit."""
    widths = layout.widths()
    beside = sum(w + layout.gap for w in widths[:labels])
    found: list[list[int]] = [[]]
    for column in range(labels, len(widths)):
        taken = sum(widths[i] + layout.gap for i in found[-1])
        if found[-1] and beside + taken + widths[column] > room:
            found.append([])
        found[-1].append(column)
    return found


def _dealt(
    layout: _Layout, numbers: Sequence[bool], labels: int, width: int
) -> Iterator[tuple[_Layout, list[bool]]]:
    """Return layouts that each have the labels and some of the other columns, and which are numbers.

    As few as fit the width, and then about equally wide: none has a column that could stand with others.
    """
    fewest = len(_parts(layout, labels, width))
    room = next(room for room in range(1, width + 1) if len(_parts(layout, labels, room)) <= fewest)
    for part in _parts(layout, labels, room):
        kept = [*range(labels), *part]
        rows = [[row[i] for i in kept] for row in layout.rows]
        above = tuple(layout.above[i - labels] for i in part) if layout.above else ()
        titles = [layout.titles[i] for i in kept]
        yield replace(layout, titles=titles, rows=rows, above=above), [numbers[i] for i in kept]


def _layouts(grid: Grid, groups: list[str], width: int) -> Iterator[_Layout]:
    """Return the layouts from the widest to the narrowest; `groups` are heads that all of them have."""
    labels = [[[label] for label in line.labels] for line in grid.lines]
    titles = [[title] for title in grid.label_titles]
    grouped = grid.grouped > 0

    one_line = [[[" ".join(parts)] for parts in line.entries] for line in grid.lines]
    rows = [label + entries for label, entries in zip(labels, one_line, strict=True)]
    yield _Layout(2, titles + [[c.title] for c in grid.columns], rows, groups, grouped)

    entries = [[_narrow(parts) for parts in line.entries] for line in grid.lines]
    narrow = [list(c.narrow) for c in grid.columns]
    rows = [label + items for label, items in zip(labels, entries, strict=True)]
    yield _Layout(2, titles + narrow, rows, groups, grouped)
    if grouped:
        yield _Layout(1, titles + narrow, rows, groups, grouped)
        return

    numbers = _Layout(2, narrow, entries, groups)
    widest = max((cell_len(label) for line in grid.lines for label in line.labels), default=0)
    room = width - numbers.width() - numbers.gap
    if grid.label_titles and room >= min(widest, _LABEL_ROOM):
        stacked = [
            [part for label in line.labels for part in _lines(label, room, "  ")] for line in grid.lines
        ]
        rows = [[label, *items] for label, items in zip(stacked, entries, strict=True)]
        yield _Layout(2, [list(grid.label_titles), *narrow], rows, groups)

    heads = [
        _wrapped(", ".join(names), width) for names in (grid.label_titles, *(x.labels for x in grid.lines))
    ]
    for gap in (2, 1):
        yield _Layout(gap, narrow, entries, heads)
    narrowest = [
        [_narrow(parts, ends=c.number) for c, parts in zip(grid.columns, line.entries, strict=True)]
        for line in grid.lines
    ]
    for gap in (2, 1):
        yield _Layout(gap, narrow, narrowest, heads)


def _blocks(grid: Grid, width: int) -> Iterator[_Layout]:
    """Return tables that fit the width, with all labels and as many columns as go beside them."""
    labels = [[_lines(label, _LABEL_ROOM, "  ") for label in line.labels] for line in grid.lines]
    titles = [[title] for title in grid.label_titles]
    first = 0
    while first < len(grid.columns):
        for last in range(first + 1, len(grid.columns) + 1):
            rows = [
                label + [[" ".join(parts)] for parts in line.entries[first:last]]
                for label, line in zip(labels, grid.lines, strict=True)
            ]
            narrow = [list(c.narrow) for c in grid.columns[first:last]]
            wider = _Layout(2, titles + narrow, rows, [""] * (1 + len(rows)))
            if last > first + 1 and wider.width() > width:
                break
            block = wider
        yield block
        first += len(block.titles) - len(titles)


def _with_marks(grid: Grid) -> Grid:
    """Return the grid with the numbers of the footnotes where they are read."""
    lines = []
    for noted in grid.lines:
        line = noted
        if line.entry_notes:
            entries = tuple(
                (*parts, _mark(notes)) if notes else parts
                for parts, notes in zip(line.entries, line.entry_notes, strict=True)
            )
            line = replace(line, entries=entries)
        mark = _mark(line.notes)
        if not line.notes:
            lines.append(line)
        elif grid.note_at < 0:
            lines.append(replace(line, entries=(*line.entries[:-1], (*line.entries[-1], mark))))
        else:
            lines.append(replace(line, labels=(*line.labels[:-1], f"{line.labels[-1]} {mark}")))
    return replace(grid, lines=tuple(lines))


def _mark(notes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, notes))}]"


def _narrow(parts: Sequence[str], *, ends: bool = False) -> Item:
    """Return an entry in lines; with `ends` those of an interval are below each other."""
    if not ends:
        return [line for text in parts for line in _lines(text, _WORDS_ROOM, "")]
    return [line for text in parts for line in textwrap.wrap(text, _NUMBER_ROOM, break_long_words=False)]


def _ascii_grid(grid: Grid) -> Grid:
    """Return the grid as it will be drawn, so that columns are as wide as what stands in them."""
    lines = tuple(
        replace(
            line,
            labels=tuple(map(_ascii, line.labels)),
            entries=tuple(tuple(map(_ascii, parts)) for parts in line.entries),
        )
        for line in grid.lines
    )
    columns = tuple(
        replace(
            column,
            title=_ascii(column.title),
            narrow=tuple(map(_ascii, column.narrow)),
            heads=tuple(map(_ascii, column.heads)),
        )
        for column in grid.columns
    )
    return replace(grid, lines=lines, columns=columns)


def _drawn(layout: _Layout, numbers: Sequence[bool], width: int) -> Iterator[str]:
    widths = layout.widths()
    tall = any(len(item) > 1 for row in layout.rows for item in row)

    def lines(items: Sequence[Item], *, bottom: bool = False) -> Iterator[str]:
        height = max(map(len, items))
        padded = [[""] * (height - len(i)) + i if bottom else i + [""] * (height - len(i)) for i in items]
        for parts in zip(*padded, strict=True):
            aligned = map(_aligned, parts, widths, numbers)
            yield (" " * layout.gap).join(aligned).rstrip()

    if layout.heads[0]:
        yield layout.heads[0]
    yield from _drawn_heads(layout, widths)
    yield from lines(layout.titles, bottom=True)
    yield "─" * min(layout.width(), width)
    for i, (head, row) in enumerate(zip(layout.heads[1:], layout.rows, strict=True)):
        if i > 0 and (head if layout.grouped else tall):
            yield ""
        if head:
            yield head
        yield from lines(row)


def _drawn_heads(layout: _Layout, widths: Sequence[int]) -> Iterator[str]:
    """Yield the heads, each over the middle of its columns between lines that show how far it reaches."""
    starts = [sum(widths[:i]) + layout.gap * i for i in range(len(widths))]
    for level in range(len(layout.above[0]) if layout.above else 0):
        spans: list[tuple[int, int, list[str]]] = []
        for first, last, head in layout.spans(level):
            room = starts[last - 1] + widths[last - 1] - starts[first]
            spans.append((starts[first], room, _head(head, room)))
        height = max((len(head) for _, _, head in spans), default=0)
        for i in range(height):
            line = ""
            for start, room, parts in spans:
                text = parts[i - (height - len(parts))] if i >= height - len(parts) else ""
                rest = room - cell_len(text) - 2
                filled = "─" * (rest // 2) + f" {text} " + "─" * (rest - rest // 2)
                last_line = text and i == height - 1 and rest >= 2
                line += " " * (start - cell_len(line)) + (filled if last_line else _centred(text, room))
            yield line.rstrip()


def _centred(text: str, room: int) -> str:
    return " " * ((room - cell_len(text)) // 2) + text


def _aligned(text: str, width: int, number: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if number else text + space
