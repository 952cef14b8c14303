"""Which rows a summary is about: the newest sweep unless told, and those that meet conditions.

Reads row files through `store`, only the columns that are needed.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from src import record, store
from src.analysis import format as fmt
from src.analysis.cells import ROW_COLUMNS, with_later_axes
from src.analysis.repeats import Row

_PREFIX = "sweep="


class SelectionError(ValueError):
    """The selection cannot be made; the message says what was asked for and what there is."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A column must have one of some values."""

    column: str
    values: tuple[Any, ...]
    text: str  # as the user wrote it


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows in the order in which their runs were started."""

    rows: tuple[Row, ...]
    unreadable: dict[Path, str]  # why a file could not be read


def select(
    path: Path, *, sweep: str | None = None, everything: bool = False, where: Sequence[Condition] = ()
) -> Selection:
    """Read the rows under `path`: of the sweep named, of all sweeps, or of the newest one.

    Raises:
        SelectionError: there is no such path, no row or no such sweep, or no row meets `where`.
    """
    if not path.exists():
        raise SelectionError(f"no such file or folder: {path}\na sweep is made by: python -m src.run -m ...")
    files = _files(path, sweep, everything=everything)
    columns = list(dict.fromkeys((*ROW_COLUMNS, *(condition.column for condition in where))))
    table, unreadable = store.read(files, columns)
    rows: list[Row] = [with_later_axes(row) for row in table.to_pylist()]
    if not rows:
        bad = "".join(f"\n{file}: {why}" for file, why in unreadable.items())
        raise SelectionError(f"no rows in {path}{bad}")
    if not everything:
        rows = _of_one_sweep(rows, sweep)
    kept = [row for row in rows if all(row[c.column] in c.values for c in where)]
    if not kept:
        raise SelectionError(_nothing_met(rows, where))
    return Selection(tuple(_in_order(kept)), unreadable)


def condition(text: str) -> Condition:
    """Parse `column=value` or `column=value,value`; `null` is the value that is not there.

    Raises:
        SelectionError: there is no such column, it cannot be compared, or a value has another type.
    """
    name, equals, listed = text.partition("=")
    if not equals or not name:
        raise SelectionError(f"--where must be AXIS=VALUE: got {text!r}")
    types = {column.name: column.type for column in record.COLUMNS}
    if name not in types:
        near = difflib.get_close_matches(name, types, n=3, cutoff=0.5)
        hint = ", ".join(near) if near else ", ".join(record.AXES)
        raise SelectionError(f"--where {text}: there is no column {name!r}, some are: {hint}")
    if types[name] not in (pa.string(), pa.int64(), pa.bool_()):
        raise SelectionError(f"--where {text}: {name} must be a column of text, whole numbers or true/false")
    # A list of CPUs is one value, whatever its commas.
    values = [listed.strip("[]")] if name == "pinned_cpus" else listed.split(",")
    return Condition(name, tuple(_parsed(text, types[name], value) for value in values), text)


def _parsed(text: str, kind: pa.DataType, value: str) -> Any:
    if value == "null":
        return None
    if kind == pa.bool_():
        if value.lower() not in ("true", "false"):
            raise SelectionError(f"--where {text}: must be true, false or null: got {value!r}")
        return value.lower() == "true"
    if kind == pa.int64():
        try:
            return int(value)
        except ValueError:
            raise SelectionError(f"--where {text}: must be a whole number or null: got {value!r}") from None
    return value


def _files(path: Path, sweep: str | None, *, everything: bool) -> list[Path]:
    """Return the files that may hold the rows asked for, to open no more than needed."""
    files = store.row_files(path)
    if everything or path.is_file():
        return files
    by_sweep: dict[str, list[Path]] = {}
    for file in files:
        folder = next((part for part in reversed(file.parts[:-1]) if part.startswith(_PREFIX)), None)
        if folder is None:
            return files  # another layout than ours: only the rows can tell
        by_sweep.setdefault(folder.removeprefix(_PREFIX), []).append(file)
    if sweep is not None:
        if by_sweep and sweep not in by_sweep:
            raise SelectionError(_no_such_sweep(sweep, by_sweep))
        return by_sweep.get(sweep, [])
    if len(by_sweep) <= 1:
        return files
    return max(by_sweep.values(), key=_last_start)


def _last_start(files: Sequence[Path]) -> datetime:
    """Return when the last run of a sweep was started, from its newest file alone."""
    newest = max(files, key=lambda file: file.stat().st_mtime)
    table, _ = store.read([newest], ["started_at"])
    starts = [start for start in table.column("started_at").to_pylist() if start is not None]
    return max(starts, default=datetime.fromtimestamp(newest.parent.stat().st_mtime, UTC))


def _of_one_sweep(rows: list[Row], sweep: str | None) -> list[Row]:
    starts: dict[Any, datetime] = {}
    for row in rows:
        start = _start(row)
        starts[row["sweep_id"]] = max(start, starts.get(row["sweep_id"], start))
    if sweep is None:
        sweep = max(starts, key=lambda name: starts[name])
    elif sweep not in starts:
        raise SelectionError(_no_such_sweep(sweep, starts))
    return [row for row in rows if row["sweep_id"] == sweep]


def _in_order(rows: list[Row]) -> list[Row]:
    """Sort by the start of the sweep, then by the number of the run in it."""
    first: dict[Any, datetime] = {}
    for row in rows:
        start = _start(row)
        first[row["sweep_id"]] = min(start, first.get(row["sweep_id"], start))
    return sorted(rows, key=lambda r: (first[r["sweep_id"]], str(r["sweep_id"]), r["job"] or 0, _start(r)))


def _start(row: Row) -> datetime:
    start: datetime | None = row["started_at"]
    return start or datetime.min.replace(tzinfo=UTC)


def _no_such_sweep(sweep: str, known: Any) -> str:
    names = sorted(map(str, known))
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"there is no sweep {sweep!r}, there are: {', '.join(names[-10:])}{more}"


def _nothing_met(rows: Sequence[Row], where: Sequence[Condition]) -> str:
    asked = ", ".join(c.text for c in where)
    there = (f"{c.column} has {', '.join(sorted({_shown(row[c.column]) for row in rows}))}" for c in where)
    return f"no row of {len(rows)} meets {asked}\nin these rows {'; '.join(there)}"


def _shown(value: Any) -> str:
    return fmt.shorten(fmt.value(value), 60)
