"""A document with no more lines than a reader reads: the first of each table, and where the others are.

Twenty thousand cells are no table for a terminal or a page. What is cut takes its footnotes with it.
Knows nothing of rows or of formats.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

from src.analysis.document import Document, Grid, Line

LINES = 200
"""Lines of a table unless asked for otherwise."""


def lines(text: str) -> int | None:
    """Return how many lines of a table `--lines` asks for, None for all of them.

    Raises:
        argparse.ArgumentTypeError: it is neither `all` nor a whole number from 1 on.
    """
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, or all: got {text!r}")
    return int(text)


def cut(
    document: Document, most: int | None, whole: str, how: str = "; --lines all shows every line"
) -> Document:
    """Return the document with the first `most` lines of each table, and a remark on what is left out.

    Args:
        document: its tables may lack lines already, as `Grid.left_out` tells.
        most: lines of a table; None leaves all that are there.
        whole: where the numbers of all lines stand, such as a name of a file.
        how: what a reader can do to see them here, after that.
    """
    grids = tuple(_cut(grid, most) for grid in document.grids)
    if not any(grid.left_out for grid in grids):
        return document
    used = {note for grid in grids for line in grid.lines for note in _notes(line)}
    unused = {note for grid in document.grids for line in grid.lines for note in _notes(line)} - used
    kept = [number for number in range(1, len(document.footnotes) + 1) if number not in unused]
    new = {old: number for number, old in enumerate(kept, 1)}
    return replace(
        document,
        grids=tuple(
            replace(grid, lines=tuple(_renumbered(line, new) for line in grid.lines)) for grid in grids
        ),
        remarks=(*_remarks(grids, whole + how), *document.remarks),
        footnotes=tuple(document.footnotes[number - 1] for number in kept),
    )


def _cut(grid: Grid, most: int | None) -> Grid:
    more = 0 if most is None else max(0, len(grid.lines) - most)
    return replace(grid, lines=grid.lines[:most], left_out=grid.left_out + more) if more else grid


def _notes(line: Line) -> Iterator[int]:
    yield from line.notes
    for notes in line.entry_notes:
        yield from notes


def _renumbered(line: Line, new: dict[int, int]) -> Line:
    return replace(
        line,
        notes=tuple(new[note] for note in line.notes),
        entry_notes=tuple(tuple(new[note] for note in notes) for notes in line.entry_notes),
    )


def _remarks(grids: tuple[Grid, ...], whole: str) -> Iterator[str]:
    for grid in grids:
        if grid.left_out:
            shown, total = len(grid.lines), len(grid.lines) + grid.left_out
            of = f"of the table {grid.title!r}" if grid.title else "of the table"
            yield (
                f"The first {shown:,} of {total:,} lines {of}: {grid.left_out:,} more are left out. "
                f"All cells are in {whole}."
            )
