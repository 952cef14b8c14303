"""A command line from start to end: check, run, progress, summary, exit code."""

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from src import store
from src.sweep import caches, command_line, launching, study
from src.sweep.command_line import Plan, UsageError
from src.sweep.progress import Progress, tell

ALL_WELL, NOT_ALL_WELL, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: every run ended well; a run did not, or failed its gate; nothing was started; Ctrl-C."""


_ROOM_FOR_A_ROW = 64 * 1024
"""Bytes that must fit before a sweep starts."""

_SECONDS_TO_END = 3.0
"""Signals that come this soon after the first ask for what is under way."""


def run(arguments: list[str], hydra_main: Callable[[], Any]) -> int:
    """Run a command line and return its exit code; `hydra_main` starts the jobs."""
    try:
        plan = command_line.check(arguments)
        if plan is not None:
            _claim(plan)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # the entry's own output
        return USAGE
    except KeyboardInterrupt:
        print("interrupted: nothing was started", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    if plan is None:
        hydra_main()
        return ALL_WELL
    sys.argv[1:] = command_line.flags_first(arguments)  # where Hydra looks for them
    with _terminable():
        return _run(plan, hydra_main)


def _claim(plan: Plan) -> None:
    """Make the folder of the sweep's rows, for this process alone, and see that it can be written.

    Rows of another sweep of that name would enter this one's summary and exit code.
    """
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM_FOR_A_ROW))
            file.flush()
    except FileExistsError:
        if folder.is_dir():
            raise UsageError(f"sweep_id must be new: got {plan.sweep_id}, there is {folder}") from None
        raise UsageError(f"output_dir must be a folder: got {plan.output_dir}") from None
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise UsageError(f"output_dir cannot be written: {plan.output_dir}: {error.strerror}") from None


def _run(plan: Plan, hydra_main: Callable[[], Any]) -> int:
    console = Console()
    code = ALL_WELL
    try:
        with Progress(plan, console), launching.prepared(plan, console), study.studied(plan):
            hydra_main()
    except launching.LaunchError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # as of a command line that is wrong
        return USAGE
    except launching.LauncherDiedError as error:
        code = NOT_ALL_WELL
        tell(console, f"error: {error}")
    except KeyboardInterrupt:
        code = INTERRUPTED
        tell(console, "interrupted: no further run is started")
    except SystemExit as ended:
        # Hydra has told what went wrong; the rows so far are worth a summary all the same.
        code = NOT_ALL_WELL if ended.code else ALL_WELL
    finally:
        caches.remove_sweep(plan.output_dir, plan.sweep_id, keep_runs=plan.keep_cache)
        with contextlib.suppress(OSError):  # there are rows in it, as there should be
            store.sweep_dir(plan.output_dir, plan.sweep_id).rmdir()
    try:
        return max(code, _end(plan, console))
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(plan: Plan, console: Console) -> int:
    """Print the summary and the runs that did not end well; return the exit code they deserve."""
    from src.analysis.ending import sweep_ending  # noqa: PLC0415  # pandas, needed only now

    report = sweep_ending(
        plan.output_dir, plan.sweep_id, console.width, unicode=console.encoding.startswith("utf")
    )
    console.print(report.text, markup=False, highlight=False, soft_wrap=True, end="")
    for bad in report.bad_runs:
        tell(console, f"{bad.label}: {bad.status}: {bad.reason}")
    for path, why in report.unreadable.items():
        tell(console, f"{path}: {why}")
    if (best := study.best(plan)) is not None:
        tell(console, best)
    missing = len(plan.specs) - report.rows
    if missing > 0:
        tell(console, f"{missing} of {len(plan.specs)} runs left no row")
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    if report.rows:
        console.print(f"rows: {folder}", markup=False, highlight=False, soft_wrap=True)
    return NOT_ALL_WELL if report.bad_runs or report.unreadable or missing > 0 else ALL_WELL


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal end a sweep in order.

    The run's process is ended and its row written; a second signal soon after the first would only
    cut that short. What the caller of this process has it ignore stays ignored.
    """
    first: list[float] = []

    def interrupt(_signal: int, _frame: Any) -> None:
        now = time.monotonic()
        if not first or now - first[0] > _SECONDS_TO_END:
            first[:] = [now]
            raise KeyboardInterrupt

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    heard = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
