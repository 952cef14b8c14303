"""What changed between two sides that is counted or named, not timed: recompiles, paths, parity, status.

Counts are exact: any difference is one. No statistics are needed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from src.analysis import format as fmt
from src.analysis import recompiles
from src.analysis.cells import NOT_TIMED, OK, TRACED, Cell
from src.analysis.traces import Trace

_GOOD = (OK, TRACED, NOT_TIMED)

WHAT = ("status", "parity", "path", "graphs", "eager path", "best eager")
"""What may change in a cell, what matters most first."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Recompiles:
    """A cell whose number of recompiles changed."""

    base: Range  # fewest and most
    new: Range
    cause: str  # of what came or went, empty where none is known

    @property
    def more(self) -> bool:
        """Whether the new side recompiles more often."""
        return self.new[1] > self.base[1] or self.new[0] > self.base[0]


@dataclass(frozen=True, slots=True)
class State:
    """Something with a name that changed in a cell."""

    what: str
    base: str
    new: str
    reason: str  # in words, empty where none is known


def good(cell: Cell) -> bool:
    """Return whether every run of the cell ended well, and its compiled step is valid as far as is known."""
    return all(outcome in _GOOD for outcome in cell.outcomes) and "failed" not in cell.trace.parities


def same_steps(base: Cell, new: Cell) -> bool:
    """Return whether recompiles were counted over the same numbers of steps, where both say so."""
    return not base.trace.steps or not new.trace.steps or set(base.trace.steps) == set(new.trace.steps)


def recompiles_of(base: Cell, new: Cell) -> Recompiles | None:
    """Return the change in recompiles, None where there is none or it cannot be told."""
    before, after = base.trace.recompiles, new.trace.recompiles
    if before is None or after is None or before == after or not same_steps(base, new):
        return None
    found = Recompiles(before, after, "")
    if found.more:
        cause = _commonest(new.trace, base.trace) or recompiles.main_cause(new.trace)
        return Recompiles(before, after, cause or "")
    gone = _commonest(base.trace, new.trace)
    return Recompiles(before, after, f"no more: {gone}" if gone else "")


def states_of(base: Cell, new: Cell) -> list[State]:
    """Return what else changed in a cell, what matters most first."""
    found = [State("status", _outcomes(base), _outcomes(new), _first(new.reasons or base.reasons))]
    if found[0].base == found[0].new:
        found = []
    reasons = new.trace.parity_reasons or base.trace.parity_reasons
    for what, was, is_now, reason in (
        ("parity", base.trace.parities, new.trace.parities, _first(reasons)),
        ("path", base.trace.paths, new.trace.paths, ""),
        ("eager path", base.trace.eager_paths, new.trace.eager_paths, ""),
        ("best eager", base.best.names if base.best else (), new.best.names if new.best else (), ""),
    ):
        if was and is_now and set(was) != set(is_now):
            found.append(State(what, _words(was), _words(is_now), reason))
    before, after = base.trace.graphs, new.trace.graphs
    # With other recompiles there are other graphs: that is told already.
    comparable = base.trace.recompiles == new.trace.recompiles and same_steps(base, new)
    if before and after and before != after and comparable:
        found.append(State("graphs", fmt.count_range(before), fmt.count_range(after), ""))
    return found


def _commonest(trace: Trace, other: Trace) -> str | None:
    """Return the commonest cause of recompiles of a trace beyond those of another."""
    beyond = (Counter(trace.causes) - Counter(other.causes)).most_common(1)
    return fmt.shorten(beyond[0][0], 80) if beyond else None


def _outcomes(cell: Cell) -> str:
    """Return what became of the runs: one word, or each with its number."""
    counts = Counter(cell.outcomes)
    if len(counts) == 1:
        return _words(list(counts))
    return ", ".join(f"{_words([kind])} {n}" for kind, n in counts.items())


def _words(names: Sequence[str]) -> str:
    return " or ".join(fmt.plain(name).replace("_", " ") for name in names)


def _first(texts: Sequence[str]) -> str:
    return fmt.shorten(texts[0], 240) if texts else ""
