"""Rows to cells: rows that measured the same thing on the same machine become one number.

A row that did not end `ok`, or whose verdict is `invalid`, is counted and named but its times never
enter a number. What its trace counted is a fact all the same: recompiles are often why it is invalid.
A cell is little more than its rows: what it says is computed when it is asked for, its numbers for all cells
at once. Knows nothing of files, tables or formats.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from src import record, stats
from src.analysis import explanation
from src.analysis.explanation import Explanation
from src.analysis.facts import facts_of
from src.analysis.groups import Groups
from src.analysis.outcomes import OK, TRACED, reason, works
from src.analysis.repeats import Estimates, distinct, there
from src.analysis.rows import Numbers, Row, Rows
from src.analysis.traces import Trace, trace_of
from src.stats import Interval
from src.vocabulary import SHARED_SPREAD

_WITH_ENDS = ("eager_us", "compiled_us", "speedup", "eager_best_us", "speedup_vs_best")
_ALSO_WITH_ENDS = ("eager_after_compile_us", "eager_before_compile_us")

TOLD_BY_WARNINGS = ("eager_before_compile_us", "throttle_reasons", "cpu_governor")
"""Columns that the sentence of a warning ends with, for their value to follow."""

ROW_COLUMNS: tuple[str, ...] = (
    *("sweep_id", "run_key", "job", "experiment", "started_at", "config", "parameters", "tensors"),
    *record.AXES,
    *("status", "reason", "stage", "verdict", "verdict_reason", "warnings", "gate", "gate_min_speedup"),
    *("hint", "exclusion", "compiled_path", "eager_path", "parity", "parity_reason", "code_hash"),
    *(f"{name}{end}" for name in (*_WITH_ENDS, *_ALSO_WITH_ENDS) for end in ("", "_low", "_high")),
    *("eager_best", "sequential_eager_us", "sequential_compiled_us", "sequential_speedup"),
    *("min_effect", "processes", "process_spread", "shared_spread", "throttle_reasons", "cpu_governor"),
    *("trace_steps", "graphs", "recompiles", "recompile_reasons", "compile_s", "compile_warm_s"),
    *("recompile_causes", "recompile_summary", "recompile_limit_hit", "eager_from_step"),
    *explanation.COLUMNS,
    *record.MACHINE_FACTS,
    *("schema_version", "stepsweep_version", "stepsweep_commit", "python_version", "triton_version"),
    "gpu_driver",
)
"""Columns of a row that the analysis reads. The times of the single blocks are not among them."""


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest eager implementation of a cell, and the compiled step against it."""

    names: tuple[str, ...]  # of `vocabulary.EAGER_PATHS`, each once over the rows
    us: Interval | None  # us a step
    speedup: Interval | None  # its time / compiled time
    verdict: str | None  # on that speedup


@dataclass(frozen=True, slots=True)
class Sequential:
    """Times as PyTorch's tutorial takes them: one arm after the other, means."""

    eager: Interval | None  # us a step
    compiled: Interval | None  # us a step
    speedup: Interval


@dataclass(frozen=True, eq=False, repr=False)
class Cell:
    """What one or more rows say about one thing that was measured."""

    facts: Mapping[str, Any]  # axes without the seed, and machine facts
    _group: int  # number of the cell among `_groups`
    _groups: Groups

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """What became of each row: ok, traced, invalid, not timed, or its status."""
        outcomes = self._groups.outcomes
        return tuple([outcomes[place] for place in self._places])

    @property
    def parameters(self) -> int | None:
        """Number of parameter elements."""
        return next((n for n in self._values("parameters", self._places) if n is not None), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why rows are not ok, each once, in words."""
        doubtful = self._groups.doubtful
        rows = [self._groups.rows[place] for place in self._places if doubtful[place]]
        return distinct([reason(row) for row in rows])

    @property
    def verdict(self) -> str | None:
        """Verdict of the ok rows; None without one."""
        return self._groups.verdicts[self._group]

    @property
    def eager(self) -> Interval | None:
        """Time of an eager step in us."""
        return self._estimate("eager_us")

    @property
    def compiled(self) -> Interval | None:
        """Time of a compiled step in us."""
        return self._estimate("compiled_us")

    @property
    def speedup(self) -> Interval | None:
        """Eager time / compiled time."""
        return self._estimate("speedup")

    @cached_property
    def best(self) -> Best | None:
        """The fastest eager implementation; None where no row has it."""
        names = self.known("eager_best")
        if not names:
            return None
        speedup = self._estimate("speedup_vs_best")
        effect = there(self._groups.min_effect, self._group) or 0.0
        verdict = None if speedup is None else stats.verdict(speedup, effect)
        return Best(names, self._estimate("eager_best_us"), speedup, verdict)

    def samples_per_s(self, arm: str) -> Interval | None:
        """Return the samples per second of an arm, such as `eager_best`; None without training."""
        batch, us = self.facts["batch_size"], self._estimate(f"{arm}_us")
        if batch is None or us is None:
            return None
        low, high = (None if end is None else batch / end * 1e6 for end in (us.high, us.low))
        return Interval(batch / us.center * 1e6, low, high)

    @property
    def eager_after_compile(self) -> Interval | None:
        """Time in us of a step of an eager optimizer that was compiled before."""
        return self._estimate("eager_after_compile_us")

    @property
    def eager_before_compile(self) -> Interval | None:
        """Time in us of an eager step before anything was compiled."""
        return self._estimate("eager_before_compile_us")

    @property
    def as_published(self) -> Interval | None:
        """Quotient eager_after_compile / compiled."""
        return self._estimate("speedup_as_published")

    @property
    def sequential(self) -> Sequential | None:
        """Times as PyTorch's tutorial takes them; None where no row has them."""
        speedup = self._estimate("sequential_speedup")
        if speedup is None:
            return None
        eager, compiled = (self._estimate(f"sequential_{arm}_us") for arm in ("eager", "compiled"))
        return Sequential(eager, compiled, speedup)

    @property
    def processes(self) -> tuple[int, ...]:
        """Fresh processes of each row in the numbers, each count once."""
        return self.known("processes")

    @property
    def process_spreads(self) -> tuple[float, ...]:
        """Spreads that intervals of one process assume, each once."""
        return self.known("process_spread")

    @property
    def compile_s(self) -> Interval | None:
        """Seconds of the first call; one observation has no interval."""
        return self._estimate("compile_s")

    @property
    def compile_warm_s(self) -> Interval | None:
        """Seconds of the first call with the cache of an earlier process."""
        return self._estimate("compile_warm_s")

    @property
    def break_even(self) -> Interval | None:
        """Steps that earn back compile_s; None unless the verdict is faster."""
        return self._estimate("break_even_steps")

    @property
    def break_even_warm(self) -> Interval | None:
        """Steps that earn back compile_warm_s."""
        return self._estimate("break_even_warm_steps")

    @property
    def why(self) -> Explanation:
        """What explains the times."""
        return explanation.explanation(self._groups.timed, self._group, self.known)

    def explains(self, column: str) -> float | None:
        """Return one number of `why` by its column, without all the others."""
        return there(explanation.quantity(self._groups.timed, column), self._group)

    @cached_property
    def trace(self) -> Trace:
        """What the traces found."""
        statuses = self._groups.rows.column("status")
        places = [place for place in self._places if statuses[place] == OK]
        return trace_of(lambda name: self._values(name, places))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Names of warnings, over the rows in the numbers."""
        told = self._values("warnings", self._counted)
        return distinct([name for names in told if names for name in names if name])

    @property
    def told(self) -> Mapping[str, tuple[Any, ...]]:
        """Values of `TOLD_BY_WARNINGS`, over the rows in the numbers."""
        return {name: _told(self._values(name, self._counted)) for name in TOLD_BY_WARNINGS}

    @property
    def failed_gates(self) -> tuple[float, ...]:
        """gate.min_speedup of the rows that failed it."""
        gates = (self._values(name, self._used) for name in ("gate", "gate_min_speedup"))
        return distinct([limit for gate, limit in zip(*gates, strict=True) if gate == "failed" and limit])

    @property
    def hints(self) -> tuple[str, ...]:
        """What a reader can do, over all rows."""
        return distinct([hint for hint in self._values("hint", self._places) if hint])

    @property
    def retested(self) -> tuple[str, ...]:
        """Known reasons why the combination cannot work, of rows where it did."""
        listed = [place for place in self._counted if self._groups.rows.column("exclusion")[place]]
        rows = [self._groups.rows[place] for place in listed]
        return distinct([row["exclusion"] for row in rows if works(row)])

    @property
    def measured(self) -> tuple[Row, ...]:
        """The rows in the numbers: those that `used` counts."""
        return tuple([self._groups.rows[place] for place in self._counted])

    @property
    def shared_spread(self) -> float:
        """Standard deviation that the intervals of its speedups have in common with those of other cells.

        Of a single row from before it was known there is none in them; several rows get what is known now.
        """
        told = self._values("shared_spread", self._used)
        if len(told) == 1:
            return float(told[0] or 0.0)
        devices = self._values("device", self._used)
        known = [SHARED_SPREAD.get(d, 0.0) if t is None else t for t, d in zip(told, devices, strict=True)]
        return float(max(known, default=0.0))

    @property
    def used(self) -> int:
        """Number of rows in the numbers: of their times, or of their traces where no time was asked for."""
        return self.outcomes.count(OK) or self.outcomes.count(TRACED)

    @property
    def eager_is_best(self) -> bool:
        """Whether the best eager implementation is the eager arm itself: both then have the same times."""
        best = self.best
        return best is not None and best.us is not None and best.us == self.eager

    @property
    def comparable(self) -> bool:
        """Whether every row is ok, so that the speedup may enter a geomean."""
        return self.outcomes.count(OK) == len(self.outcomes)

    def known(self, column: str) -> tuple[Any, ...]:
        """Return each value of a column over the rows whose times are in the numbers, without nulls."""
        return distinct([value for value in self._values(column, self._used) if value is not None])

    def _values(self, column: str, places: Sequence[int]) -> list[Any]:
        values = self._groups.rows.column(column)
        return [values[place] for place in places]

    @property
    def _places(self) -> Sequence[int]:
        """Places of the rows of the cell."""
        return self._groups.members[self._group]

    @property
    def _used(self) -> Sequence[int]:
        """Places of the rows whose times are in the numbers."""
        return self._groups.used[self._group]

    @property
    def _counted(self) -> Sequence[int]:
        """Places of the rows in the numbers: those with times, or those with a trace where none has times."""
        return self._groups.counted[self._group]

    def _estimate(self, name: str) -> Interval | None:
        return self._groups.estimates(name).at(self._group)


def estimates_of(cells: Sequence[Cell], name: str) -> Estimates:
    """Return one of `ESTIMATES` of each cell, without an object for each.

    Args:
        cells: at least one, all from one call of `cells_of`.
        name: of the number.
    """
    found = cells[0]._groups.estimates(name)
    places = np.array([cell._group for cell in cells])
    return Estimates(found.center[places], found.low[places], found.high[places])


def numbers_of(cells: Sequence[Cell], name: str) -> Numbers:
    """Return a number that explains the times, of each cell; NaN where there is none.

    Args:
        cells: at least one, all from one call of `cells_of`.
        name: one of `explanation.COLUMNS` that is a number.
    """
    groups = cells[0]._groups
    places = np.array([cell._group for cell in cells])
    numbers: Numbers = explanation.quantity(groups.timed, name)[places]
    return numbers


def cells_of(rows: Sequence[Row]) -> tuple[Cell, ...]:
    """Group rows into cells, in the order of the cells' first rows."""
    return tuple(_cells(Rows.of(rows)))


def _cells(rows: Rows) -> Iterator[Cell]:
    facts = facts_of(rows)
    members: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(facts.keys):
        members.setdefault(key, []).append(place)
    groups = Groups(rows, list(members.values()))
    return (Cell(facts.of(key), group, groups) for group, key in enumerate(members))


def _told(values: Sequence[Any]) -> tuple[Any, ...]:
    lists = (value if isinstance(value, list) else [value] for value in values if value is not None)
    return distinct(item for items in lists for item in items)
