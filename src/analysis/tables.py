"""A document as Markdown, and a summary as plain numbers for CSV and Parquet."""

import re
from typing import Any

import pyarrow as pa

from src import record
from src.analysis import explanation
from src.analysis.cells import CELL_FACTS, Cell
from src.analysis.contents import INTERVALS
from src.analysis.document import Document, Line
from src.analysis.summary import Summary


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


def to_table(summary: Summary) -> pa.Table:
    """Return one row for each cell, as numbers with their unit in the name of the column."""
    types = {field.name: field.type for field in record.schema(documented=False)}
    fields = [(name, types[name]) for name in CELL_FACTS]
    fields += [("runs", pa.int64()), ("runs_used", pa.int64())]
    fields += [(name, pa.string()) for name in ("outcome", "verdict", "reasons", "warnings")]
    fields += [(name, pa.string()) for name in ("eager_best", "verdict_vs_best", "processes")]
    for name in INTERVALS:
        fields += [(f"{name}{end}", pa.float64()) for end in ("", "_low", "_high")]
    fields += [(f"{name}{end}", pa.int64()) for name in ("recompiles", "graphs") for end in ("_low", "_high")]
    fields += [(name, pa.string()) for name in _texts(summary.cells[0])]
    fields += [
        (name, pa.string() if name.endswith("_bound") else types[name]) for name in explanation.COLUMNS
    ]
    return pa.Table.from_pylist([_numbers(cell) for cell in summary.cells], schema=pa.schema(fields))


def _numbers(cell: Cell) -> dict[str, Any]:
    low, high = cell.trace.recompiles or (None, None)
    fewest, most = cell.trace.graphs or (None, None)
    row = {
        **cell.facts,
        "runs": len(cell.outcomes),
        "runs_used": cell.used,
        "outcome": "; ".join(dict.fromkeys(cell.outcomes)),
        "verdict": cell.verdict,
        "eager_best": "; ".join(cell.best.names) if cell.best else None,
        "verdict_vs_best": cell.best.verdict if cell.best else None,
        "processes": "; ".join(map(str, cell.processes)) or None,
        "reasons": "; ".join(cell.reasons) or None,
        "warnings": "; ".join(cell.warnings) or None,
        "recompiles_low": low,
        "recompiles_high": high,
        "graphs_low": fewest,
        "graphs_high": most,
        **{name: "; ".join(dict.fromkeys(texts)) or None for name, texts in _texts(cell).items()},
        **_explained(cell),
    }
    for name, of in INTERVALS.items():
        interval = of(cell)
        if interval is not None:
            row |= {name: interval.center, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row


def _explained(cell: Cell) -> dict[str, Any]:
    """Return the columns that explain the times; the numbers of several rows are put together."""
    row: dict[str, Any] = {name: getattr(cell.why, name) for name in explanation.OF_STEP}
    for arm, facts in cell.why.arms.items():
        row |= {f"{arm}_{end}": getattr(facts, end) for end in explanation.OF_ARM if end != "bound"}
        row[f"{arm}_bound"] = "; ".join(facts.bounds) or None
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
