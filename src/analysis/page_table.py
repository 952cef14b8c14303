"""The table of all cells as data that a page can sort and filter: numbers beside their words.

Every value of a row is a string or a number here; the page shows strings as text and never as HTML.
"""

from collections.abc import Callable, Mapping
from typing import Any

from src.analysis import contents, doubts
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.contents import CONTENTS, Content, Number
from src.analysis.grid import outcome_entry
from src.analysis.outcomes import OK, TRACED
from src.analysis.summary import Summary

_NUMBERS = (
    *("eager_us", "eager_best_us", "compiled_us", "speedup", "speedup_vs_best", "recompiles"),
    *("compiled_attained", "compile_s", "compile_warm_s", "break_even_steps", "break_even_warm_steps"),
)
"""Contents that have a column where any cell has one."""

_DIGITS = 6
"""Digits of a number that a column sorts by; its words have three."""


def table_of(summary: Summary) -> dict[str, Any]:
    """Return the table: `labels` and `columns` with their titles, `rows`, and the texts of `notes`.

    A row has `l`, for each label the number of its text; `e`, for each column `[value, text, interval]`
    or None; `o`, the number of its outcome; `n`, numbers of its notes. Equal texts are there once.
    """
    columns = {name: [_entry(CONTENTS[name], cell) for cell in summary.cells] for name in _NUMBERS}
    columns = {name: entries for name, entries in columns.items() if any(entries)}
    labels = [_Texts() for _ in summary.shown]
    outcomes, notes = _Texts(), _Texts()
    rows = []
    for index, cell in enumerate(summary.cells):
        rows.append(
            {
                "l": [
                    texts.number(axis.labels[index])
                    for texts, axis in zip(labels, summary.shown, strict=True)
                ],
                "e": [entries[index] for entries in columns.values()],
                "o": outcomes.number(_outcome(cell)),
                "n": [notes.number(fmt.plain(text)) for text in _notes(cell)],
            }
        )
    return {
        "labels": [
            {"title": fmt.plain(axis.title), "texts": texts.all}
            for texts, axis in zip(labels, summary.shown, strict=True)
        ],
        "columns": [{"title": CONTENTS[name].title, "meaning": CONTENTS[name].meaning} for name in columns],
        "outcomes": outcomes.all,
        "notes": notes.all,
        "rows": rows,
    }


class _Texts:
    """Texts in the order of their first use, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        return list(self._numbers)


def _entry(content: Content, cell: Cell) -> list[Any] | None:
    """Return what a column sorts by, shows, and shows smaller; a range of counts sorts by its most."""
    number = content.number(cell) if content.number else None
    if number is None:
        return None
    value = number.high if number.value is None else number.value
    return [_rounded(value), _words(content.kind, number), contents.spread(content.kind, number)]


def _rounded(value: float | None) -> float | None:
    """Return what a column sorts by: no longer than tells cells apart whose words differ."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _words(kind: str, number: Number) -> str:
    """Return a number with the unit that suits it, since a column of a page may span models of all sizes."""
    if number.value is None:
        return contents.shown(kind, number, contents.UNITS[kind][0])
    kinds: Mapping[str, Callable[[float], str]] = {
        "us": fmt.time_us,
        "s": fmt.time_s,
        "steps": fmt.count,
        "part": lambda value: f"{fmt.percent(value)} %",
    }
    if kind in kinds:
        return kinds[kind](number.value)
    return contents.shown(kind, number, contents.UNITS[kind][0]) + ("x" if kind == "ratio" else "")


def _outcome(cell: Cell) -> str:
    words = " ".join(outcome_entry(cell))
    return TRACED if words == fmt.NONE and TRACED in cell.outcomes else words


def _notes(cell: Cell) -> list[str]:
    """Return what a reader must know of the cell, and how many runs there are where it is not one."""
    notes = list(doubts.doubts_of(cell))
    if len(cell.outcomes) > 1:
        used = cell.outcomes.count(OK) or cell.used
        notes.insert(0, f"{used} of {len(cell.outcomes)} runs are in the numbers")
    if cell.best is not None:
        notes.append(f"best eager implementation: {' or '.join(map(fmt.plain, cell.best.names))}")
    return notes
