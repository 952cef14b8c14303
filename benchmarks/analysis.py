"""What offline analysis costs: `python -m benchmarks.analysis [--rows 1000,10000,100000]`.

Seconds and peak memory of each command over synthetic rows, beside a plain pandas loop over the same files
that knows nothing of intervals, machines or runs that failed. All are processes of their own, one after the
other in one go, imports included. Markdown; nothing is left behind.
"""

import argparse
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from src import store
from tests import synthetic

ROOT = Path(__file__).parents[1]
MOST_FILES = 10_000
"""More files of one row each are not tried: a sweep of that many runs takes weeks."""

_PANDAS = """
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from src import record

frame = pd.concat([pd.read_parquet(file) for file in sorted(Path(sys.argv[1]).rglob("*.parquet"))])
axes = [name for name in record.AXES if name != "seed"]
good = frame[(frame["status"] == "ok") & (frame["verdict"] != "invalid")]
means = np.exp(np.log(good["speedup"]).groupby([good[name] for name in axes], dropna=False).mean())
print(means.to_string(max_rows=200))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took."""

    seconds: float
    peak_mib: float
    exit_code: int


def main(argv: Sequence[str] | None = None) -> None:
    """Print one table for all sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis", description=__doc__)
    parser.add_argument("--rows", default="1000,10000,100000", help="sizes, with commas between them")
    parser.add_argument("--seeds", type=int, default=5, help="rows that repeat a cell (default: 5)")
    arguments = parser.parse_args(argv)
    sizes = [int(size) for size in arguments.rows.split(",")]
    lines = [line for size in sizes for line in _lines(size, arguments.seeds)]
    print(tabulate(lines, headers="keys", tablefmt="github", floatfmt=("", "", "", ".2f", ".0f", "")))


def _lines(size: int, seeds: int) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: what this one holds would count as the peak of those it starts.
        process = multiprocessing.get_context("spawn").Process(target=_make, args=(folder, size, seeds))
        process.start()
        process.join()
        base, new, single = (folder / name / "runs" for name in ("base", "new", "single"))
        commands = {
            "aggregate": ("src.aggregate", "--all", base, "--out", folder / "out"),
            "compare with as many": ("src.compare", "--all", base, new),
            "report": ("src.report", "--all", base, "-o", folder / "report.html"),
        }
        for words, (module, *rest) in commands.items():
            if importlib.util.find_spec(str(module)):
                yield _line(size, base, words, ["-m", str(module), *map(str, rest)])
        yield _line(size, base, "pandas loop", ["-c", _PANDAS, str(base)])
        if single.exists():
            command = ["-m", "src.aggregate", "--all", str(single), "--out", str(folder / "out")]
            yield _line(size, single, "aggregate", command)
            yield _line(size, single, "pandas loop", ["-c", _PANDAS, str(single)])


def _make(folder: Path, size: int, seeds: int) -> None:
    """Write as many rows as `base`, with a slower compiled step as `new`, one a file as `single`."""
    table = synthetic.rows(size, seeds=seeds, torches=("2.13.0+cu130",))
    synthetic.write(folder / "base", table)
    if size <= MOST_FILES:
        synthetic.write(folder / "single", table, rows_per_file=1)
    synthetic.write(folder / "new", synthetic.rows(size, seeds=seeds, factor=1.03, torches=("2.13.1+cu130",)))


def _line(size: int, runs: Path, words: str, arguments: Sequence[str]) -> dict[str, object]:
    seen = cost([sys.executable, *arguments])
    return {
        "rows": f"{size:,}",
        "files": f"{len(store.row_files(runs)):,}",
        "command": words,
        "seconds": seen.seconds,
        "peak MiB": seen.peak_mib,
        "exit code": seen.exit_code,
    }


def cost(command: Sequence[str]) -> Cost:
    """Run a command and return what its process took: wall seconds, and the most memory it had resident."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    kib = usage.ru_maxrss if sys.platform != "darwin" else usage.ru_maxrss / 1024
    return Cost(seconds, kib / 1024, process.returncode)


if __name__ == "__main__":
    main()
