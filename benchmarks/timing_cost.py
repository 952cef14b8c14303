"""What the timing of runs cost, and how narrow it got: `python -m benchmarks.timing_cost FILE [FILE ...]`.

Markdown: for each run the seconds of timing and the width of the rounds' own interval, the widest of its
processes, beside the width that was asked for. Rounds end when the width is reached, but not before
`measure.min_rounds`, and when `measure.max_seconds` are over.
"""

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tabulate import tabulate

from src import stats, store

_COLUMNS = (
    *("model", "width", "compile_mode", "compile_backend", "status", "config", "warnings"),
    *("processes", "process_rounds", "timing_s", "eager_us", "eager_block_us", "compiled_block_us"),
)


def main(files: list[str]) -> None:
    """Print one line a run."""
    table, unreadable = store.read([Path(file) for file in files], list(_COLUMNS))
    if unreadable or not table.num_rows:
        raise SystemExit(f"cannot read: {', '.join(map(str, unreadable)) or 'no rows'}")
    lines = [_line(row) for row in table.to_pylist() if row["status"] == "ok"]
    print(tabulate(lines, headers="keys", tablefmt="github"))


def _line(row: dict[str, Any]) -> dict[str, Any]:
    measure = json.loads(row["config"])["measure"]
    return {
        "model": f"{row['model']}, width {row['width']}",
        "mode": row["compile_mode"] if row["compile_backend"] != "none" else "two eager arms",
        "eager, us": f"{row['eager_us']:.4g}",
        "processes": row["processes"],
        "rounds": ", ".join(map(str, row["process_rounds"])),
        "timing, s": f"{row['timing_s']:.2f}",
        "allowed, s": f"{measure['max_seconds']:g}",
        "width, %": f"{100 * max(_widths(row)):.2f}",
        "asked, %": f"{100 * measure['target_relative_width']:g}",
        "reached": "no" if "not_converged" in row["warnings"] else "yes",
    }


def _widths(row: dict[str, Any]) -> Iterator[float]:
    """Yield the relative width of the rounds' interval of each process."""
    ends = [0]
    for rounds in row["process_rounds"]:
        ends.append(ends[-1] + rounds)
    for start, end in pairwise(ends):
        blocks = (row[f"{arm}_block_us"][start:end] for arm in ("eager", "compiled"))
        yield stats.paired_speedup(*blocks).relative_width


if __name__ == "__main__":
    main(sys.argv[1:])
