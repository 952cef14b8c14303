"""A command line from start to end: check, run, progress, summary, exit code."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from src import store
from src.sweep import caches, command_line
from src.sweep.command_line import Plan, UsageError
from src.sweep.progress import Progress, tell

ALL_WELL, NOT_ALL_WELL, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: every run ended well; a run did not, or failed its gate; nothing was started; Ctrl-C."""


def run(arguments: list[str], hydra_main: Callable[[], Any]) -> int:
    """Run a command line and return its exit code; `hydra_main` starts the jobs."""
    try:
        plan = command_line.check(arguments)
        if plan is not None:
            _make_output_dir(plan)
            _check_sweep_is_new(plan)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # the entry's own output
        return USAGE
    except KeyboardInterrupt:
        print("interrupted: nothing was started", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    if plan is None:
        hydra_main()
        return ALL_WELL
    with _terminable():
        return _run(plan, hydra_main)


def _make_output_dir(plan: Plan) -> None:
    try:
        plan.output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"output_dir cannot be made: {plan.output_dir}: {error.strerror}") from None


def _check_sweep_is_new(plan: Plan) -> None:
    """Rows of an earlier sweep would enter this one's summary and exit code."""
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    if folder.exists() and store.row_files(folder):
        raise UsageError(f"sweep_id must be new: got {plan.sweep_id}, of which there are rows in {folder}")


def _run(plan: Plan, hydra_main: Callable[[], Any]) -> int:
    console = Console()
    code = ALL_WELL
    try:
        with Progress(plan, console):
            hydra_main()
    except KeyboardInterrupt:
        code = INTERRUPTED
        tell(console, "interrupted: no further run is started")
    except SystemExit as ended:
        # Hydra has told what went wrong; the rows so far are worth a summary all the same.
        code = NOT_ALL_WELL if ended.code else ALL_WELL
    finally:
        caches.remove_sweep(plan.output_dir, plan.sweep_id, keep_runs=plan.keep_cache)
    try:
        return max(code, _end(plan, console))
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(plan: Plan, console: Console) -> int:
    """Print the summary and the runs that did not end well; return the exit code they deserve."""
    from src.analysis.report import sweep_report  # noqa: PLC0415  # pandas, needed only now

    report = sweep_report(
        plan.output_dir, plan.sweep_id, console.width, unicode=console.encoding.startswith("utf")
    )
    console.print(report.text, markup=False, highlight=False, soft_wrap=True, end="")
    for bad in report.bad_runs:
        tell(console, f"{bad.label}: {bad.status}: {bad.reason}")
    for path, why in report.unreadable.items():
        tell(console, f"{path}: {why}")
    missing = len(plan.specs) - report.rows
    if missing > 0:
        tell(console, f"{missing} of {len(plan.specs)} runs left no row")
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    if report.rows:
        console.print(f"rows: {folder}", markup=False, highlight=False, soft_wrap=True)
    return NOT_ALL_WELL if report.bad_runs or report.unreadable or missing > 0 else ALL_WELL


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end a sweep as Ctrl-C does: the run's row is written and its process ended."""

    def interrupt(_signal: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
