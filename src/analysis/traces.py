"""What the traces of a cell's rows say: recompiles, paths, parity.

Counts are exact, so rows that differ give a range and no mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis.repeats import distinct


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


def trace_of(values: Callable[[str], Sequence[Any]]) -> Trace:
    """Return what the traces of rows with status ok say.

    Args:
        values: of each of these rows, of the column with a name.
    """

    def once(name: str) -> tuple[Any, ...]:
        return distinct([value for value in values(name) if value is not None])

    def listed(name: str) -> tuple[str, ...]:
        return tuple([text for texts in values(name) if texts for text in texts if text])

    paths, graphs, parities = once("compiled_path"), once("graphs"), once("parity")
    failed = zip(values("parity"), values("parity_reason"), strict=True) if "failed" in parities else ()
    return Trace(
        recompiles=_ends(once("recompiles")),
        graphs=_ends(graphs),
        steps=once("trace_steps"),
        reasons=listed("recompile_reasons"),
        causes=listed("recompile_causes"),
        summaries=distinct([text for text in once("recompile_summary") if text]),
        paths=paths,
        eager_paths=once("eager_path"),
        eager_from=once("eager_from_step"),
        limit_hit=any(values("recompile_limit_hit")) or "eager_fallback" in paths,
        nothing_compiled=distinct([count == 0 for count in graphs]),
        parities=parities,
        parity_reasons=distinct([text for parity, text in failed if parity == "failed" and text]),
        code_hashes=once("code_hash"),
    )


def _ends(counts: Sequence[int]) -> tuple[int, int] | None:
    return (min(counts), max(counts)) if counts else None
