"""What the traces of a cell's rows say: recompiles, paths, parity.

Counts are exact, so rows that differ give a range and no mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from src.analysis.repeats import Row, distinct, known


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
    paths: tuple[str, ...]  # of `vocabulary.COMPILED_PATHS`
    eager_paths: tuple[str, ...]  # of `vocabulary.EAGER_PATHS`
    eager_from: tuple[int, ...]  # first step that ran eager past the recompile limit
    limit_hit: bool  # in any row
    nothing_compiled: tuple[bool, ...]  # whether rows compiled no graph with operations
    parities: tuple[str, ...]  # of `vocabulary.PARITIES`
    parity_reasons: tuple[str, ...]  # of the rows whose parity failed
    code_hashes: tuple[str, ...]


def trace_of(rows: Sequence[Row]) -> Trace:
    """Return what the traces of rows with status ok say."""

    def listed(name: str) -> tuple[str, ...]:
        return tuple(text for row in rows for text in row[name] or () if text)

    return Trace(
        recompiles=_ends(known(rows, "recompiles")),
        graphs=_ends(known(rows, "graphs")),
        steps=known(rows, "trace_steps"),
        reasons=listed("recompile_reasons"),
        causes=listed("recompile_causes"),
        summaries=distinct(row["recompile_summary"] for row in rows if row["recompile_summary"]),
        paths=known(rows, "compiled_path"),
        eager_paths=known(rows, "eager_path"),
        eager_from=known(rows, "eager_from_step"),
        limit_hit=any(row["recompile_limit_hit"] or row["compiled_path"] == "eager_fallback" for row in rows),
        nothing_compiled=distinct(row["graphs"] == 0 for row in rows if row["graphs"] is not None),
        parities=known(rows, "parity"),
        parity_reasons=distinct(
            row["parity_reason"] for row in rows if row["parity"] == "failed" and row["parity_reason"]
        ),
        code_hashes=known(rows, "code_hash"),
    )


def _ends(counts: Sequence[int]) -> tuple[int, int] | None:
    return (min(counts), max(counts)) if counts else None
