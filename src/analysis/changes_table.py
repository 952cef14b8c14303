"""A comparison as plain numbers, for CSV and Parquet."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from src import record
from src.analysis.cells import Cell
from src.analysis.changes import Change, Comparison
from src.analysis.changes_estimates import Measured
from src.analysis.changes_matching import MACHINE_AXES
from src.analysis.facts import CELL_AXES
from src.stats import Interval

_SHARED = tuple(name for name in CELL_AXES if name not in MACHINE_AXES)
_ENDS = ("", "_low", "_high")


def to_table(comparison: Comparison) -> pa.Table:
    """Return one row for each cell of either side, its numbers with the metric's unit.

    Columns of both sides begin with `base_` and `new_`. A cell of one side alone has nulls in those
    of the other.
    """
    rows = [_matched(comparison, change) for change in comparison.changes]
    rows += [_alone("vanished", "base", cell) for _, cell in comparison.vanished]
    rows += [_alone("new", "new", cell) for _, cell in comparison.appeared]
    return pa.Table.from_pylist(
        [{"metric": comparison.metric.name} | row for row in rows], schema=pa.schema(_fields())
    )


def _fields() -> list[tuple[str, pa.DataType]]:
    types = {field.name: field.type for field in record.schema(documented=False)}
    fields = [("cell", pa.string()), ("metric", pa.string())]
    fields += [(name, types[name]) for name in _SHARED]
    for side in ("base", "new"):
        fields += [(f"{side}{end}", pa.float64()) for end in _ENDS]
    fields += [(f"change{end}", pa.float64()) for end in _ENDS]
    fields += [(name, pa.float64()) for name in ("min_effect", "p", "p_adjusted")]
    fields += [(name, pa.string()) for name in ("verdict", "untested_reason")]
    for side in ("base", "new"):
        fields += [(f"{side}_{name}", pa.string()) for name in ("outcome", "reasons", "warnings")]
        fields += [(f"{side}_{name}", pa.int64()) for name in ("runs", "runs_used", *_COUNTS)]
        fields += [(f"{side}_{name}", pa.string()) for name in _TEXTS]
        fields += [(f"{side}_{name}", types[name]) for name in MACHINE_AXES]
    return fields


_COUNTS = ("recompiles_low", "recompiles_high", "graphs_low", "graphs_high")
_TEXTS = (
    "recompile_causes",
    "compiled_path",
    "eager_path",
    "eager_best",
    "parity",
    "parity_reason",
    "code_hash",
)


def _matched(comparison: Comparison, change: Change) -> dict[str, Any]:
    return {
        "cell": "matched",
        **{name: change.base_cell.facts[name] for name in _SHARED},
        **_number("base", change.base),
        **_number("new", change.new),
        **_interval("change", change.ratio),
        "min_effect": change.min_effect,
        "p": change.p,
        "p_adjusted": change.adjusted,
        "verdict": change.verdict,
        "untested_reason": change.reason or None,
        **_side("base", change.base_cell),
        **_side("new", change.new_cell),
    }


def _alone(kind: str, side: str, cell: Cell) -> dict[str, Any]:
    return {"cell": kind, **{name: cell.facts[name] for name in _SHARED}, **_side(side, cell)}


def _number(side: str, measured: Measured | None) -> dict[str, float | None]:
    if measured is None:
        return {}
    if measured.estimate is None:
        return {side: measured.center}
    return _interval(side, measured.estimate.interval())


def _interval(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {}
    return {name: interval.center, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _side(side: str, cell: Cell) -> dict[str, Any]:
    trace = cell.trace
    recompiles, graphs = trace.recompiles or (None, None), trace.graphs or (None, None)
    texts: Mapping[str, tuple[str, ...]] = dict(
        zip(
            _TEXTS,
            (
                *(trace.causes, trace.paths, trace.eager_paths, cell.best.names if cell.best else ()),
                *(trace.parities, trace.parity_reasons, trace.code_hashes),
            ),
            strict=True,
        )
    )
    told = {
        "outcome": "; ".join(dict.fromkeys(cell.outcomes)),
        "reasons": "; ".join(cell.reasons) or None,
        "warnings": "; ".join(cell.warnings) or None,
        "runs": len(cell.outcomes),
        "runs_used": cell.used,
        **dict(zip(_COUNTS, (*recompiles, *graphs), strict=True)),
        **{name: "; ".join(dict.fromkeys(found)) or None for name, found in texts.items()},
        **{name: cell.facts[name] for name in MACHINE_AXES},
    }
    return {f"{side}_{name}": value for name, value in told.items()}
