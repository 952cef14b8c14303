"""Progress of a sweep: one line per finished run, and a bar with the time left on a terminal.

The row files are the truth: this looks at the sweep's folder once in a while, so it shows runs of
any launcher, on this host or another. It looks seldom, and redraws seldom, because it shares the
machine with what is being timed.
"""

import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from src import store
from src.analysis import format as formatted
from src.stats import Interval
from src.sweep.command_line import Plan
from src.sweep.resume import Resumed

LOOK_SECONDS = 1.0
REDRAW_PER_SECOND = 0.5

_SHOWN = (
    *("job", "status", "reason", "verdict", "verdict_reason", "warnings", "gate", "overrides"),
    *("model", "optimizer", "scheduler", "compile_mode", "recompiles"),
    *("eager_us", "compiled_us", "speedup", "speedup_low", "speedup_high"),
)


class Progress:
    """Shows the rows of a sweep as they appear, while it is entered."""

    def __init__(self, plan: Plan, console: Console, resumed: Resumed | None = None) -> None:
        """Get ready to show `plan` on `console`; rows that are there already are not shown.

        Those that a resumed sweep replaces are shown when they have been.
        """
        self._folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
        self._total = len(plan.specs) or plan.trials
        self._fixed = set(plan.fixed)
        self._console = console
        self._seen: set[Path] = set(store.row_files(self._folder)) if self._folder.exists() else set()
        self._replaced = {path: _inode(path) for path in (resumed.again if resumed else ())}
        self._resumed = resumed
        self._done = resumed.good if resumed is not None else 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._bar = Bar(
            TextColumn("runs"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=REDRAW_PER_SECOND,
            disable=not console.is_terminal,
            transient=True,
        )

    def __enter__(self) -> "Progress":
        """Say what starts, and begin to look."""
        runs = "runs" if self._total is None else f"{self._total} run{'s' * (self._total != 1)}"
        there = f", {self._done} of them there already" if self._resumed is not None else ""
        tell(self._console, f"sweep {self._folder.name.removeprefix('sweep=')}: {runs}{there}")
        self._task = self._bar.add_task("runs", total=self._total, completed=self._done)
        self._bar.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Show the rows that came last."""
        self._stop.set()
        self._thread.join()
        self._look()
        self._bar.stop()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        if not self._folder.exists():
            return
        new = [f for f in store.row_files(self._folder) if f not in self._seen]
        new += [path for path, inode in self._replaced.items() if _inode(path) not in (inode, None)]
        if not new:
            return
        self._seen.update(new)
        for path in new:
            self._replaced.pop(path, None)
        table, unreadable = store.read(new, list(_SHOWN))
        for row in table.to_pylist():
            self._done += 1
            of = f"/{self._total}" if self._total else ""
            tell(self._console, f"[{self._done}{of}] {line(row, self._fixed)}")
        for path, why in unreadable.items():
            tell(self._console, f"{path.name}: {why}")
        self._bar.update(self._task, completed=self._done)


def _inode(path: Path) -> int | None:
    """Return the number of a file, which a file that takes its place does not have."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def tell(console: Console, text: str) -> None:
    """Print text as it is: wrapped at words on a terminal, one line for a program that reads it."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def line(row: dict[str, Any], fixed: set[str]) -> str:
    """Return what one finished run was and gave, on one line; all runs share the overrides `fixed`."""
    parts = [label(row, fixed)]
    if row["status"] != "ok":
        parts.append(f"{row['status']}: {row['reason']}")
        return "  ".join(parts)
    if row["speedup"] is not None:
        speedup = Interval(row["speedup"], row["speedup_low"], row["speedup_high"])
        parts += [
            f"eager {formatted.time_us(row['eager_us'])}",
            f"compiled {formatted.time_us(row['compiled_us'])}",
            f"{formatted.ratio(speedup)} {formatted.bounds(speedup)}".rstrip(),
        ]
    else:
        parts.append("traced")
    if row["verdict"] is not None:
        parts.append(row["verdict"] if row["verdict"] != "invalid" else f"invalid: {row['verdict_reason']}")
    if row["recompiles"] is not None:
        parts.append(f"{row['recompiles']} recompile{'s' * (row['recompiles'] != 1)}")
    if row["warnings"]:
        parts.append(f"({', '.join(row['warnings'])})")
    if row["gate"] == "failed":
        parts.append("gate failed")
    return "  ".join(parts)


def label(row: dict[str, Any], fixed: set[str]) -> str:
    """Return what sets the run apart: its own overrides, or its main choices when it has none."""
    own = [o for o in row["overrides"] if o not in fixed]
    return " ".join(own) or f"{row['model']} {row['optimizer']} {row['scheduler']} {row['compile_mode']}"
