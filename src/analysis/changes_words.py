"""The sentences around the tables of a comparison: what is compared, what differs, what was left out."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from src.analysis import format as fmt
from src.analysis.axes import USUAL
from src.analysis.cells import Cell
from src.analysis.changes import FAMILY, ORDER, Comparison, Difference
from src.analysis.changes_estimates import PROCESS_SPREAD
from src.analysis.changes_traces import recompiles_of, same_steps
from src.analysis.outcomes import OK, TRACED
from src.analysis.summary import Summary


def head(comparison: Comparison, filters: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences above the tables; `filters` are the conditions that the rows met."""
    lines = [f"Base: {_runs(comparison.base)}. New: {_runs(comparison.new)}."]
    if filters:
        lines.append("Only rows with " + ", ".join(map(fmt.plain, filters)) + ".")
    numbers = [f"{_counted(len(comparison.changes), 'cell')} on both sides"]
    if comparison.vanished:
        numbers.append(f"{len(comparison.vanished)} in the base alone")
    if comparison.appeared:
        numbers.append(f"{len(comparison.appeared)} in the new side alone")
    lines.append(", ".join(numbers) + ".")
    if comparison.changes:
        lines.append(_differs(comparison))
    same = [f"{title}={value}" for title, value in comparison.constant if _telling(title, value)]
    if same:
        lines.append("The same in all: " + ", ".join(same) + ".")
    if any(change.base or change.new for change in comparison.changes):
        lines.append(_method(comparison))
        lines.append(_counts(comparison))
    return tuple(lines)


def _runs(side: Summary) -> str:
    outcomes = Counter(outcome for cell in side.cells for outcome in cell.outcomes)
    counts = ", ".join(f"{n} {fmt.plain(kind).replace('_', ' ')}" for kind, n in outcomes.items())
    return f"{_counted(side.rows, 'run')} in {_counted(len(side.cells), 'cell')} ({counts})"


def _telling(title: str, value: str) -> bool:
    return value not in ("null", fmt.NONE) and (title, value) not in USUAL


def _differs(comparison: Comparison) -> str:
    """Return the facts that differ, with the number of cells where it is not all of them."""
    total = len(comparison.changes)
    words = []
    for fact in comparison.differs:
        some = f" (in {fact.pairs} of {total} cells)" if fact.pairs not in (None, total) else ""
        words.append(f"{fmt.plain(fact.name)} {_values(fact, fact.base)} -> {_values(fact, fact.new)}{some}")
    return (
        "Differs: " + "; ".join(words) + "."
        if words
        else "No recorded fact of the machine or versions differs."
    )


def _values(fact: Difference, values: Sequence[Any]) -> str:
    if not values:
        return "unknown" if "." in fact.name else "null"
    if fact.name == "stepsweep_commit":
        values = [re.sub(r"^([0-9a-f]{9})[0-9a-f]*", r"\1", str(value)) for value in values]
    shown = [f"{v:g}" if isinstance(v, float) else fmt.shorten(fmt.value(v), 60) for v in values[:3]]
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return ", ".join(shown) + more


def _method(comparison: Comparison) -> str:
    effects = sorted({change.min_effect for change in comparison.changes if change.p is not None})
    metric = comparison.metric
    better = "more" if metric.more_is_better else "less"
    words = f"{metric.name}: {metric.words}; {better} is better. Changes are new / base with 95 % intervals."
    if not effects:
        return words
    limits = " to ".join(dict.fromkeys(f"{100 * effect:g} %" for effect in (effects[0], effects[-1])))
    family = f" by Holm's rule for {comparison.tested} tested cells" if comparison.tested > 1 else ""
    return (
        f"{words} A regression or an improvement is a change of more than min_effect ({limits}) at "
        f"{100 * FAMILY:.0f} %{family}: where nothing changed, one is told in {100 * FAMILY:.0f} % of all "
        "comparisons at most."
    )


def _counts(comparison: Comparison) -> str:
    counts = Counter(change.verdict for change in comparison.changes)
    words = [f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict]]
    return "Verdicts: " + ", ".join(words) + "."


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """Return the sentences below the tables."""
    changes, metric = comparison.changes, comparison.metric
    words = []
    if not changes:
        words.append(_nothing_common(comparison))
    absent = sum(c.base is None and c.new is None for c in changes)
    if absent:
        whole = absent == len(changes)
        which = (
            "No matched cell has"
            if whole
            else f"Not in the table: {_counted(absent, 'matched cell')} without"
        )
        words.append(f"{which} {metric.name} on either side.")
    if any(m and m.assumed and not metric.arm for c in changes for m in (c.base, c.new)):
        words.append(
            "Rows of one process from before process_spread was recorded are taken to have "
            f"{100 * PROCESS_SPREAD['cuda']:g} % on a GPU and {100 * PROCESS_SPREAD['cpu']:g} % on a CPU."
        )
    if metric.arm and changes:
        words.append(
            "Times of different processes: the intervals know by how much a run of the same step was seen to "
            "differ from another, which rows do not tell (docs/method.md). Prefer speedups."
        )
    words += _about_recompiles(comparison)
    for side, cells in (("the base", comparison.vanished), ("the new side", comparison.appeared)):
        if cells and changes:
            names = [f"{label or 'the only cell'}{_outcome(cell)}" for label, cell in cells]
            words.append(f"In {side} alone ({len(cells)}): {fmt.listed(names)}.")
    return tuple(words)


def _about_recompiles(comparison: Comparison) -> list[str]:
    counted = [c for c in comparison.changes if c.base_cell.trace.recompiles and c.new_cell.trace.recompiles]
    alike = [c for c in counted if same_steps(c.base_cell, c.new_cell)]
    words = []
    if alike and not any(recompiles_of(c.base_cell, c.new_cell) for c in alike):
        words.append(f"Recompiles are the same on both sides ({_counted(len(alike), 'cell')}).")
    if len(alike) < len(counted):
        number = _counted(len(counted) - len(alike), "cell")
        words.append(
            f"Recompiles of {number} were counted over other numbers of steps, and are not compared."
        )
    return words


def _nothing_common(comparison: Comparison) -> str:
    base, new = (
        fmt.listed([f"{label or 'the only cell'}{_outcome(cell)}" for label, cell in cells], 3)
        for cells in (comparison.vanished, comparison.appeared)
    )
    return f"No cell is on both sides. Base: {base}. New: {new}."


def _outcome(cell: Cell) -> str:
    bad = [
        fmt.plain(outcome).replace("_", " ")
        for outcome in dict.fromkeys(cell.outcomes)
        if outcome not in (OK, TRACED)
    ]
    return f" ({', '.join(bad)})" if bad else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
