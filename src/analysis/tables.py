"""A document as Markdown."""

import re

from src.analysis.document import Document, Line


def escape_markdown(text: str) -> str:
    """Return `text` such that Markdown prints it as it is, also in a table."""
    text = re.sub(r"([\\`*<>|\[\]])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


def to_markdown(document: Document) -> str:
    """Return the document as GitHub Markdown."""
    from tabulate import tabulate  # noqa: PLC0415 - not needed for the terminal

    parts = [f"## {escape_markdown(document.title)}", *map(escape_markdown, document.head)]
    for grid in document.grids:
        if grid.title:
            parts.append(f"### {escape_markdown(grid.title)}")
        titles = [
            *map(escape_markdown, grid.label_titles),
            *(escape_markdown(column.whole) for column in grid.columns),
        ]
        rows = [_markdown_row(line, grid.note_at) for line in grid.lines]
        align = ["left"] * len(grid.label_titles) + ["right" if c.number else "left" for c in grid.columns]
        parts.append(tabulate(rows, titles, tablefmt="pipe", colalign=align, disable_numparse=True))
    parts += map(escape_markdown, document.remarks)
    if document.legend:
        marks = (f"- `{mark}`: {escape_markdown(text)}" for mark, text in document.legend)
        parts.append("\n".join(marks))
    notes = [f"- <sup>{n}</sup> {escape_markdown(text)}" for n, text in enumerate(document.footnotes, 1)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def _markdown_row(line: Line, note_at: int) -> list[str]:
    def sup(notes: tuple[int, ...]) -> str:
        return f" <sup>{', '.join(map(str, notes))}</sup>" if notes else ""

    entries = [escape_markdown(" ".join(p)) + sup(line.notes_of(i)) for i, p in enumerate(line.entries)]
    cells = [*map(escape_markdown, line.labels), *entries]
    cells[note_at] += sup(line.notes)
    return cells
