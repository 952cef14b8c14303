"""Many row files of a sweep become one: 100,000 files of one row are 1.5 GB and take minutes to read.

Crash-safe for every reader, `pandas.read_parquet` of the folder included: the compacted folder is made
beside `runs/`, flushed, and exchanged with the sweep's own in one system call (renameat2 with
RENAME_EXCHANGE, Linux). Before it the old files are there, after it the new one, and at no moment both or
none. Where the file system cannot exchange folders (NFS cannot), nothing is changed.

Rows that did not end well stay in files of their own, for a resumed sweep to replace. So do files that
hold anything that this version does not know: nothing is lost.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from src import record, store
from src.vocabulary import GOOD_STATUSES

LOCK = ".running.lock"
"""File in a sweep's folder that is locked by the process which runs, or changes, the sweep."""

_ROWS_AT_ONCE = 2000
"""Rows of a row group, and files that are held at once: 0.2 GiB with the times of 100 blocks."""

_AT_FDCWD = -100  # <fcntl.h>
_RENAME_EXCHANGE = 2  # <linux/fs.h>


class CompactionError(Exception):
    """A sweep cannot be compacted; the message says why."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a sweep."""

    rows: int
    """Rows in the new file."""
    files_before: int
    files_after: int


def compact(folder: Path) -> Compacted:
    """Put the good rows of a sweep's folder into one file.

    Raises:
        CompactionError: the sweep is running, or the file system cannot exchange folders.
        OSError: the disk is full or the like; the sweep is as it was.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        with lock:
            return _compact(folder)
    except Timeout:
        raise CompactionError(f"{folder} is running: it can be compacted when it has ended") from None


def _compact(folder: Path) -> Compacted:
    for left in _left_by_killed(folder):
        _take_back(left, folder)
        shutil.rmtree(left, ignore_errors=True)
    files = store.row_files(folder)
    packed = [path for path in files if _is_packable(path)]
    if len(packed) < 2:
        return Compacted(0, len(files), len(files))
    # Not in runs/, where a reader that looks into hidden folders would find both.
    made = folder.parent.parent / f"{_beside(folder)}{secrets.token_hex(4)}"
    made.mkdir()
    try:
        rows = _write(packed, made / f"rows-{secrets.token_hex(4)}.parquet")
        _link_others(folder, made, set(packed))
        _flush(made)
        _exchange(folder, made)
        # `made` has the old files now. A row that a job has written meanwhile is not among those packed.
        _link_others(made, folder, set(map(made.joinpath, (p.relative_to(folder) for p in packed))))
        _flush(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Compacted(rows, len(files), len(store.row_files(folder)))


def _beside(folder: Path) -> str:
    """Return how folders begin that are made to take the place of this one."""
    return f".compacting-{folder.name}-"


def _left_by_killed(folder: Path) -> list[Path]:
    return list(folder.parent.parent.glob(f"{_beside(folder)}*"))


def _take_back(left: Path, folder: Path) -> None:
    """Take from what a killed compaction has left each row that the sweep's folder lacks.

    It is the folder that was to come, or the one that was before; only a row that was written at the
    very moment of the exchange can be missing.
    """
    identity = ["run_key", "job", "started_at"]
    there = set(map(_hashable, store.read(store.row_files(folder), identity)[0].to_pylist()))
    for path in store.row_files(left):
        table, _ = store.read([path], identity)
        if len(table) == 1 and _hashable(table.to_pylist()[0]) not in there:
            os.link(path, folder / f"{path.stem}-{secrets.token_hex(4)}.parquet")


def _hashable(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _is_packable(path: Path) -> bool:
    """Return whether a file has only rows that ended well, and only columns that are known."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with pq.ParquetFile(path) as file:
            known = {f.name: f.type for f in record.schema()}
            if any(known.get(f.name) != f.type for f in file.schema_arrow):
                return False
            statuses = file.read(columns=["status"]).column("status").unique().to_pylist()
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return False
    return set(statuses) <= set(GOOD_STATUSES)


def _write(files: list[Path], target: Path) -> int:
    """Write the rows of `files` into one file, and return how many there are.

    Raises:
        CompactionError: a file can no longer be read, or rows are missing in what was written.
    """
    rows = 0
    with target.open("xb") as opened:
        with pq.ParquetWriter(opened, record.schema(), compression="zstd") as writer:
            for some in _parts(files):
                table, unreadable = store.read(some)
                for path, why in unreadable.items():
                    raise CompactionError(f"{path} cannot be read: {why}")
                writer.write_table(table, row_group_size=_ROWS_AT_ONCE)
                rows += len(table)
        opened.flush()
        os.fsync(opened.fileno())
    if pq.read_metadata(target).num_rows != rows:
        raise CompactionError(f"{target} has not all rows")
    return rows


def _parts(files: list[Path]) -> Iterator[list[Path]]:
    for first in range(0, len(files), _ROWS_AT_ONCE):
        yield files[first : first + _ROWS_AT_ONCE]


def _link_others(source: Path, target: Path, but: set[Path]) -> None:
    """Give every file of `source` but those, and the lock, a name in `target` as well."""
    for path in source.rglob("*"):
        if path in but or path.is_dir() or path.name.endswith(".tmp"):
            continue
        new = target / path.relative_to(source)
        new.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.link(path, new, follow_symlinks=False)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(first: Path, second: Path) -> None:
    """Give two folders each other's name, at one moment.

    Raises:
        CompactionError: the system or the file system cannot.
    """
    told = f"{first} cannot be compacted: the file system cannot exchange two folders"
    if sys.platform != "linux":
        raise CompactionError(told)
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        raise CompactionError(told)
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
        raise CompactionError(f"{told}: {os.strerror(ctypes.get_errno())}")
