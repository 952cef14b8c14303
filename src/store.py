"""Rows on disk: `<output_dir>/runs/sweep=<id>/<run_key>.parquet`, one file a run.

A file appears whole or not at all and is never overwritten. Reading takes data only: nothing in a
file is imported, unpickled or executed.
"""

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from src import record


def sweep_dir(output_dir: Path, sweep_id: str) -> Path:
    """Return the folder of a sweep's rows."""
    return output_dir / "runs" / f"sweep={sweep_id}"


def row_files(folder: Path) -> list[Path]:
    """Return the row files under `folder` in order of their names; hidden files are not rows."""
    if folder.is_file():
        return [folder]
    found = folder.rglob("*.parquet")
    return sorted(p for p in found if not p.name.startswith((".", "_")) and not p.is_fifo())


def write(output_dir: Path, row: Mapping[str, Any]) -> Path:
    """Write one row and return its file.

    The row goes to a hidden temporary file first, is flushed to the disk, and is then linked to
    its name, which fails where the name is taken: a second run of the same configuration in the
    same sweep gets the name `<run_key>-2.parquet`.

    Raises:
        RecordError: the row does not fit the schema.
        OSError: the disk is full, read-only or the like; no file is left behind.
    """
    table = record.to_table(row)
    folder = sweep_dir(output_dir, row["sweep_id"])
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{row['run_key']}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            # Lean on purpose, 14 KB instead of 38: of one row, statistics and dictionaries only
            # cost bytes, and the meaning of the columns is in `record`, not in every file.
            pq.write_table(table, file, use_dictionary=False, write_statistics=False, store_schema=False)
            file.flush()
            os.fsync(file.fileno())
        return _link_to_free_name(temporary, folder, row["run_key"])
    finally:
        temporary.unlink(missing_ok=True)


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


def read(files: Iterable[Path], columns: list[str] | None = None) -> tuple[pa.Table, dict[Path, str]]:
    """Read rows, and say of each file that could not be read why.

    A column that an older file lacks is null. Row files of another schema version are read as far
    as their columns have the names and types of this one.

    Returns:
        A table with the columns asked for (all when None), and a reason for each unreadable file.
    """
    wanted = record.schema()
    if columns is not None:
        wanted = pa.schema([wanted.field(name) for name in columns])
    tables, unreadable = [], {}
    for path in files:
        try:
            present = set(pq.read_schema(path).names)
            if not {"schema_version", "run_key", "status"} <= present:
                unreadable[path] = "not a row file of stepsweep"
                continue
            names = [name for name in wanted.names if name in present]
            table = pq.ParquetFile(path).read(columns=names)
            conformed = _conform(table, wanted)
            conformed.validate(full=True)  # text that is not UTF-8 would only fail later
            tables.append(conformed)
        except (pa.ArrowException, OSError, KeyError) as error:
            unreadable[path] = str(error).splitlines()[0]
    return pa.concat_tables(tables) if tables else wanted.empty_table(), unreadable


def _conform(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    arrays = [
        table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(len(table), f.type)
        for f in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)
