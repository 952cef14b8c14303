"""What two equal arms show: `python -m benchmarks.noise FILE [FILE ...]`, as Markdown.

Takes the rows of `experiments=two_eager_arms`. Any verdict but `no_difference` is a false alarm; an
interval without 1 is a miss. Intervals are made anew from the medians of the processes, with and without
what all processes share (`measure.shared_spread`), so that rows from before it can be judged as well. The
tutorial's method has neither verdict nor interval; its ratios are shown beside ours.
"""

import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from src import stats, store, vocabulary

_COLUMNS = (
    *("model", "parameters", "device", "gpu", "cpu", "status", "verdict", "processes", "timing_s", "wall_s"),
    *("speedup", "sequential_speedup", "process_speedup", "min_effect"),
)


def main(files: list[str]) -> None:
    """Print one table of all files."""
    table, unreadable = store.read([Path(file) for file in files], list(_COLUMNS))
    if unreadable or not table.num_rows:
        raise SystemExit(f"cannot read: {', '.join(map(str, unreadable)) or 'no rows'}")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        groups[row["gpu"] or row["cpu"], row["model"], row["parameters"], row["processes"]].append(row)
    lines = [_line(group, rows) for group, rows in groups.items() if any(r["status"] == "ok" for r in rows)]
    first, *others = ([name, *(line[name] for line in lines)] for name in lines[0])
    print(tabulate(others, headers=first, tablefmt="pipe"))


def _line(group: tuple[Any, ...], rows: list[dict[str, Any]]) -> dict[str, Any]:
    machine, model, parameters, processes = group
    good = [row for row in rows if row["status"] == "ok"]
    bare = [stats.log_t_interval(row["process_speedup"]) for row in good]
    whole = [
        stats.widened(interval, vocabulary.SHARED_SPREAD[row["device"]])
        for interval, row in zip(bare, good, strict=True)
    ]
    speedups = [row["speedup"] for row in good]
    within = [s / row["speedup"] for row in good for s in row["process_speedup"]]
    sequential = [row["sequential_speedup"] for row in good if row["sequential_speedup"]]
    judged = [stats.verdict(i, row["min_effect"]) for i, row in zip(whole, good, strict=True)]
    return {
        "machine": machine,
        "model": f"{model}, {parameters / 1e6:.1f} M",
        "runs x processes": f"{len(good)} x {processes}",
        "false alarms": sum(v != "no_difference" for v in judged),
        "intervals with 1": _covering(whole),
        "the same without shared spread": _covering(bare),
        "width, median %": f"{100 * statistics.median(i.relative_width for i in whole):.2f}",
        "speedup, sd %": _sd(speedups),
        "from - to": f"{min(speedups):.4f} - {max(speedups):.4f}",
        "over processes, sd %": _sd(within),
        "sequential, sd %": _sd(sequential),
        "sequential, from - to": f"{min(sequential):.4f} - {max(sequential):.4f}" if sequential else "-",
        "timing, s a run": f"{statistics.median(row['timing_s'] for row in good):.2f}",
        "wall, s a run": f"{statistics.median(row['wall_s'] for row in good):.1f}",
    }


def _covering(intervals: list[stats.Interval]) -> int:
    return sum(i.low is not None and i.high is not None and i.low <= 1 <= i.high for i in intervals)


def _sd(ratios: list[float]) -> str:
    return f"{100 * statistics.stdev(map(math.log, ratios)):.2f}" if len(ratios) > 1 else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
