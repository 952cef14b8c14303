"""Runs per hour: a sweep of 16 runs beside one fresh `python` process per run doing the same measuring.

With a cold compile cache for each run and with a warm one for all. Both sides measure with the same code,
one run at a time. Overhead is what a run takes of the sweep's wall time beside its own process, from its
first stage to its end: start and summary of the sweep, composition, cache, process, row. The one-time probe
of the toolchain is not part of it, but of the seconds of a run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from src import store

RUNS = 16
OVERRIDES = (
    "model=tiny",
    "optimizer=adam",
    "measure=quick",
    "measure.warm_up_steps=0",
    "measure.max_seconds=0.2",
)


def main() -> None:
    """Measure both sides with both caches and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("overrides", nargs="*", help="of every run, besides the usual")
    given = parser.parse_args()
    table = Table(title=f"{given.runs} runs, {' '.join((*OVERRIDES, *given.overrides))}: seconds per run")
    for title in ("cache", "fresh python", "stepsweep", "ratio", "overhead of a run"):
        table.add_column(title, justify="right" if title != "cache" else "left")
    for cache in ("cold", "warm"):
        with tempfile.TemporaryDirectory() as folder:
            overrides = (*OVERRIDES, *given.overrides, f"compile.cache={cache}")
            fresh = _fresh(Path(folder), overrides, cache, given.runs)
            ours, overhead = _sweep(Path(folder) / "sweep", overrides, cache, given.runs)
        table.add_row(cache, f"{fresh:.2f}", f"{ours:.2f}", f"{fresh / ours:.2f}", f"{overhead:.2f}")
    Console().print(table)


def _sweep(output_dir: Path, overrides: tuple[str, ...], cache: str, runs: int) -> tuple[float, float]:
    """Return the seconds per run of a sweep, start and summary included, and the overhead of a run."""
    if cache == "warm":
        _call(["src.run", *overrides, f"output_dir={output_dir}"])
    start = time.perf_counter()
    _call(
        ["src.run", "-m", f"seed=range({runs})", *overrides, f"output_dir={output_dir}", "sweep_id=counted"]
    )
    wall = time.perf_counter() - start
    files = store.row_files(store.sweep_dir(output_dir, "counted"))
    rows = store.read(files, ["status", "wall_s", "process_s", "toolchain_s", "job"])[0].to_pylist()
    if [row["status"] for row in rows] != ["ok"] * runs:
        raise SystemExit(f"not all runs were measured: {[row['status'] for row in rows]}")
    own = sum(row["process_s"] for row in rows)
    if cache == "cold":  # a warm one was probed before
        own += max(row["toolchain_s"] or 0.0 for row in rows)
    return wall / runs, (wall - own) / runs


def _fresh(folder: Path, overrides: tuple[str, ...], cache: str, runs: int) -> float:
    """Return the seconds per run of fresh processes."""
    if cache == "warm":
        _call(["benchmarks.fresh_process", *overrides, "seed=0"], folder / "warm")
    start = time.perf_counter()
    for seed in range(runs):
        place = folder / ("warm" if cache == "warm" else str(seed))
        _call(["benchmarks.fresh_process", *overrides, f"seed={seed}"], place)
    return (time.perf_counter() - start) / runs


def _call(arguments: list[str], cache: Path | None = None) -> None:
    more = {}
    if cache is not None:
        more = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | more)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
