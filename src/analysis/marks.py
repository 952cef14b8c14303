"""What the traces of a cell found, in a few characters, and which of a few kinds of finding it is.

What the recompile matrix prints and its chart colours.
"""

from bisect import bisect_left
from collections.abc import Sequence

from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.doubts import parity_failures
from src.analysis.outcomes import INVALID, NOT_TIMED, OK, TRACED

LEGEND = {
    "n": "recompiles after the first compilation",
    "n-m": "fewest and most over the runs of the entry, where they differ",
    "n@s": "torch's recompile limit was reached: step s, counted from 0, was the first to run eager",
    "n*": "torch's recompile limit was reached: steps ran eager, it is not known from which one on",
    "n+": "it did not stop compiling",
    "n~": "operations of the step ran outside the compiled graphs",
    "-": "torch compiled no graph with operations: the step ran eager",
    "x": "compiled and eager steps gave different parameters or state",
    "?": "measured, recompiles not counted",
    "u": "unsupported: cannot work here",
    "e": "excluded",
    "!": "failed, timed out, crashed or interrupted",
    "blank": "not run",
}
"""Each mark, and what it means."""

COUNTS = ("0", "1", "2 or 3", "4 or more")
FALLBACK, ENDLESS, NOTHING = "fell back to eager (@step)", "did not stop (+)", "nothing compiled (-)"
WRONG, FAILED, IMPOSSIBLE, UNCOUNTED = (
    "wrong result (x)",
    "failed (!)",
    "cannot work (u, e)",
    "not counted (?)",
)
KINDS = (*COUNTS, FALLBACK, ENDLESS, NOTHING, WRONG, FAILED, IMPOSSIBLE, UNCOUNTED)
"""What `kind` gives: numbers of recompiles, or what a reader must know before them."""

MEASURED = (OK, TRACED, INVALID, NOT_TIMED)
"""Outcomes of rows whose run came to its end."""

_OF_STATUS = {"unsupported": "u", "excluded": "e"}
_KIND_OF_MARKS = (
    (("x",), WRONG),
    (("!",), FAILED),
    (("n@s", "n*"), FALLBACK),
    (("n+",), ENDLESS),
    (("-",), NOTHING),
)
"""The first that applies, the worst first."""


def entry(cells: Sequence[Cell]) -> tuple[str, frozenset[str]]:
    """Return what stands for cells in one place of the matrix, and the marks of `LEGEND` in it."""
    used: set[str] = set()
    text = "/".join(_counted(cell, used) + _marked(cell, used) for cell in cells)
    return text, frozenset(used)


def kind(cells: Sequence[Cell]) -> str:
    """Return the one of `KINDS` that cells in one place are, by the worst of them.

    Raises:
        ValueError: there are no cells.
    """
    if not cells:
        raise ValueError("cells must not be empty")
    _, used = entry(cells)
    for marks, name in _KIND_OF_MARKS:
        if used.intersection(marks):
            return name
    counts = [cell.trace.recompiles[1] for cell in cells if cell.trace.recompiles is not None]
    if not counts:
        return UNCOUNTED if "?" in used else IMPOSSIBLE
    return COUNTS[bisect_left((0, 1, 3), max(counts))]


def _counted(cell: Cell, used: set[str]) -> str:
    """Return the count of recompiles and where the step left the compiled graphs."""
    trace = cell.trace
    if trace.recompiles is None:
        missing = "?" if any(outcome in MEASURED for outcome in cell.outcomes) else ""
        used.update(missing)
        return missing
    if trace.nothing_compiled == (True,) or trace.paths == ("never_compiled",):
        used.add("-")
        return "-"
    used.add("n" if trace.recompiles[0] == trace.recompiles[1] else "n-m")
    text = fmt.count_range(trace.recompiles)
    if trace.limit_hit:
        steps = (min(trace.eager_from), max(trace.eager_from)) if trace.eager_from else None
        used.add("n@s" if steps else "n*")
        return text + (f"@{fmt.count_range(steps)}" if steps else "*")
    for path, mark in (("recompiling", "+"), ("partly", "~"), ("never_compiled", "/-")):
        if path in trace.paths:
            used.add("-" if mark == "/-" else f"n{mark}")
            text += mark
    return text


def _marked(cell: Cell, used: set[str]) -> str:
    """Return the marks of what went wrong in any run of the cell."""
    marks = ["x"] if parity_failures(cell) else []
    marks += [_OF_STATUS.get(outcome, "!") for outcome in cell.outcomes if outcome not in MEASURED]
    used.update(marks)
    return "".join(dict.fromkeys(marks))
