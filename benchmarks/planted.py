"""A planted difference: does the verdict find 3 % more elements, and for how many seconds of timing?

    python -m benchmarks.planted [--runs 20] [--processes 5] [--seconds 10] [OVERRIDES ...]

Every run has two eager arms, one of which steps over `EXTRA` times as many tensors of the same size;
odd runs give them to the other arm. The processes, the rounds, the interval and the verdict are those
of a run of stepsweep. Prints one line a run as CSV, and the count of right verdicts.
"""

import argparse
import csv
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hydra import compose, initialize_config_dir

from src import paths, verdicts, vocabulary
from src.spec import RunSpec, from_config
from src.sweep import command_line, isolate
from src.sweep.limits import Watch
from src.timings import ProcessTimes

EXTRA = 1.03

_OVERRIDES = ("model=tutorial", "model.depth=100", "compile=none", "measure=precise", "optimizer.lr=0.01")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="most timing of a run, all processes")
    parser.add_argument("--device", choices=tuple(vocabulary.SHARED_SPREAD), default="cuda")
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    spec = _spec(
        *_OVERRIDES,
        f"measure.processes={asked.processes}",
        f"measure.max_seconds={asked.seconds}",
        f"device={asked.device}",
        *asked.overrides,
    )
    out = csv.writer(sys.stdout)
    out.writerow(["run", "planted", "verdict", "speedup", "low", "high", "timing_s", "rounds"])
    right = 0
    for run in range(asked.runs):
        planted = "faster" if run % 2 == 0 else "slower"
        row = verdicts.columns(_processes(replace(spec, seed=run), planted), spec, {"device": asked.device})
        right += row["verdict"] == planted
        numbers = (row[name] for name in ("speedup", "speedup_low", "speedup_high", "timing_s"))
        out.writerow([run, planted, row["verdict"], *(f"{n:.5g}" for n in numbers), row["rounds"]])
        sys.stdout.flush()
    out.writerow([f"{right} of {asked.runs} verdicts are right"])


def _spec(*overrides: str) -> RunSpec:
    command_line.register()
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        return from_config(compose("config", ["sweep_id=planted", *overrides]))


def _processes(spec: RunSpec, planted: str) -> list[ProcessTimes]:
    found: list[ProcessTimes] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(spec.measure.processes):
            ended = isolate.call(
                "benchmarks.planted_child:measure",
                (spec, planted, EXTRA),
                environment={},
                log=Path(folder) / "log",
                watch=Watch(spec.limits),
                on_message=lambda kind, value: found.append(value) if kind == "times" else None,
            )
            if ended.how != "returned":
                raise SystemExit(f"a process {ended.how}: {ended.reason}\n{ended.error or ''}")
    return found


if __name__ == "__main__":
    main()
