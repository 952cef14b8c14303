"""When a comparison fails a check: `--fail-on regression:5%`. Knows nothing of tables or files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from src.analysis import format as fmt
from src.analysis.cells import OK
from src.analysis.changes import REGRESSION, Comparison
from src.analysis.changes_traces import good, recompiles_of, same_steps

CONDITIONS = ("regression", "regression:PERCENT%", "recompiles", "failed", "vanished")


class ConditionError(ValueError):
    """There is no such condition; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What makes a comparison fail."""

    kind: str
    beyond: float  # part by which a regression must be worse at its centre


def condition(text: str) -> Condition:
    """Parse `regression`, `regression:5%`, `recompiles`, `failed` or `vanished`.

    Raises:
        ConditionError: it is none of them.
    """
    kind, colon, limit = text.partition(":")
    if kind not in _FOUND or (colon and kind != "regression"):
        raise ConditionError(f"--fail-on must be one of {', '.join(CONDITIONS)}: got {text!r}")
    if not colon:
        return Condition(kind, 0.0)
    try:
        percent = float(limit.removesuffix("%")) if limit.endswith("%") else -1.0
    except ValueError:
        percent = -1.0
    if not 0 <= percent < float("inf"):
        raise ConditionError(f"--fail-on regression:PERCENT% must be such as regression:5%: got {text!r}")
    return Condition(kind, percent / 100)


def failures(comparison: Comparison, conditions: Sequence[Condition]) -> list[str]:
    """Return a sentence for each condition that is met, with the cells that meet it.

    A check that cannot be made must not pass: of a regression where the base has the metric and no test
    could be made, of recompiles where they were not counted, or over other steps.
    """
    sentences = []
    for asked in conditions:
        cells = [label or "the only cell" for label in _FOUND[asked.kind](comparison, asked)]
        if cells:
            limit = f" beyond {100 * asked.beyond:g} %" if asked.beyond else ""
            sentences.append(f"{asked.kind}{limit} in {len(cells)}: {fmt.listed(cells)}")
        unchecked = _UNCHECKED[asked.kind](comparison) if asked.kind in _UNCHECKED else []
        if asked.kind == "regression" and not comparison.tested:
            sentences.append(f"{asked.kind}: no cell could be tested")
        elif unchecked:
            told = fmt.listed([label or "the only cell" for label in unchecked])
            sentences.append(f"{asked.kind}: {len(unchecked)} could not be checked: {told}")
    return sentences


def _regressions(comparison: Comparison, asked: Condition) -> list[str]:
    return [
        ", ".join(change.labels)
        for change in comparison.of(REGRESSION)
        if change.worse_by(comparison.metric) > asked.beyond
    ]


def _recompiles(comparison: Comparison, _: Condition) -> list[str]:
    found = ((c, recompiles_of(c.base_cell, c.new_cell)) for c in comparison.changes)
    return [", ".join(change.labels) for change, counts in found if counts and counts.more]


def _failed(comparison: Comparison, _: Condition) -> list[str]:
    """Return the cells that were measured well and are no longer: also those without the times they had."""
    return [
        ", ".join(c.labels)
        for c in comparison.changes
        if (good(c.base_cell) and not good(c.new_cell))
        or (OK in c.base_cell.outcomes and OK not in c.new_cell.outcomes)
    ]


def _untested(comparison: Comparison) -> list[str]:
    return [", ".join(c.labels) for c in comparison.changes if c.p is None and c.base is not None]


def _uncounted(comparison: Comparison) -> list[str]:
    return [
        ", ".join(c.labels)
        for c in comparison.changes
        if c.base_cell.trace.recompiles is not None
        and (c.new_cell.trace.recompiles is None or not same_steps(c.base_cell, c.new_cell))
    ]


def _vanished(comparison: Comparison, _: Condition) -> list[str]:
    return [label for label, _cell in comparison.vanished]


_FOUND: Mapping[str, Callable[[Comparison, Condition], list[str]]] = {
    "regression": _regressions,
    "recompiles": _recompiles,
    "failed": _failed,
    "vanished": _vanished,
}

_UNCHECKED: Mapping[str, Callable[[Comparison], list[str]]] = {
    "regression": _untested,
    "recompiles": _uncounted,
}
