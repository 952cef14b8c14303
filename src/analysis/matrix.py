"""The recompile matrix: optimizers and kinds of learning rate against schedulers.

One entry says in a few characters what the traces of a cell found; footnotes say why.
"""

import csv
import io
from collections.abc import Mapping, Sequence

from src.analysis import format as fmt
from src.analysis import marks
from src.analysis.axes import Axis
from src.analysis.cells import Cell
from src.analysis.document import Column, Document, Footnotes, Grid, Line
from src.analysis.doubts import parity_failures
from src.analysis.grid import selection_head, steps_words, title_of
from src.analysis.recompiles import main_cause
from src.analysis.spreadsheet import guarded
from src.analysis.summary import Summary

_SIDES = ("optimizer", "lr", "scheduler")
_TITLE_WIDTH = 10  # of a scheduler's name, above which it goes over several lines


class MatrixError(ValueError):
    """The rows make no matrix; the message says what they lack."""


def matrix_of(summary: Summary, filters: Sequence[str] = ()) -> Document:
    """Return a matrix of recompiles for each combination of the axes that are not its sides.

    Its columns are the schedulers, or the kinds of learning rate where only one scheduler was run.

    Raises:
        MatrixError: fewer than two of optimizer, scheduler and lr vary, or no recompile is counted.
    """
    lacking = _lacking(summary)
    if lacking:
        raise MatrixError(lacking)
    notes, used = Footnotes(), set[str]()
    across, sides, groups = layout(summary)
    grids = tuple(
        _grid(summary, members, title, across=across, sides=sides, notes=notes, used=used)
        for title, members in groups.items()
    )
    if any(not any(entry) for grid in grids for line in grid.lines for entry in line.entries):
        used.add("blank")
    steps = steps_words(summary)
    sentence = f"Recompiles are counted over {steps}." if steps else ""
    return Document(
        f"Recompiles: {title_of(summary)}",
        tuple(filter(None, (*selection_head(summary, filters), sentence))),
        grids,
        (),
        notes.texts(),
        tuple((mark, meaning) for mark, meaning in marks.LEGEND.items() if mark in used),
    )


def has_matrix(summary: Summary) -> bool:
    """Return whether `matrix_of` gives a matrix."""
    return not _lacking(summary)


def to_csv(document: Document) -> str:
    """Return the matrices as one CSV, with the combination that each line belongs to in its first column."""
    columns = list(dict.fromkeys(column.title for grid in document.grids for column in grid.columns))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(guarded, ["combination", *document.grids[0].label_titles, *columns]))
    for grid in document.grids:
        for line in grid.lines:
            entries = dict(zip((c.title for c in grid.columns), map("".join, line.entries), strict=True))
            fields = [grid.title, *line.labels, *(entries.get(title, "") for title in columns)]
            writer.writerow(map(guarded, fields))
    return buffer.getvalue()


def _lacking(summary: Summary) -> str:
    """Return what the rows lack for a matrix, empty when nothing is lacking."""
    varying = [axis.title for axis in summary.axes if axis.title in _SIDES and axis.varies]
    if len(varying) < 2:
        only = varying[0] if varying else "none"
        return f"a matrix needs two of optimizer, scheduler and lr that vary: here {only} does"
    if all(cell.trace.recompiles is None for cell in summary.cells):
        return "a matrix of recompiles needs rows that counted them: here none did"
    return ""


def layout(summary: Summary) -> tuple[Axis, tuple[Axis, ...], Mapping[str, list[int]]]:
    """Return the axis of the columns, those of the lines, and the cells of each combination of the others."""
    axes = {axis.title: axis for axis in summary.axes}
    across = axes["scheduler"] if axes["scheduler"].varies else axes["lr"]
    sides = [axes[title] for title in ("optimizer", "lr") if axes[title] is not across]
    sides = [axis for axis in sides if axis.varies] or sides[:1]
    others = [axis for axis in summary.shown if axis.title not in _SIDES]
    groups: dict[str, list[int]] = {}
    for index in range(len(summary.cells)):
        title = ", ".join(f"{axis.title}={axis.labels[index]}" for axis in others)
        groups.setdefault(title, []).append(index)
    return across, tuple(sides), groups


def _grid(
    summary: Summary,
    members: Sequence[int],
    title: str,
    *,
    across: Axis,
    sides: Sequence[Axis],
    notes: Footnotes,
    used: set[str],
) -> Grid:
    here = {across.labels[index] for index in members}
    names = [name for name in across.values if name in here]
    places: dict[tuple[str, ...], dict[str, list[Cell]]] = {}
    for index in members:
        line = places.setdefault(tuple(axis.labels[index] for axis in sides), {})
        line.setdefault(across.labels[index], []).append(summary.cells[index])
    lines = []
    for labels, line in places.items():
        found = [marks.entry(line.get(name, [])) for name in names]
        used.update(*(of_entry for _, of_entry in found))
        noted = [_notes(line.get(name, []), notes) for name in names]
        lines.append(Line(labels, tuple((text,) for text, _ in found), (), tuple(noted)))
    columns = tuple(Column(name, _pieces(name), number=False) for name in names)
    return Grid(title, tuple(axis.title for axis in sides), columns, tuple(lines), divisible=True)


def _notes(cells: Sequence[Cell], notes: Footnotes) -> tuple[int, ...]:
    texts = []
    for cell in cells:
        if any(outcome not in marks.MEASURED for outcome in cell.outcomes):
            texts += [fmt.shorten(text, 240) for text in cell.reasons]
        texts += parity_failures(cell)
        cause = main_cause(cell.trace)
        if cause and cell.trace.recompiles != (0, 0):
            texts.append(cause)
    return tuple(dict.fromkeys(notes.add_like(text) for text in texts))


def _pieces(name: str) -> tuple[str, ...]:
    """Return a name in lines of about `_TITLE_WIDTH`, cut after what parts its words."""
    pieces = [""]
    word = ""
    for place, character in enumerate(name, 1):
        word += character
        if character in "_(, " or place == len(name):
            if pieces[-1] and len(pieces[-1] + word.rstrip()) > _TITLE_WIDTH:
                pieces.append("")
            pieces[-1] += word
            word = ""
    return tuple(piece.rstrip() for piece in pieces)
