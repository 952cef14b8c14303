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
from src.stats import Interval

Row = Mapping[str, Any]

CELL_AXES: tuple[str, ...] = tuple(name for name in record.AXES if name != "seed")
"""Axes that tell cells apart. Rows that differ in the seed alone repeat one cell."""

CELL_FACTS: tuple[str, ...] = (*CELL_AXES, *record.MACHINE_FACTS)

JSON_AXES = ("optimizer_args", "scheduler_args")

LATER_AXES: Mapping[str, Any] = {"param_groups": "one", "frozen_layers": 0, "layers_without_grad": 0}
"""Axes that rows of schema version 1 lack, and the value that all those rows were measured with."""

OK = "ok"
INVALID = "invalid"
NOT_TIMED = "not timed"
TRACED = "traced"

ROW_COLUMNS: tuple[str, ...] = (
    *("sweep_id", "run_key", "job", "experiment", "started_at", "config", "parameters", "tensors"),
    *record.AXES,
    *("status", "reason", "stage", "verdict", "verdict_reason", "warnings", "gate", "gate_min_speedup"),
    *("hint", "exclusion", "compiled_path", "eager_path", "parity", "parity_reason", "code_hash"),
    *(f"{n}{end}" for n in ("eager_us", "compiled_us", "speedup") for end in ("", "_low", "_high")),
    *(f"eager_after_compile_us{end}" for end in ("", "_low", "_high")),
    *("min_effect", "trace_steps", "graphs", "recompiles", "recompile_reasons", "compile_s"),
    *("recompile_causes", "recompile_summary", "recompile_limit_hit", "eager_from_step"),
    *record.MACHINE_FACTS,
)
"""Columns of a row that the analysis reads. The times of the single blocks are not among them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one or more rows say about one thing that was measured."""

    facts: Mapping[str, Any]  # axes without the seed, and machine facts
    outcomes: tuple[str, ...]  # of each row: ok, traced, invalid, not timed, or its status
    reasons: tuple[str, ...]  # why rows are not ok, each once, in words
    verdict: str | None  # of the ok rows; None without one
    eager: Interval | None  # us a step
    compiled: Interval | None  # us a step
    speedup: Interval | None
    eager_after_compile: Interval | None  # us a step
    as_published: Interval | None  # eager_after_compile / compiled
    compile_s: Interval | None  # s; one observation has no interval
    break_even: Interval | None  # steps; None when nothing is saved
    trace: "Trace"
    warnings: tuple[str, ...]  # names, over the rows in the numbers
    failed_gates: tuple[float, ...]  # gate.min_speedup of the rows that failed it
    hints: tuple[str, ...]  # what a reader can do, over all rows
    retested: tuple[str, ...]  # known reasons why the combination cannot work, of rows where it did

    @property
    def used(self) -> int:
        """Number of rows in the numbers: of their times, or of their traces where no time was asked for."""
        return self.outcomes.count(OK) or self.outcomes.count(TRACED)

    @property
    def comparable(self) -> bool:
        """Whether every row is ok, so that the speedup may enter a geomean."""
        return self.outcomes.count(OK) == len(self.outcomes)


@dataclass(frozen=True, slots=True)
class Trace:
    """What the traces of a cell's rows say, over all rows with status ok, also where times are invalid.

    Each tuple has every value once, in the order of the rows, without nulls.
    """

    recompiles: tuple[int, int] | None  # fewest and most
    graphs: tuple[int, int] | None  # fewest and most
    steps: tuple[int, ...]  # steps over which they were counted
    reasons: tuple[str, ...]  # guards that failed, one for each recompile of each row
    causes: tuple[str, ...]  # what those guards are about, where rows say so
    summaries: tuple[str, ...]  # one line on the recompiles of a row
    paths: tuple[str, ...]  # of `record.COMPILED_PATHS`
    eager_paths: tuple[str, ...]  # of `record.EAGER_PATHS`
    eager_from: tuple[int, ...]  # first step that ran eager past the recompile limit
    limit_hit: bool  # in any row
    nothing_compiled: tuple[bool, ...]  # whether rows compiled no graph with operations
    parities: tuple[str, ...]  # of `record.PARITIES`
    parity_reasons: tuple[str, ...]  # of the rows whose parity failed
    code_hashes: tuple[str, ...]


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
    speedup = _number(used, "speedup")
    eager, compiled = _number(used, "eager_us"), _number(used, "compiled_us")
    verdict = _verdict(used, speedup)
    compile_s = _compile_s(counted)
    return Cell(
        facts=facts,
        outcomes=tuple(outcome(row) for row in rows),
        reasons=_distinct(reason(row) for row in rows if _needs_reason(row)),
        verdict=verdict,
        eager=eager,
        compiled=compiled,
        speedup=speedup,
        eager_after_compile=_number(used, "eager_after_compile_us"),
        as_published=_as_published(used),
        compile_s=compile_s,
        break_even=_break_even(eager, compiled, speedup, compile_s) if verdict == "faster" else None,
        trace=_trace([row for row in rows if row["status"] == OK]),
        warnings=_distinct(name for row in counted for name in row["warnings"] or () if name),
        failed_gates=_distinct(
            row["gate_min_speedup"] for row in used if row["gate"] == "failed" and row["gate_min_speedup"]
        ),
        hints=_distinct(row["hint"] for row in rows if row["hint"]),
        retested=_distinct(row["exclusion"] for row in counted if row["exclusion"] and _works(row)),
    )


def _works(row: Row) -> bool:
    doubtful = row["verdict"] == INVALID or row["parity"] == "failed"
    return not doubtful and row["compiled_path"] not in ("never_compiled", "eager_fallback")


def _trace(rows: Sequence[Row]) -> Trace:
    def known(name: str) -> tuple[Any, ...]:
        return _distinct(row[name] for row in rows if row[name] is not None)

    def listed(name: str) -> tuple[str, ...]:
        return tuple(text for row in rows for text in row[name] or () if text)

    return Trace(
        recompiles=_ends(known("recompiles")),
        graphs=_ends(known("graphs")),
        steps=known("trace_steps"),
        reasons=listed("recompile_reasons"),
        causes=listed("recompile_causes"),
        summaries=_distinct(row["recompile_summary"] for row in rows if row["recompile_summary"]),
        paths=known("compiled_path"),
        eager_paths=known("eager_path"),
        eager_from=known("eager_from_step"),
        limit_hit=any(row["recompile_limit_hit"] or row["compiled_path"] == "eager_fallback" for row in rows),
        nothing_compiled=_distinct(row["graphs"] == 0 for row in rows if row["graphs"] is not None),
        parities=known("parity"),
        parity_reasons=_distinct(
            row["parity_reason"] for row in rows if row["parity"] == "failed" and row["parity_reason"]
        ),
        code_hashes=known("code_hash"),
    )


def _ends(counts: Sequence[int]) -> tuple[int, int] | None:
    return (min(counts), max(counts)) if counts else None


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
