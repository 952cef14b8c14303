"""Run a good run and three bad ones in every order, in one process; each order is a sweep."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

from src.sweep import job
from tests.e2e.command import QUICK
from tests.e2e.faults.sitecustomize import HANGS, IS_KILLED, RAISES
from tests.specs import spec as spec_of

GOOD = 0.01


def main(output_dir: Path) -> None:
    for order in itertools.permutations((GOOD, HANGS, IS_KILLED, RAISES)):
        name = "-".join(str(lr) for lr in order)
        for number, lr in enumerate(order):
            limit = 1 if lr == HANGS else 200
            overrides = ("optimizer=sgd", f"optimizer.lr={lr}", "compile=none", f"limits.run_seconds={limit}")
            spec = replace(spec_of(*QUICK, *overrides), output_dir=str(output_dir), sweep_id=name)
            log = output_dir / "logs" / name / f"{number}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            job.run(job.Job(spec, number, overrides, log))


if __name__ == "__main__":
    main(Path(sys.argv[-1].partition("=")[2].strip("'")))
