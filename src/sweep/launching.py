"""What a sweep needs around Hydra's launchers beside the one that runs jobs in this process."""

import contextlib
import logging
import os
from collections.abc import Iterator

from rich.console import Console

from src.sweep.command_line import Plan
from src.sweep.progress import tell

IN_THIS_PROCESS = ".BasicLauncher"


class LaunchError(Exception):
    """The launcher took no jobs; the message is what the user reads."""


class LauncherDiedError(Exception):
    """The launcher ended before its jobs had; the message is what the user reads."""


@contextlib.contextmanager
def prepared(plan: Plan, console: Console) -> Iterator[None]:
    """See a sweep through its launcher: a run that its job lost gets a row.

    Raises:
        LaunchError: the launcher took no jobs.
        LauncherDiedError: it ended before its jobs had.
        KeyboardInterrupt: after the jobs were cancelled.
    """
    if plan.launcher.endswith(IN_THIS_PROCESS):
        yield
        return
    # Hydra is to pass on the exceptions of its launcher, instead of a traceback and an exit.
    with environment("HYDRA_FULL_ERROR", "1"):
        if plan.launcher.endswith(".SlurmLauncher"):
            with _slurm(plan, console):
                yield
        else:
            # What killed runs leave behind is no news: sweep.isolate. Here joblib starts who would tell.
            with environment("PYTHONWARNINGS", "ignore:resource_tracker", joined=","), _workers(plan):
                yield


@contextlib.contextmanager
def _slurm(plan: Plan, console: Console) -> Iterator[None]:
    """Watch the jobs of SLURM, and write the rows of those that were lost."""
    from src.sweep import lost, slurm  # noqa: PLC0415  # of an extra

    def submitted(number: str) -> None:
        tell(console, f"SLURM job {number}, to look at it: squeue --job={number}")

    before = lost.before(plan)
    logging.getLogger("submitit").setLevel(logging.ERROR)
    try:
        with slurm.watched(submitted) as jobs:
            try:
                yield
            finally:
                for run in lost.write(plan, jobs.lost, before) if jobs.lost else ():
                    tell(console, f"run {run.number} ({' '.join(run.overrides)}): {run.status}: {run.reason}")
    except slurm.SlurmError as error:
        raise LaunchError(f"SLURM took no job: {error}") from None


@contextlib.contextmanager
def _workers(plan: Plan) -> Iterator[None]:
    """Write the rows of runs whose workers ended before them: by a signal to all, or by their own fault."""
    from src.sweep import lost  # noqa: PLC0415  # what measures, only where something is

    before = lost.before(plan)
    try:
        yield
    except KeyboardInterrupt:
        lost.write(plan, lost.begun(plan, before, "interrupted", lost.INTERRUPTED), before)
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        told = f"{plan.launcher.rpartition('.')[2]}: {type(error).__name__}: {first}"
        lost.write(
            plan, lost.begun(plan, before, "crashed", f"the launcher ended before the run ({told})"), before
        )
        raise LauncherDiedError(told) from error


@contextlib.contextmanager
def environment(name: str, value: str, joined: str | None = None) -> Iterator[None]:
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
