"""What a sweep says at its end: the same table that `src.aggregate` prints, and what went wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from src import store, vocabulary
from src.analysis import format as fmt
from src.analysis import text
from src.analysis.axes import axes_of
from src.analysis.cells import cells_of
from src.analysis.grid import document_of
from src.analysis.rows import Row
from src.analysis.selection import SelectionError, select
from src.analysis.summary import summarize


@dataclass(frozen=True, slots=True)
class BadRun:
    """A run that makes the sweep's exit code 1."""

    label: str  # number of the run in the sweep, and its values on the axes that vary
    status: str  # a status of `vocabulary.STATUSES`, or "gate failed"
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a sweep."""

    text: str  # the rendered table; why there is none when no row could be read
    rows: int  # how many rows there are
    bad_runs: tuple[BadRun, ...]
    unreadable: dict[Path, str]  # row files that could not be read, and why


def sweep_ending(output_dir: Path, sweep_id: str, width: int, *, unicode: bool = True) -> Ending:
    """Return the table of one sweep, `width` columns wide, and its runs that did not end well."""
    try:
        selection = select(store.sweep_dir(output_dir, sweep_id), everything=True)
    except SelectionError as error:
        return Ending(f"no table: {error}\n", 0, (), {})
    summary = summarize(selection.rows)
    return Ending(
        text=text.render(document_of(summary), width, unicode=unicode),
        rows=len(selection.rows),
        bad_runs=bad_runs(selection.rows),
        unreadable=selection.unreadable,
    )


def bad_runs(rows: Sequence[Row]) -> tuple[BadRun, ...]:
    """Return the runs whose status is not good, and those that failed their gate."""
    axes = axes_of([cell for row in rows for cell in cells_of([row])])
    result = []
    for index, row in enumerate(rows):
        values = ", ".join(a.labels[index] for a in axes if a.varies and a.kind != "machine")
        label = f"run {row['job']}" + (f" ({values})" if values else "")
        if row["status"] not in vocabulary.GOOD_STATUSES:
            result.append(BadRun(label, str(row["status"]), fmt.plain(row["reason"] or "no reason recorded")))
        elif row["gate"] == "failed":
            speedup = "no speedup" if row["speedup"] is None else f"speedup {row['speedup']:.3g}"
            why = f"{speedup}, gate.min_speedup={fmt.value(row['gate_min_speedup'])}"
            result.append(BadRun(label, "gate failed", why))
    return tuple(result)
