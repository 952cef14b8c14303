"""A summary as plain numbers for CSV and Parquet: a row for each cell, made by the column."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from src import record
from src.analysis import explanation
from src.analysis.cells import Cell, estimates_of, numbers_of
from src.analysis.explanation import WHOLE
from src.analysis.facts import columns_of
from src.analysis.groups import ESTIMATES
from src.analysis.summary import Summary


def to_table(summary: Summary) -> pa.Table:
    """Return one row for each cell, as numbers with their unit in the name of the column."""
    cells = summary.cells
    types = {field.name: field.type for field in record.schema(documented=False)}
    facts = columns_of(cell.facts for cell in cells)
    columns = {name: pa.array(values, types[name]) for name, values in facts.items()}
    columns["runs"] = pa.array([len(cell.outcomes) for cell in cells], pa.int64())
    columns["runs_used"] = pa.array([cell.used for cell in cells], pa.int64())
    columns |= {name: _joined(map(of, cells)) for name, of in _WORDS.items()}
    columns |= _best(cells)
    columns["processes"] = _joined(map(str, cell.processes) for cell in cells)
    for name in ESTIMATES:
        columns |= _ends(cells, name)
    columns |= _throughput(cells)
    for name, ends in _RANGES.items():
        pairs = [ends(cell) or (None, None) for cell in cells]
        for end, counts in zip(("low", "high"), zip(*pairs, strict=True), strict=True):
            columns[f"{name}_{end}"] = pa.array(counts, pa.int64())
    columns |= {name: _joined(map(of, cells)) for name, of in _TEXTS.items()}
    columns |= _explained(cells)
    return pa.table(columns)


_WORDS: Mapping[str, Callable[[Cell], Iterable[str]]] = {
    "outcome": lambda cell: cell.outcomes,
    "verdict": lambda cell: (cell.verdict,) if cell.verdict else (),
    "reasons": lambda cell: cell.reasons,
    "warnings": lambda cell: cell.warnings,
}

_RANGES: Mapping[str, Callable[[Cell], tuple[int, int] | None]] = {
    "recompiles": lambda cell: cell.trace.recompiles,
    "graphs": lambda cell: cell.trace.graphs,
}

_TEXTS: Mapping[str, Callable[[Cell], Iterable[str]]] = {
    "recompile_reasons": lambda cell: cell.trace.reasons,
    "recompile_causes": lambda cell: cell.trace.causes,
    "compiled_path": lambda cell: cell.trace.paths,
    "eager_path": lambda cell: cell.trace.eager_paths,
    "parity": lambda cell: cell.trace.parities,
    "parity_reason": lambda cell: cell.trace.parity_reasons,
    "code_hash": lambda cell: cell.trace.code_hashes,
    "hint": lambda cell: cell.hints,
}


def _joined(texts: Iterable[Iterable[str]]) -> pa.Array:
    """Return the texts of each cell in one, each text once; null where there is none."""
    return pa.array(["; ".join(dict.fromkeys(each)) or None for each in texts], pa.string())


def _best(cells: Sequence[Cell]) -> dict[str, pa.Array]:
    bests = [cell.best for cell in cells]
    return {
        "eager_best": _joined(best.names if best else () for best in bests),
        "verdict_vs_best": pa.array([best.verdict if best else None for best in bests], pa.string()),
    }


def _ends(cells: Sequence[Cell], name: str) -> dict[str, pa.Array]:
    found = estimates_of(cells, name)
    ends = {name: found.center, f"{name}_low": found.low, f"{name}_high": found.high}
    return {end: pa.array(values, pa.float64(), mask=np.isnan(values)) for end, values in ends.items()}


def _throughput(cells: Sequence[Cell]) -> dict[str, pa.Array]:
    """Return the samples per second of the arms; null without training."""
    columns: dict[str, pa.Array] = {}
    for arm in ("eager", "eager_best", "compiled"):
        found = [cell.samples_per_s(arm) for cell in cells]
        ends = (("", "center"), ("_low", "low"), ("_high", "high"))
        columns |= {
            f"{arm}_samples_per_s{end}": pa.array([one and getattr(one, of) for one in found], pa.float64())
            for end, of in ends
        }
    return columns


def _explained(cells: Sequence[Cell]) -> dict[str, pa.Array]:
    """Return the columns that explain the times; the numbers of several rows are put together."""
    columns = {}
    for name in explanation.COLUMNS:
        if name.endswith("_bound"):
            columns[name] = _joined(cell.known(name) for cell in cells)
            continue
        values = numbers_of(cells, name)
        kind = pa.int64() if name.endswith(WHOLE) else pa.float64()
        columns[name] = pa.array(values, pa.float64(), mask=np.isnan(values)).cast(kind)
    return columns
