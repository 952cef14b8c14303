"""What became of a row: whether its times may be used, and otherwise why not, in words.

Knows nothing of cells.
"""

from typing import Any

from src.analysis.rows import Row

OK = "ok"
INVALID = "invalid"
NOT_TIMED = "not timed"
TRACED = "traced"

JUDGED = ("status", "eager_us", "compiled_us", "speedup", "trace_steps", "verdict")
"""Columns that decide it."""


def outcome(row: Row) -> str:
    """Return `ok` when the row's times may be used, otherwise a short word for what it is."""
    return judge(tuple(row[name] for name in JUDGED))


def judge(judged: tuple[Any, ...]) -> str:
    """Return `outcome` of a row by its values of `JUDGED`."""
    status, eager_us, compiled_us, speedup, trace_steps, verdict = judged
    if status != OK:
        return str(status)
    if trace_steps and not (eager_us or compiled_us or speedup):
        return TRACED  # also with an invalid verdict: there are no times to doubt
    if verdict == INVALID:
        return INVALID
    timed = all(n is not None and n > 0 for n in (eager_us, compiled_us, speedup))
    return OK if timed else NOT_TIMED


def reason(row: Row) -> str:
    """Return why a row is not ok, or why its verdict is invalid, in words."""
    kind = outcome(row)
    if row["status"] == OK and row["verdict"] == INVALID:
        return f"invalid: {row['verdict_reason'] or 'no reason recorded'}"
    stage = f" in {row['stage']}" if row["stage"] else ""
    return f"{kind}{stage}: {row['reason'] or 'no reason recorded'}"


def works(row: Row) -> bool:
    """Return whether the compiled step of a row that ended `ok` really ran compiled, and right."""
    doubtful = row["verdict"] == INVALID or row["parity"] == "failed"
    return not doubtful and row["compiled_path"] not in ("never_compiled", "eager_fallback")
