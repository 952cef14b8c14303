"""A document as Markdown or LaTeX, and a summary as plain numbers for CSV and Parquet."""

import io
import re
from typing import Any

import pyarrow as pa
from pyarrow import csv

from src import record
from src.analysis.cells import CELL_FACTS, Cell
from src.analysis.document import Document, Grid, Line
from src.analysis.summary import Summary
from src.stats import Interval

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


def to_table(summary: Summary) -> pa.Table:
    """Return one row for each cell, as numbers with their unit in the name of the column."""
    types = {field.name: field.type for field in record.schema(documented=False)}
    fields = [(name, types[name]) for name in CELL_FACTS]
    fields += [("runs", pa.int64()), ("runs_used", pa.int64())]
    fields += [(name, pa.string()) for name in ("outcome", "verdict", "reasons", "warnings")]
    for name in _INTERVALS:
        fields += [(f"{name}{end}", pa.float64()) for end in ("", "_low", "_high")]
    fields += [(f"{name}{end}", pa.int64()) for name in ("recompiles", "graphs") for end in ("_low", "_high")]
    fields += [(name, pa.string()) for name in _texts(summary.cells[0])]
    return pa.Table.from_pylist([_numbers(cell) for cell in summary.cells], schema=pa.schema(fields))


_INTERVALS = {
    "eager_us": "eager",
    "compiled_us": "compiled",
    "speedup": "speedup",
    "eager_after_compile_us": "eager_after_compile",
    "compile_s": "compile_s",
    "break_even_steps": "break_even",
}


def _numbers(cell: Cell) -> dict[str, Any]:
    low, high = cell.trace.recompiles or (None, None)
    fewest, most = cell.trace.graphs or (None, None)
    row = {
        **cell.facts,
        "runs": len(cell.outcomes),
        "runs_used": cell.used,
        "outcome": "; ".join(dict.fromkeys(cell.outcomes)),
        "verdict": cell.verdict,
        "reasons": "; ".join(cell.reasons) or None,
        "warnings": "; ".join(cell.warnings) or None,
        "recompiles_low": low,
        "recompiles_high": high,
        "graphs_low": fewest,
        "graphs_high": most,
        **{name: "; ".join(dict.fromkeys(texts)) or None for name, texts in _texts(cell).items()},
    }
    for name, field in _INTERVALS.items():
        interval: Interval | None = getattr(cell, field)
        if interval is not None:
            row |= {name: interval.center, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row


def _texts(cell: Cell) -> dict[str, tuple[str, ...]]:
    trace = cell.trace
    return {
        "recompile_reasons": trace.reasons,
        "recompile_causes": trace.causes,
        "compiled_path": trace.paths,
        "eager_path": trace.eager_paths,
        "parity": trace.parities,
        "parity_reason": trace.parity_reasons,
        "code_hash": trace.code_hashes,
        "hint": cell.hints,
    }


def to_csv(summary: Summary) -> str:
    """Return `to_table` as CSV; null is an empty field."""
    buffer = io.BytesIO()
    csv.write_csv(to_table(summary), buffer)
    return buffer.getvalue().decode()
