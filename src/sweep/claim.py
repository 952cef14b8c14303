"""The folder of a sweep's rows: for one process at a time."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from src import store
from src.store.compaction import LOCK
from src.sweep.command_line import Plan, UsageError

_ROOM_FOR_A_ROW = 64 * 1024
"""Bytes that must fit before a sweep starts."""


@contextlib.contextmanager
def claimed(plan: Plan) -> Iterator[None]:
    """Hold the folder of a sweep's rows: a new one, or that of a sweep which is resumed.

    Rows of another sweep of that name would enter this one's summary and exit code, and two processes
    would measure the same runs.

    Raises:
        UsageError: the sweep is there though it should be new, or not there though it should be
            resumed, or another process runs it, or its folder cannot be written.
    """
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    _make(folder, plan)
    lock = held(folder)
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(f"sweep {plan.sweep_id} is running: it can be resumed when it has ended") from None
    try:
        yield
    finally:
        _remove_if_empty(folder)
        lock.release()


def held(folder: Path) -> FileLock:
    """Return the lock of a sweep's folder, which the system gives back when its holder is gone.

    Entering it raises `filelock.Timeout` where another process has it.
    """
    return FileLock(folder / LOCK, timeout=0)


def _make(folder: Path, plan: Plan) -> None:
    made = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if plan.resume is None:
            folder.mkdir()
            made = True
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM_FOR_A_ROW))
            file.flush()
    except FileExistsError:
        if folder.is_dir():
            raise UsageError(
                f"sweep_id must be new: got {plan.sweep_id}, there is {folder} "
                f"(resume={plan.sweep_id} goes on with it)"
            ) from None
        raise UsageError(f"output_dir must be a folder: got {plan.output_dir}") from None
    except OSError as error:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise UsageError(f"output_dir cannot be written: {plan.output_dir}: {error.strerror}") from None


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder unless there are rows in it, as there should be."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
