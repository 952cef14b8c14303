"""Rows to cells: rows that measured the same thing on the same machine become one number.

A row that did not end `ok`, or whose verdict is `invalid`, is counted and named but its times never
enter a number. What its trace counted is a fact all the same: recompiles are often why it is invalid.
Knows nothing of files, tables or formats.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src import record, stats
from src.analysis import explanation, repeats
from src.analysis.explanation import Explanation
from src.analysis.repeats import Row, distinct, known
from src.analysis.traces import Trace, trace_of
from src.stats import Interval

CELL_AXES: tuple[str, ...] = tuple(name for name in record.AXES if name != "seed")
"""Axes that tell cells apart. Rows that differ in the seed alone repeat one cell."""

CELL_FACTS: tuple[str, ...] = (*CELL_AXES, *record.MACHINE_FACTS)

JSON_AXES = ("optimizer_args", "scheduler_args")

LATER_AXES: Mapping[str, Any] = {
    **{"param_groups": "one", "frozen_layers": 0, "layers_without_grad": 0},
    **{"grads": "fresh", "flush_cache": False},
}
"""Axes that rows of schema versions 1 and 2 lack, and the value that all those rows were measured with."""

OK = "ok"
INVALID = "invalid"
NOT_TIMED = "not timed"
TRACED = "traced"

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


@dataclass(frozen=True, slots=True)
class Cell:
    """What one or more rows say about one thing that was measured."""

    facts: Mapping[str, Any]  # axes without the seed, and machine facts
    parameters: int | None  # number of parameter elements
    outcomes: tuple[str, ...]  # of each row: ok, traced, invalid, not timed, or its status
    reasons: tuple[str, ...]  # why rows are not ok, each once, in words
    verdict: str | None  # of the ok rows; None without one
    eager: Interval | None  # us a step
    compiled: Interval | None  # us a step
    speedup: Interval | None
    best: Best | None  # None where no row has it
    eager_after_compile: Interval | None  # us a step
    eager_before_compile: Interval | None  # us a step
    as_published: Interval | None  # eager_after_compile / compiled
    sequential: Sequential | None
    processes: tuple[int, ...]  # fresh processes of each row in the numbers, each count once
    process_spreads: tuple[float, ...]  # spreads that intervals of one process assume, each once
    compile_s: Interval | None  # s; one observation has no interval
    compile_warm_s: Interval | None  # s, with the cache of an earlier process
    break_even: Interval | None  # steps that earn back compile_s; None unless the verdict is faster
    break_even_warm: Interval | None  # steps that earn back compile_warm_s
    why: Explanation
    trace: Trace
    warnings: tuple[str, ...]  # names, over the rows in the numbers
    told: Mapping[str, tuple[Any, ...]]  # values of `TOLD_BY_WARNINGS`, over the rows in the numbers
    failed_gates: tuple[float, ...]  # gate.min_speedup of the rows that failed it
    hints: tuple[str, ...]  # what a reader can do, over all rows
    retested: tuple[str, ...]  # known reasons why the combination cannot work, of rows where it did
    measured: tuple[Row, ...]  # the rows in the numbers: those that `used` counts

    @property
    def used(self) -> int:
        """Number of rows in the numbers: of their times, or of their traces where no time was asked for."""
        return self.outcomes.count(OK) or self.outcomes.count(TRACED)

    @property
    def eager_is_best(self) -> bool:
        """Whether the best eager implementation is the eager arm itself: both then have the same times."""
        return self.best is not None and self.best.us is not None and self.best.us == self.eager

    @property
    def comparable(self) -> bool:
        """Whether every row is ok, so that the speedup may enter a geomean."""
        return self.outcomes.count(OK) == len(self.outcomes)


def cells_of(rows: Iterable[Row]) -> tuple[Cell, ...]:
    """Group rows into cells, in the order of the cells' first rows."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in _with_machine([_canonical(row) for row in rows]):
        groups[tuple(row.get(name) for name in CELL_FACTS)].append(row)
    return tuple(_cell(dict(zip(CELL_FACTS, key, strict=True)), group) for key, group in groups.items())


def outcome(row: Row) -> str:
    """Return `ok` when the row's times may be used, otherwise a short word for what it is."""
    if row["status"] != OK:
        return str(row["status"])
    numbers = (row["eager_us"], row["compiled_us"], row["speedup"])
    if row["trace_steps"] and not any(numbers):
        return TRACED  # also with an invalid verdict: there are no times to doubt
    if row["verdict"] == INVALID:
        return INVALID
    return OK if all(n is not None and n > 0 for n in numbers) else NOT_TIMED


def reason(row: Row) -> str:
    """Return why a row is not ok, or why its verdict is invalid, in words."""
    kind = outcome(row)
    if row["status"] == OK and row["verdict"] == INVALID:
        return f"invalid: {row['verdict_reason'] or 'no reason recorded'}"
    stage = f" in {row['stage']}" if row["stage"] else ""
    return f"{kind}{stage}: {row['reason'] or 'no reason recorded'}"


def with_later_axes(row: Row) -> dict[str, Any]:
    """Return the row with the value of each axis of `LATER_AXES` that it lacks."""
    return {**row, **{name: value for name, value in LATER_AXES.items() if row[name] is None}}


def _needs_reason(row: Row) -> bool:
    return outcome(row) not in (OK, TRACED) or bool(row["verdict"] == INVALID)


def _canonical(row: Row) -> dict[str, Any]:
    """Return the row with its JSON axes in one spelling.

    The order of the keys says nothing, and a null argument is one that is not given.
    """
    result = with_later_axes(row)
    for name in JSON_AXES:
        try:
            arguments = json.loads(row[name])
        except (TypeError, ValueError, RecursionError):
            continue
        if isinstance(arguments, dict):
            given = {key: value for key, value in arguments.items() if value is not None}
            result[name] = json.dumps(given, sort_keys=True)
    return result


def _with_machine(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill in the machine of rows that ended before they could say where they ran.

    Only where the other rows of the sweep leave no doubt: one machine that fits what is known.
    """
    names = ("device", "threads", *record.MACHINE_FACTS)
    known: dict[Any, set[tuple[Any, ...]]] = defaultdict(set)
    for row in rows:
        if row["torch_version"] is not None:
            known[row["sweep_id"]].add(tuple(row[name] for name in names))
    for row in rows:
        if row["torch_version"] is not None or row["status"] == OK:
            continue
        told = {name: row[name] for name in names if row[name] is not None}
        candidates = [dict(zip(names, machine, strict=True)) for machine in known[row["sweep_id"]]]
        fitting = [facts for facts in candidates if told.items() <= facts.items()]
        if len(fitting) == 1:
            row.update(fitting[0])
    return rows


def _cell(facts: Mapping[str, Any], rows: Sequence[Row]) -> Cell:
    used = [row for row in rows if outcome(row) == OK]
    counted = used or [row for row in rows if outcome(row) == TRACED]
    speedup = repeats.speedup(used, "speedup")
    eager, compiled = repeats.number(used, "eager_us"), repeats.number(used, "compiled_us")
    verdict = _verdict(used, speedup)
    compile_s, warm_s = (repeats.single(counted, name) for name in ("compile_s", "compile_warm_s"))
    earned_back = [
        repeats.break_even(eager, compiled, speedup, seconds) if verdict == "faster" else None
        for seconds in (compile_s, warm_s)
    ]
    return Cell(
        facts=facts,
        parameters=next(iter(known(rows, "parameters")), None),
        outcomes=tuple(outcome(row) for row in rows),
        reasons=distinct(reason(row) for row in rows if _needs_reason(row)),
        verdict=verdict,
        eager=eager,
        compiled=compiled,
        speedup=speedup,
        best=_best(used),
        eager_after_compile=repeats.number(used, "eager_after_compile_us"),
        eager_before_compile=repeats.number(used, "eager_before_compile_us"),
        as_published=repeats.ratio(used, "eager_after_compile_us", "compiled_us"),
        sequential=_sequential(used),
        processes=known(used, "processes"),
        process_spreads=known(used, "process_spread"),
        compile_s=compile_s,
        compile_warm_s=warm_s,
        break_even=earned_back[0],
        break_even_warm=earned_back[1],
        why=explanation.explanation(used),
        trace=trace_of([row for row in rows if row["status"] == OK]),
        warnings=distinct(name for row in counted for name in row["warnings"] or () if name),
        told={name: _told(counted, name) for name in TOLD_BY_WARNINGS},
        failed_gates=distinct(
            row["gate_min_speedup"] for row in used if row["gate"] == "failed" and row["gate_min_speedup"]
        ),
        hints=distinct(row["hint"] for row in rows if row["hint"]),
        retested=distinct(row["exclusion"] for row in counted if row["exclusion"] and _works(row)),
        measured=tuple(counted),
    )


def _best(rows: Sequence[Row]) -> Best | None:
    names = known(rows, "eager_best")
    if not names:
        return None
    speedup = repeats.speedup(rows, "speedup_vs_best")
    return Best(
        names=names,
        us=repeats.number(rows, "eager_best_us"),
        speedup=speedup,
        verdict=None if speedup is None else stats.verdict(speedup, _min_effect(rows)),
    )


def _sequential(rows: Sequence[Row]) -> Sequential | None:
    speedup = repeats.single(rows, "sequential_speedup")
    if speedup is None:
        return None
    eager, compiled = (repeats.single(rows, f"sequential_{arm}_us") for arm in ("eager", "compiled"))
    return Sequential(eager, compiled, speedup)


def _told(rows: Sequence[Row], name: str) -> tuple[Any, ...]:
    values = [row[name] for row in rows if row[name] is not None]
    return distinct(item for value in values for item in (value if isinstance(value, list) else [value]))


def _works(row: Row) -> bool:
    doubtful = row["verdict"] == INVALID or row["parity"] == "failed"
    return not doubtful and row["compiled_path"] not in ("never_compiled", "eager_fallback")


def _verdict(rows: Sequence[Row], speedup: Interval | None) -> str | None:
    if speedup is None:
        return None
    if len(rows) == 1 and rows[0]["verdict"]:
        return str(rows[0]["verdict"])
    return stats.verdict(speedup, _min_effect(rows))


def _min_effect(rows: Sequence[Row]) -> float:
    return max(row["min_effect"] or 0.0 for row in rows)
