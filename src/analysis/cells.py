"""Rows to cells: rows that measured the same thing on the same machine become one number.

A row that did not end `ok`, or whose verdict is `invalid`, is counted and named but never enters a
number. Knows nothing of files, tables or formats.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src import record, stats
from src.stats import Interval

Row = Mapping[str, Any]

CELL_AXES: tuple[str, ...] = tuple(name for name in record.AXES if name != "seed")
"""Axes that tell cells apart. Rows that differ in the seed alone repeat one cell."""

CELL_FACTS: tuple[str, ...] = (*CELL_AXES, *record.MACHINE_FACTS)

JSON_AXES = ("optimizer_args", "scheduler_args")

OK = "ok"
INVALID = "invalid"
NOT_TIMED = "not timed"

ROW_COLUMNS: tuple[str, ...] = (
    *("sweep_id", "run_key", "job", "experiment", "started_at", "config", "parameters", "tensors"),
    *record.AXES,
    *("status", "reason", "stage", "verdict", "verdict_reason", "warnings", "gate", "gate_min_speedup"),
    *(f"{n}{end}" for n in ("eager_us", "compiled_us", "speedup") for end in ("", "_low", "_high")),
    *(f"eager_after_compile_us{end}" for end in ("", "_low", "_high")),
    *("min_effect", "trace_steps", "recompiles", "recompile_reasons", "compile_s"),
    *record.MACHINE_FACTS,
)
"""Columns of a row that the analysis reads. The times of the single blocks are not among them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one or more rows say about one thing that was measured."""

    facts: Mapping[str, Any]  # axes without the seed, and machine facts
    outcomes: tuple[str, ...]  # of each row: ok, invalid, not timed, or its status
    reasons: tuple[str, ...]  # why rows are not ok, each once, in words
    verdict: str | None  # of the ok rows; None without one
    eager: Interval | None  # us a step
    compiled: Interval | None  # us a step
    speedup: Interval | None
    eager_after_compile: Interval | None  # us a step
    as_published: Interval | None  # eager_after_compile / compiled
    compile_s: Interval | None  # s; one observation has no interval
    break_even: Interval | None  # steps; None when nothing is saved
    recompiles: tuple[int, int] | None  # fewest and most over the ok rows
    recompile_reasons: tuple[str, ...]  # guards that failed, over all ok rows
    trace_steps: tuple[int, ...]  # steps over which recompiles were counted
    warnings: tuple[str, ...]  # names, over all ok rows
    failed_gates: tuple[float, ...]  # gate.min_speedup of the rows that failed it

    @property
    def used(self) -> int:
        """Number of rows in the numbers."""
        return self.outcomes.count(OK)

    @property
    def comparable(self) -> bool:
        """Whether every row is ok, so that the speedup may enter a geomean."""
        return self.used == len(self.outcomes)


def cells_of(rows: Iterable[Row]) -> tuple[Cell, ...]:
    """Group rows into cells, in the order of the cells' first rows."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in _with_machine([_canonical(row) for row in rows]):
        groups[tuple(row.get(name) for name in CELL_FACTS)].append(row)
    return tuple(_cell(dict(zip(CELL_FACTS, key, strict=True)), group) for key, group in groups.items())


def outcome(row: Row) -> str:
    """Return `ok` when the row's numbers may be used, otherwise a short word for what it is."""
    if row["status"] != OK:
        return str(row["status"])
    if row["verdict"] == INVALID:
        return INVALID
    numbers = (row["eager_us"], row["compiled_us"], row["speedup"])
    return OK if all(n is not None and n > 0 for n in numbers) else NOT_TIMED


def reason(row: Row) -> str:
    """Return why a row is not ok, in words."""
    kind = outcome(row)
    if kind == INVALID:
        return f"invalid: {row['verdict_reason'] or 'no reason recorded'}"
    stage = f" in {row['stage']}" if row["stage"] else ""
    return f"{kind}{stage}: {row['reason'] or 'no reason recorded'}"


def _canonical(row: Row) -> dict[str, Any]:
    """Return the row with its JSON axes in one spelling.

    The order of the keys says nothing, and a null argument is one that is not given.
    """
    result = dict(row)
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
    speedup = _number(used, "speedup")
    eager, compiled = _number(used, "eager_us"), _number(used, "compiled_us")
    verdict = _verdict(used, speedup)
    compile_s = _compile_s(used)
    counts = [row["recompiles"] for row in used if row["recompiles"] is not None]
    return Cell(
        facts=facts,
        outcomes=tuple(outcome(row) for row in rows),
        reasons=_distinct(reason(row) for row in rows if outcome(row) != OK),
        verdict=verdict,
        eager=eager,
        compiled=compiled,
        speedup=speedup,
        eager_after_compile=_number(used, "eager_after_compile_us"),
        as_published=_as_published(used),
        compile_s=compile_s,
        break_even=_break_even(eager, compiled, speedup, compile_s) if verdict == "faster" else None,
        recompiles=(min(counts), max(counts)) if counts else None,
        recompile_reasons=tuple(text for row in used for text in row["recompile_reasons"] or () if text),
        trace_steps=_distinct(row["trace_steps"] for row in used if row["trace_steps"] is not None),
        warnings=_distinct(name for row in used for name in row["warnings"] or () if name),
        failed_gates=_distinct(
            row["gate_min_speedup"] for row in used if row["gate"] == "failed" and row["gate_min_speedup"]
        ),
    )


def _number(rows: Sequence[Row], name: str) -> Interval | None:
    """Return a row's own interval, or the geometric mean of several rows with their t interval."""
    present = [row for row in rows if row[name] is not None]
    if not present:
        return None
    if len(present) == 1:
        return Interval(present[0][name], present[0][f"{name}_low"], present[0][f"{name}_high"])
    return stats.log_t_interval([row[name] for row in present])


def _compile_s(rows: Sequence[Row]) -> Interval | None:
    seconds = [row["compile_s"] for row in rows if row["compile_s"]]
    return stats.log_t_interval(seconds) if seconds else None


def _as_published(rows: Sequence[Row]) -> Interval | None:
    """Return how much faster the compiled step looks against a step that was compiled before."""
    present = [row for row in rows if row["eager_after_compile_us"]]
    if len(present) > 1:
        return stats.log_t_interval([r["eager_after_compile_us"] / r["compiled_us"] for r in present])
    after, compiled = _number(present, "eager_after_compile_us"), _number(present, "compiled_us")
    return stats.quotient(after, compiled) if after and compiled else None


def _verdict(rows: Sequence[Row], speedup: Interval | None) -> str | None:
    if speedup is None:
        return None
    if len(rows) == 1 and rows[0]["verdict"]:
        return str(rows[0]["verdict"])
    return stats.verdict(speedup, max(row["min_effect"] or 0.0 for row in rows))


def _break_even(
    eager: Interval | None, compiled: Interval | None, speedup: Interval | None, compile_s: Interval | None
) -> Interval | None:
    """Return the steps after which the compile seconds are earned back.

    The interval follows that of the speedup, which is paired and so narrower than the times'.
    """
    if eager is None or compiled is None or speedup is None or compile_s is None:
        return None
    saved_us = eager.center - compiled.center
    if saved_us <= 0:
        return None
    center = compile_s.center * 1e6 / saved_us
    if speedup.low is None or speedup.high is None or speedup.low <= 1:
        return Interval(center, None, None)
    ends = [compile_s.center * 1e6 / (eager.center * (1 - 1 / s)) for s in (speedup.high, speedup.low)]
    return Interval(center, min(ends[0], center), max(ends[1], center))


def _distinct(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))
