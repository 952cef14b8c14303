"""A document as Markdown or LaTeX, and a table of plain numbers as CSV."""

import io
import re

import pyarrow as pa
from pyarrow import csv

from src.analysis.document import Document, Grid, Line

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after a line's \\ a bare bracket would be its optional argument
    "]": "{]}",
    "±": r"$\pm$",
}


def escape_latex(text: str) -> str:
    """Return `text` such that LaTeX prints it as it is."""
    return "".join(_LATEX.get(character, character) for character in text)


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
        titles = [*grid.label_titles, *(escape_markdown(column.title) for column in grid.columns)]
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


def to_latex(document: Document) -> str:
    r"""Return the document as LaTeX: tabulars for `booktabs`, the footnotes below them.

    What stands above the tables becomes comments, to be used in a caption.
    """
    turned = ",graphicx" if any(grid.divisible for grid in document.grids) else ""
    parts = [rf"% needs \usepackage{{booktabs,textcomp{turned}}} and, for other than ASCII, a UTF-8 LaTeX"]
    parts += [f"% {text}" for text in (document.title, *document.head)]
    for grid in document.grids:
        if grid.title:
            parts += ["", rf"\medskip\noindent {escape_latex(grid.title)}", ""]
        parts.append(_tabular(grid))
    parts += [f"\n\\medskip\\noindent {escape_latex(text)}" for text in document.remarks]
    if document.legend:
        parts += ["", r"\medskip\noindent{\footnotesize"]
        parts += [rf"{escape_latex(mark)}: {escape_latex(text)}\par" for mark, text in document.legend]
        parts.append("}")
    if document.footnotes:
        parts += ["", r"\medskip\noindent{\footnotesize"]
        parts += [
            rf"\textsuperscript{{{number}}} {escape_latex(text)}\par"
            for number, text in enumerate(document.footnotes, 1)
        ]
        parts.append("}")
    return "\n".join(parts) + "\n"


def _tabular(grid: Grid) -> str:
    import pandas as pd  # noqa: PLC0415 - takes half a second, not needed for the terminal

    above = [escape_latex(column.title) for column in grid.columns]
    if grid.divisible:  # a page has room for many narrow columns, but not for their titles side by side
        above = [rf"\rotatebox{{90}}{{{title}}}" for title in above]
    rows = [_latex_row(line, grid.note_at) for line in grid.lines]
    frame = pd.DataFrame(rows, columns=[*map(escape_latex, grid.label_titles), *above], dtype=object)
    layout = "l" * len(grid.label_titles) + "".join("r" if c.number else "l" for c in grid.columns)
    text = frame.style.hide(axis="index").to_latex(hrules=True, column_format=layout)
    return str(text).rstrip("\n")


def _latex_row(line: Line, note_at: int) -> list[str]:
    def sup(notes: tuple[int, ...]) -> str:
        return rf"\textsuperscript{{{','.join(map(str, notes))}}}" if notes else ""

    entries = [escape_latex(" ".join(p)) + sup(line.notes_of(i)) for i, p in enumerate(line.entries)]
    cells = [*map(escape_latex, line.labels), *entries]
    cells[note_at] += sup(line.notes)
    return cells


def to_csv(table: pa.Table) -> str:
    """Return a table of numbers as CSV; null is an empty field."""
    buffer = io.BytesIO()
    csv.write_csv(table, buffer)
    return buffer.getvalue().decode()
