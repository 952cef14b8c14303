"""What the harness costs: a sweep of 8 cold runs, beside one fresh `python` process per run.

Overhead is wall time less compile time less timing, per run. Both sides measure the same runs with
the same code, one after the other in one go; the runs of the two sides take turns in blocks of the
whole sweep, so compare the columns, not single seconds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from src import store

RUNS = 8
OVERRIDES = ("model=tiny", "optimizer=adam", "measure=quick", "measure.warm_up_steps=0")


def main() -> None:
    """Run both sides and print one table."""
    with tempfile.TemporaryDirectory() as folder:
        here, total = _sweep(Path(folder) / "sweep")
        fresh = _fresh(Path(folder) / "fresh")
    table = Table(title=f"{RUNS} cold runs, {' '.join(OVERRIDES)}: seconds per run")
    for title in ("", "wall", "compile", "timing", "overhead", "toolchain, once"):
        table.add_column(title, justify="right" if title else "left")
    table.add_row("stepsweep, first run", *_cells(here[:1]))
    table.add_row("stepsweep, later runs (median)", *_cells(here[1:]))
    table.add_row("fresh python per run (median)", *_cells(fresh))
    console = Console()
    console.print(table)
    rest = total - sum(run["wall"] for run in here)
    console.print(
        f"whole sweep {total:.1f} s, {total / RUNS:.2f} s per run; outside its runs "
        f"(start, composition, summary) {rest:.1f} s, {rest / RUNS:.2f} s per run. "
        f"Fresh processes {sum(run['wall'] for run in fresh):.1f} s, "
        f"{sum(run['wall'] for run in fresh) / RUNS:.2f} s per run."
    )


def _sweep(output_dir: Path) -> tuple[list[dict[str, float]], float]:
    start = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "src.run",
            "-m",
            f"seed=range({RUNS})",
            *OVERRIDES,
            f"output_dir={output_dir}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    total = time.perf_counter() - start
    columns = ["job", "wall_s", "compile_s", "timing_s", "toolchain_s"]
    table, _ = store.read(store.row_files(output_dir / "runs"), columns)
    rows = sorted(table.to_pylist(), key=lambda row: row["job"])
    return [
        {
            "wall": row["wall_s"],
            "compile": row["compile_s"],
            "timing": row["timing_s"],
            "toolchain": (row["toolchain_s"] or 0.0) if row["job"] == 0 else 0.0,
        }
        for row in rows
    ], total


def _fresh(folder: Path) -> list[dict[str, float]]:
    runs = []
    for seed in range(RUNS):
        cache = folder / str(seed)
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.fresh_process", *OVERRIDES, f"seed={seed}"],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        wall = time.perf_counter() - start
        facts = json.loads(done.stdout.splitlines()[-1])
        runs.append(
            {"wall": wall, "compile": facts["compile_s"], "timing": facts["timing_s"], "toolchain": 0.0}
        )
    return runs


def _cells(runs: list[dict[str, float]]) -> list[str]:
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    overhead = statistics.median(r["wall"] - r["compile"] - r["timing"] - r["toolchain"] for r in runs)
    toolchain = f"{middle['toolchain']:.2f}" if middle["toolchain"] else "-"
    return [
        f"{middle['wall']:.2f}",
        f"{middle['compile']:.2f}",
        f"{middle['timing']:.2f}",
        f"{overhead:.2f}",
        toolchain,
    ]


if __name__ == "__main__":
    main()
