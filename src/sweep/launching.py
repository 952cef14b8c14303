"""What a sweep needs around Hydra's launchers beside the one that runs jobs in this process."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from src import store
from src.sweep.command_line import Plan
from src.sweep.progress import tell

if TYPE_CHECKING:
    from src.sweep import slurm


class LaunchError(Exception):
    """The launcher took no jobs; the message is what the user reads."""


@contextlib.contextmanager
def prepared(plan: Plan, console: Console) -> Iterator[None]:
    """See a sweep through its launcher: every run that its job lost gets a row when it ends.

    Raises:
        LaunchError: the launcher took no jobs.
        KeyboardInterrupt: after the jobs were cancelled.
    """
    if plan.launcher.endswith(".SlurmLauncher"):
        with _slurm(plan, console):
            yield
    elif plan.launcher.endswith(".JoblibLauncher"):
        # What killed runs leave behind is no news: sweep.isolate. Here joblib starts who would tell.
        with _environment("PYTHONWARNINGS", "ignore:resource_tracker", joined=","):
            yield
    else:
        yield


@contextlib.contextmanager
def _slurm(plan: Plan, console: Console) -> Iterator[None]:
    from src.sweep import slurm  # noqa: PLC0415  # of an extra

    before = set(store.row_files(store.sweep_dir(plan.output_dir, plan.sweep_id)))
    logging.getLogger("submitit").setLevel(logging.ERROR)
    try:
        # Hydra is to pass on the exceptions of its launcher, instead of a traceback and an exit.
        with _environment("HYDRA_FULL_ERROR", "1"), slurm.watched() as jobs:
            try:
                yield
            finally:
                _write_lost(plan, jobs.lost, before, console)
    except slurm.SlurmError as error:
        raise LaunchError(f"SLURM took no job: {error}") from None


def _write_lost(plan: Plan, lost: "list[slurm.Lost]", before: set[Path], console: Console) -> None:
    """Write a row for each lost run that has left none."""
    from src.sweep import job  # noqa: PLC0415  # only where something was lost

    if not lost:
        return
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    rows, _ = store.read([f for f in store.row_files(folder) if f not in before], ["job"])
    have = set(rows["job"].to_pylist())
    for each in lost:
        if each.number in have:
            continue
        if each.number >= len(plan.specs):  # a sweeper chose it
            tell(console, f"run {each.number} ({' '.join(each.overrides)}): {each.status}: {each.reason}")
            continue
        log = plan.output_dir / "logs" / plan.sweep_id / str(each.number) / "run.log"
        ended = job.Job(plan.specs[each.number], each.number, each.overrides, log)
        job.write_lost(ended, each.status, each.reason, each.error)


@contextlib.contextmanager
def _environment(name: str, value: str, joined: str | None = None) -> Iterator[None]:
    """Set a variable meanwhile; with `joined`, behind what it has been so far."""
    before = os.environ.get(name)
    os.environ[name] = f"{before}{joined}{value}" if before and joined else value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
