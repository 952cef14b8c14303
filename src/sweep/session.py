"""A command line from start to end: check, run, progress, summary, exit code."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from src import store
from src.sweep import caches, claim, command_line, isolate, launching, resume, study
from src.sweep.command_line import Plan, UsageError
from src.sweep.progress import Progress, tell
from src.sweep.resume import Resumed

ALL_WELL, NOT_ALL_WELL, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: every run ended well; a run did not, or failed its gate; nothing was started; Ctrl-C."""


_SAME_SIGNAL = 0.5
"""Seconds in which a second signal is the first one once more: a terminal and a program that it started
may both pass it on."""


def run(arguments: list[str], hydra_main: Callable[[], Any]) -> int:
    """Run a command line and return its exit code; `hydra_main` starts the jobs."""
    with contextlib.ExitStack() as folder:
        try:
            plan = command_line.check(arguments)
            resumed = None
            if plan is not None:
                if plan.resume is not None:
                    plan = resume.named(plan)
                folder.enter_context(claim.claimed(plan))
                resumed = None if plan.resume is None else resume.prepare(plan)
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
        if plan.resume is not None:  # all jobs are of the sweep that was found
            sys.argv += [f"sweep_id={plan.sweep_id}", f"resume={plan.sweep_id}"]
        isolate.open_session()
        with _terminable(plan):
            return _run(plan, resumed, hydra_main)


def _run(plan: Plan, resumed: Resumed | None, hydra_main: Callable[[], Any]) -> int:
    console = Console()
    code = ALL_WELL
    try:
        with Progress(plan, console, resumed), launching.prepared(plan, console), study.studied(plan):
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
        resume.forget(plan)
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
    missing = len(plan.specs) - report.rows if plan.resume is None else resume.missing(plan)
    if missing > 0:
        tell(console, f"{missing} of {len(plan.specs)} runs left no row")
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    if report.rows:
        console.print(f"rows: {folder}", markup=False, highlight=False, soft_wrap=True)
    return NOT_ALL_WELL if report.bad_runs or report.unreadable or missing > 0 else ALL_WELL


@contextlib.contextmanager
def _terminable(plan: Plan) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal end a sweep in order, and a second one at once.

    In order: the run's process is ended, its row written, its cache removed, the summary printed. At
    once: its processes are killed, and this one. What the caller of this process has it ignore stays
    ignored.
    """
    first: list[float] = []

    def interrupt(_signal: int, _frame: Any) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            raise KeyboardInterrupt
        if now - first[0] > _SAME_SIGNAL:
            _end_at_once(plan)

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    heard = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(plan: Plan) -> None:
    """Kill the runs and end this process, without cleaning up."""
    isolate.end_all()
    left = caches.sweep_folder(plan.output_dir, plan.sweep_id)
    told = f"ended at once: finished rows are kept{f', {left} can be deleted' if left.exists() else ''}\n"
    with contextlib.suppress(OSError):
        os.write(2, told.encode(errors="replace"))  # print may be what was interrupted
    os._exit(INTERRUPTED)
