"""Which rows a summary is about: the newest sweep unless told, and those that meet conditions.

Reads row files through `store`, only the columns that are needed.
"""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from src import record, store
from src.analysis import format as fmt
from src.analysis.cells import ROW_COLUMNS
from src.analysis.facts import LATER_AXES
from src.analysis.rows import Rows

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

    rows: Rows
    unreadable: dict[Path, str]  # why a file could not be read


def select(
    path: Path,
    *,
    sweep: str | None = None,
    everything: bool = False,
    where: Sequence[Condition] = (),
    columns: Sequence[str] = ROW_COLUMNS,
    experiment: str | None = None,
) -> Selection:
    """Read the rows under `path`: of the sweep named, of all sweeps, or of the newest one.

    Args:
        path: folder of runs or of one sweep, or a file.
        sweep: name of the sweep.
        everything: all sweeps.
        where: conditions that a row must meet, every one of them.
        columns: those to read; what the choice of rows needs is read as well. Of `config` at least one is
            there for each experiment of a sweep, and null stands for the others.
        experiment: only rows that were measured for it; the newest sweep is the newest that has any.

    Raises:
        SelectionError: there is no such path, no row, no such sweep or none of the experiment, or no row
            meets `where`.
    """
    if not path.exists():
        raise SelectionError(f"no such file or folder: {path}\na sweep is made by: python -m src.run -m ...")
    any_sweep = everything or (experiment is not None and sweep is None)
    files = _files(path, sweep, everything=any_sweep)
    wanted = dict.fromkeys((*columns, *_OF_ORDER, *(c.column for c in where), *([_OF] if experiment else ())))
    table, unreadable = store.read(
        files, list(wanted), lambda rows: _with_one_config(_of_experiment(rows, experiment))
    )
    if experiment is not None and (found := _without(experiment, table, path, files, sweep)):
        raise SelectionError(found)
    if not len(table):
        bad = "".join(f"\n{fmt.plain(f'{file}: {why}')}" for file, why in unreadable.items())
        raise SelectionError(f"no rows in {path}{bad}")
    table = _with_later_axes(_quantities(table))
    chosen = np.ones(len(table), dtype=bool) if everything else _of_one_sweep(table, sweep)
    kept = _each_once(table, np.flatnonzero(chosen & _meets(table, where)))
    if not len(kept):
        raise SelectionError(_nothing_met(table.filter(pa.array(chosen)), where))
    return Selection(Rows(table, _in_order(table, kept)), unreadable)


_OF = "experiment"


def _of_experiment(table: pa.Table, experiment: str | None) -> pa.Table:
    return table if experiment is None else table.filter(pc.equal(table.column(_OF), experiment))


def _without(experiment: str, table: pa.Table, path: Path, files: Sequence[Path], sweep: str | None) -> str:
    """Return what there is where no row of the experiment is among those read, empty where one is.

    Only then are the files opened once more.
    """
    if len(table) and (sweep is None or pc.any(pc.equal(table.column("sweep_id"), sweep)).as_py()):
        return ""
    there, _ = store.read(files, ["sweep_id", _OF])
    if sweep is not None:
        there = there.filter(pc.equal(there.column("sweep_id"), sweep))
    counts = Counter(there.column(_OF).to_pylist())
    if not counts:
        return ""
    others = [f"{fmt.plain(other)} ({n})" for other, n in counts.most_common() if other is not None]
    others += [f"no experiment ({counts[None]})"] if counts[None] else []
    return f"{path} has no row of the experiment {experiment}\nthere are rows of: {fmt.listed(others, 10)}"


def _each_once(table: pa.Table, places: Any) -> Any:
    """Return the places of rows without those that are there twice, as in a file that was copied.

    Counted twice, one run would look like two that agree.
    """
    names = ["sweep_id", "run_key", "job", "started_at"]
    if len(table.group_by(names).aggregate([])) == len(table):
        return places
    keys = [table.column(name).to_pylist() for name in names]
    first: dict[tuple[Any, ...], int] = {}
    kept = []
    for place in places.tolist():
        earlier = first.setdefault(tuple(key[place] for key in keys), place)
        if earlier == place or table.slice(place, 1) != table.slice(earlier, 1):
            kept.append(place)
    return np.array(kept, dtype=np.int64)


BEYOND = 1e30
"""No quantity of a row is as large, or as near to zero, but for zero itself: not in us, bytes or GB/s."""


def _quantities(table: pa.Table) -> pa.Table:
    """Return the rows with null for numbers that are none: NaN, infinite, or beyond all that is measured.

    One of them in one row would be in every mean and on every scale.
    """
    for index, field in enumerate(table.schema):
        if field.type != pa.float64():
            continue
        column = table.column(index)
        size = pc.abs(column)
        sound = pc.or_(pc.equal(size, 0), pc.and_(pc.less(size, BEYOND), pc.greater(size, 1 / BEYOND)))
        if pc.all(sound).as_py() is False:
            table = table.set_column(index, field, pc.if_else(sound, column, None))
    return table


def _with_one_config(table: pa.Table) -> pa.Table:
    """Return the rows of one file with one configuration for each experiment of a sweep.

    It is read for the experiment alone, and as large as all other columns together.
    """
    names = ("sweep_id", "experiment", "config")
    if not set(names) <= set(table.column_names) or len(table) == 1:
        return table
    places = pa.array(range(len(table)))
    of_experiment = (
        table.select(names[:2]).append_column("place", places).filter(pc.field("experiment").is_valid())
    )
    first = of_experiment.group_by(["sweep_id", "experiment"]).aggregate([("place", "min")])
    kept = pc.is_in(places, value_set=first.column("place_min").combine_chunks())
    config = pc.replace_with_mask(
        pa.nulls(len(table), pa.string()), kept, table.column("config").filter(kept).combine_chunks()
    )
    return table.set_column(table.schema.get_field_index("config"), table.schema.field("config"), config)


_OF_ORDER = ("sweep_id", "job", "started_at", "run_key")


def _with_later_axes(table: pa.Table) -> pa.Table:
    """Return the rows with the value of each axis of `LATER_AXES` that they lack."""
    for name in LATER_AXES.keys() & set(table.column_names):
        if table.column(name).null_count:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, pc.fill_null(table.column(name), LATER_AXES[name]))
    return table


def _meets(table: pa.Table, where: Sequence[Condition]) -> npt.NDArray[np.bool_]:
    meets = np.ones(len(table), dtype=bool)
    for each in where:
        column = table.column(each.column)
        meets &= pc.is_in(column, value_set=pa.array(each.values, column.type)).to_numpy()
    return meets


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
            return pa.scalar(int(value), pa.int64()).as_py()
        except (ValueError, OverflowError):
            rule = "must be a whole number or null, of 64 bits"
            raise SelectionError(f"--where {text}: {rule}: got {fmt.shorten(value, 40)!r}") from None
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
    newest = max(files, key=_changed)
    table, _ = store.read([newest], ["started_at"])
    starts = [start for start in table.column("started_at").to_pylist() if start is not None]
    return max(starts, default=datetime.fromtimestamp(_changed(newest.parent), UTC))


def _changed(path: Path) -> float:
    """Return when a file was changed, in seconds; what has vanished since it was listed is the oldest."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _of_one_sweep(table: pa.Table, sweep: str | None) -> npt.NDArray[np.bool_]:
    """Return which rows are of the sweep named, or of the one in which a run was started last."""
    number, names = _sweeps(table)
    if sweep is None:
        last = np.full(len(names), _NEVER)
        np.maximum.at(last, number, _starts(table))
        sweep = names[int(np.argmax(last))]
    elif sweep not in names:
        raise SelectionError(_no_such_sweep(sweep, names))
    chosen: npt.NDArray[np.bool_] = number == names.index(sweep)
    return chosen


def _in_order(table: pa.Table, kept: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Sort by the start of the sweep, then by the number of the run in it; None when all stand so."""
    number, names = _sweeps(table)
    start = _starts(table)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, number[kept], start[kept])
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=lambda i: (first[i], str(names[i])))] = np.arange(len(names))
    job = pc.fill_null(table.column("job"), 0).to_numpy()
    order = kept[np.lexsort((start[kept], job[kept], rank[number[kept]]))]
    return None if len(order) == len(table) and (np.diff(order) == 1).all() else order


_NEVER = np.iinfo(np.int64).min
"""The start of a run that does not tell it."""


def _starts(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the starts of runs in us since 1970."""
    starts: npt.NDArray[np.int64] = pc.fill_null(
        table.column("started_at").cast(pa.int64()), int(_NEVER)
    ).to_numpy()
    return starts


def _sweeps(table: pa.Table) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return a number for the sweep of each row, and the name of each number."""
    encoded = table.column("sweep_id").combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _no_such_sweep(sweep: str, known: Any) -> str:
    names = sorted(map(str, known))
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"there is no sweep {sweep!r}, there are: {', '.join(names[-10:])}{more}"


def _nothing_met(table: pa.Table, where: Sequence[Condition]) -> str:
    asked = ", ".join(c.text for c in where)
    values = {
        c.column: {_shown(value) for value in table.column(c.column).unique().to_pylist()} for c in where
    }
    there = (f"{column} has {', '.join(sorted(shown))}" for column, shown in values.items())
    return f"no row of {len(table)} meets {asked}\nin these rows {'; '.join(there)}"


def _shown(value: Any) -> str:
    return fmt.shorten(fmt.value(value), 60)
