"""What two equal arms show: `python -m benchmarks.noise FILE [FILE ...]`, as Markdown.

Takes the rows of `experiments=two_eager_arms`. Any verdict but `no_difference` is a false alarm; an
interval without 1 is a miss. The tutorial's method has neither; its ratios are shown beside ours.
"""

import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from src import store

_COLUMNS = (
    *("model", "parameters", "device", "gpu", "cpu", "status", "verdict", "processes", "timing_s", "wall_s"),
    *("speedup", "speedup_low", "speedup_high", "sequential_speedup", "process_speedup"),
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
    print(tabulate(lines, headers="keys", tablefmt="github"))


def _line(group: tuple[Any, ...], rows: list[dict[str, Any]]) -> dict[str, Any]:
    machine, model, parameters, processes = group
    good = [row for row in rows if row["status"] == "ok"]
    speedups = [row["speedup"] for row in good]
    within = [s / row["speedup"] for row in good for s in row["process_speedup"] or ()]
    widths = [(row["speedup_high"] - row["speedup_low"]) / row["speedup"] for row in good]
    sequential = [row["sequential_speedup"] for row in good if row["sequential_speedup"]]
    return {
        "machine": machine,
        "model": f"{model}, {parameters / 1e6:.1f} M",
        "runs": len(good),
        "processes": processes,
        "false alarms": sum(row["verdict"] != "no_difference" for row in good),
        "intervals with 1": sum(row["speedup_low"] <= 1 <= row["speedup_high"] for row in good),
        "width, median %": f"{100 * statistics.median(widths):.2f}",
        "speedup, sd %": _sd(speedups),
        "from - to": f"{min(speedups):.4f} - {max(speedups):.4f}",
        "over processes, sd %": _sd(within) if processes > 1 else "-",
        "sequential, sd %": _sd(sequential),
        "sequential, from - to": f"{min(sequential):.4f} - {max(sequential):.4f}" if sequential else "-",
        "timing, s a run": f"{statistics.median(row['timing_s'] for row in good):.2f}",
        "wall, s a run": f"{statistics.median(row['wall_s'] for row in good):.1f}",
    }


def _sd(ratios: list[float]) -> str:
    return f"{100 * statistics.stdev(map(math.log, ratios)):.2f}" if len(ratios) > 1 else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
