"""Rows on disk: `<output_dir>/runs/sweep=<id>/<run_key>.parquet`, one file a run.

A file appears whole or not at all. It is never overwritten but by the row of the same run, started once
more, where the first did not end well. Reading takes data only: nothing in a
file is imported, unpickled or executed.
"""

import contextlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from src import record
from src.vocabulary import GOOD_STATUSES

LEAN = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
"""How a file of one row is written, 14 KB instead of 38: of one row, statistics and dictionaries only cost
bytes, and the meaning of the columns is in `record`, not in every file."""


def sweep_dir(output_dir: Path, sweep_id: str) -> Path:
    """Return the folder of a sweep's rows."""
    return output_dir / "runs" / f"sweep={sweep_id}"


def row_files(folder: Path) -> list[Path]:
    """Return the row files under `folder` in order of their names; hidden files are not rows.

    A folder that cannot be listed stands in for its files, for `read` to say why.
    """
    if folder.is_file():
        return [folder]
    found: list[Path] = []

    def cannot_list(error: OSError) -> None:
        found.append(Path(str(error.filename)))

    for place, folders, names in os.walk(folder, onerror=cannot_list):
        rows = (name for name in (*names, *folders) if name.endswith(".parquet"))
        found += (Path(place, name) for name in rows if not name.startswith((".", "_")))
    return sorted(path for path in found if not path.is_fifo())


def write(output_dir: Path, row: Mapping[str, Any], replacing: str | None = None) -> Path:
    """Write one row and return its file.

    The row goes to a hidden temporary file first, is flushed to the disk, and is then linked to
    its name, which fails where the name is taken: a second run of the same configuration in the
    same sweep gets the name `<run_key>-2.parquet`.

    Args:
        output_dir: folder of all rows.
        row: the row.
        replacing: name of the file whose row this one takes the place of, at one moment for every
            reader. A row that is good stays all the same, and so does one that is not alone in its file.

    Raises:
        RecordError: the row does not fit the schema.
        OSError: the disk is full, read-only or the like; no file is left behind.
    """
    table = record.to_table(row)
    folder = sweep_dir(output_dir, row["sweep_id"])
    try:
        return _write(table, folder, row["run_key"], replacing)
    except FileNotFoundError:  # the folder was exchanged for a compacted one meanwhile
        return _write(table, folder, row["run_key"], replacing)


def _write(table: pa.Table, folder: Path, run_key: str, replacing: str | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{run_key}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            pq.write_table(table, file, **LEAN)
            file.flush()
            os.fsync(file.fileno())
        if replacing is not None and _may_go(folder / replacing):
            target = folder / replacing
            temporary.replace(target)
        else:
            target = _link_to_free_name(temporary, folder, run_key)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_names(folder)
    return target


def _may_go(path: Path) -> bool:
    """Return whether a file holds one row, of a run that did not end well."""
    table, _ = read([path], ["status"])
    return len(table) == 1 and table.column("status")[0].as_py() not in GOOD_STATUSES


def _flush_names(folder: Path) -> None:
    """Have the names of a folder's files reach the disk as well, where the system can."""
    with contextlib.suppress(OSError):  # the rows are there, and some systems flush no folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _link_to_free_name(temporary: Path, folder: Path, run_key: str) -> Path:
    number = 1
    while True:
        target = folder / (f"{run_key}.parquet" if number == 1 else f"{run_key}-{number}.parquet")
        try:
            os.link(temporary, target)
        except FileExistsError:
            number += 1
        else:
            return target


def read(
    files: Iterable[Path],
    columns: list[str] | None = None,
    lean: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> tuple[pa.Table, dict[Path, str]]:
    """Read rows, and say of each file that could not be read why.

    A column that an older file lacks is null. Row files of another schema version are read as far
    as their columns have the names and types of this one. Every file is opened once, several at a time.

    Args:
        files: to read.
        columns: names of columns; all when None.
        lean: what is kept of the rows of one file, so that not all of all files is held at once.

    Returns:
        A table with the columns asked for (all when None), in the order of the files, and a reason for
        each unreadable file.
    """
    wanted = record.schema()
    if columns is not None:
        # In the order in which files have them.
        place = {name: number for number, name in enumerate(wanted.names)}
        wanted = pa.schema([wanted.field(name) for name in sorted(columns, key=place.__getitem__)])
    tables: list[pa.Table] = []
    small: list[pa.Table] = []
    unreadable: dict[Path, str] = {}
    paths = list(files)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for path, got in zip(paths, pool.map(lambda path: _rows_of(path, wanted, lean), paths), strict=True):
            if isinstance(got, str):
                unreadable[path] = got
                continue
            small.append(got)
            if len(small) == _TOGETHER:  # tables of one row each cost more than what stands in them
                tables.append(pa.concat_tables(small).combine_chunks())
                small = []
    tables += small
    whole = pa.concat_tables(tables) if tables else wanted.empty_table()
    # Files of single rows do not carry what the columns mean.
    whole = pa.Table.from_arrays(whole.columns, schema=wanted)
    return whole if columns is None else whole.select(columns), unreadable


_TOGETHER = 1000
"""Tables of as many files are copied into one, which bounds what many small ones cost."""


def _rows_of(path: Path, wanted: pa.Schema, lean: Callable[[pa.Table], pa.Table]) -> pa.Table | str:
    """Return the rows of a file, or why there are none to be had."""
    try:
        with _opened(path) as file:
            present = file.schema_arrow.names
            if not _SIGNS.issubset(present):
                return "not a row file of stepsweep"
            twice = [name for name, times in Counter(present).items() if times > 1]
            if twice:
                return f"has the column {twice[0]} twice"
            there = set(present)
            names = [name for name in wanted.names if name in there]
            # Threads within a file cost more than they bring where it has few rows.
            table = file.read(columns=names, use_threads=file.metadata.num_rows > _MANY)
        conformed = _conform(table, wanted)
        conformed.validate(full=True)  # text that is not UTF-8 would only fail later
    except OSError as error:
        # The system's word for it; that of Arrow repeats the path.
        return os.strerror(error.errno) if error.errno else _first_line(error)
    except (pa.ArrowException, KeyError, ValueError) as error:
        return _first_line(error)
    return lean(conformed)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; Arrow takes no name that is not UTF-8, but what Python has opened."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with path.open("rb") as source, pq.ParquetFile(source) as file:
            yield file
    else:
        with pq.ParquetFile(path) as file:
            yield file


_SIGNS = frozenset(("schema_version", "run_key", "status"))
"""Columns that make a Parquet file one of rows."""

_MANY = 10_000


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _conform(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return the columns of `wanted` with their types; what is not there is null."""
    if table.schema.equals(wanted):  # as in every file of this version: a third of the time per file saved
        return table
    have = dict(zip(table.schema.names, table.columns, strict=True))
    columns = []
    for name, kind in zip(wanted.names, wanted.types, strict=True):
        column = have.get(name)
        if column is None:
            column = pa.nulls(len(table), kind)
        elif column.type != kind:
            try:
                column = column.cast(kind)
            except pa.ArrowException as error:
                raise ValueError(f"{name} must be {kind}: {_first_line(error)}") from error
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=wanted)
