"""A document: titled tables of short texts, sentences around them, numbered footnotes.

What `grid` and `matrix` fill with words, and `text` and `tables` set. Knows nothing of rows.
"""

import re
from dataclasses import dataclass

Entry = tuple[str, ...]
"""A number and its interval, or words. A narrow table puts each part on a line of its own."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    narrow: tuple[str, ...]  # the title in lines, for a narrow table
    number: bool  # numbers stand at the right
    heads: tuple[str, ...] = ()  # above the title, from the top; neighbours with the same share one

    @property
    def whole(self) -> str:
        """Return the title with its heads, for a table that has one line of titles."""
        return ", ".join(filter(None, (*self.heads, self.title)))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table."""

    labels: tuple[str, ...]  # what the line is about
    entries: tuple[Entry, ...]  # one for each column
    notes: tuple[int, ...]  # numbers of its footnotes
    entry_notes: tuple[tuple[int, ...], ...] = ()  # of each entry, where they have footnotes of their own

    def notes_of(self, entry: int) -> tuple[int, ...]:
        """Return the numbers of the footnotes of one entry."""
        return self.entry_notes[entry] if self.entry_notes else ()


@dataclass(frozen=True, slots=True)
class Grid:
    """One table."""

    title: str  # empty for the first table of a document
    label_titles: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    divisible: bool = False  # the columns are alike and may be dealt out over tables below each other
    grouped: int = 0  # labels, from the first, that a terminal shows once above the lines that share them
    left_out: int = 0  # lines that there are beyond these

    @property
    def levels(self) -> int:
        """Return the number of heads that each column has."""
        return len(self.columns[0].heads) if self.columns else 0

    def spans(self, level: int) -> list[tuple[str, int]]:
        """Return the heads of a level, and how many columns each stands above.

        An empty head stands above one column. Equal heads are one only under the same head.
        """
        spans: list[tuple[str, int]] = []
        last: tuple[str, ...] | None = None
        for column in self.columns:
            heads = column.heads[: level + 1]
            if spans and heads == last and heads[level]:
                spans[-1] = (heads[level], spans[-1][1] + 1)
            else:
                spans.append((heads[level], 1))
            last = heads
        return spans

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
    legend: tuple[tuple[str, str], ...] = ()  # marks in the tables, and what each means


class Footnotes:
    """Numbers footnotes in order of their first use; equal texts share a number."""

    def __init__(self) -> None:
        """Start with none."""
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._loose: set[int] = set()

    def add(self, text: str) -> int:
        """Return the number of the footnote `text`."""
        return self._number(text, text)

    def add_like(self, text: str) -> int:
        """Return the number of a footnote that differs from `text` in numbers at most."""
        number = self._number(NUMBER.sub("#", text), text)
        if self._texts[number - 1] != text:
            self._loose.add(number)
        return number

    def texts(self) -> tuple[str, ...]:
        """Return the footnotes; the first is number 1."""
        loose = " (an example: the number differs)"
        return tuple(text + loose * (n in self._loose) for n, text in enumerate(self._texts, 1))

    def _number(self, key: str, text: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._texts.append(text)
        return self._numbers[key]


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.\]])", re.IGNORECASE)
"""A number in a sentence; neither an index in brackets nor a part of a name."""
