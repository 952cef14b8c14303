"""Runs whose true speedup is known: how often do interval and verdict get it right?

A process has luck, one factor on its speedup that is drawn once, and every block has noise. The
processes are timed by the loop that times real ones, rounds until narrow enough, and judged by the
code that judges real ones. `python -m tests.simulated_runs` prints the tables of docs/method.md.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass, replace

from src import verdicts
from src.bench.timing import Plan, time_arms
from src.spec import RunSpec
from src.timings import ProcessTimes
from tests.bench.fake_machine import FakeMachine
from tests.specs import spec as spec_of

PAIR = ("eager", "compiled")


@dataclass(frozen=True)
class Rates:
    """What came of many runs of one kind."""

    runs: int
    covered: float
    """Part of the runs whose interval has the true speedup within it."""
    verdicts: Counter

    @property
    def told_apart(self) -> float:
        """Part of the runs with a verdict other than `no_difference`."""
        return 1 - self.verdicts["no_difference"] / self.runs


def process(asked: RunSpec, speedup: float, noise: float, seed: int) -> ProcessTimes:
    """Return what a process reports in which the eager step takes `speedup` times as long."""
    m, machine = asked.measure, FakeMachine(noise, seed)
    plan = Plan(m.min_block_seconds, m.min_rounds, m.max_seconds / m.processes, m.target_relative_width)
    blocks = {"eager": machine.arm("eager", 1e-3 * speedup), "compiled": machine.arm("compiled", 1e-3)}
    timing = time_arms(blocks, plan, machine.now, PAIR)
    return ProcessTimes(timing, None, (), None, (), 1100, 0.0, 0)


@dataclass(frozen=True)
class Kind:
    """What is simulated."""

    asked: RunSpec
    """How many processes, how long, and how it is judged."""
    luck: float
    """Standard deviation of the logarithm of a process's factor."""
    noise: float
    """Standard deviation of a block, as a part of its time."""
    speedup: float = 1.0
    """The true one."""
    on_high: float | None = None
    """Part of the processes on the higher of two states; None: luck is normal."""

    def draw_luck(self, draw: random.Random) -> float:
        """Return the logarithm of a process's factor, of mean 0."""
        if self.on_high is None:
            return self.luck * draw.gauss(0, 1)
        on_high = draw.random() < self.on_high
        return self.luck * (on_high - self.on_high) / math.sqrt(self.on_high * (1 - self.on_high))


def spec(*overrides: str) -> RunSpec:
    """Return a spec that takes nothing to be shared by all processes."""
    return spec_of("measure.shared_spread=0", *overrides)


def columns(kind: Kind, seed: int) -> dict:
    """Return the columns of one run."""
    measure = kind.asked.measure
    # A string as seed, so that runs of different kinds have nothing in common.
    draw = random.Random(f"{measure.processes} {kind.luck} {kind.noise} {kind.speedup} {seed}")  # noqa: S311
    factors = [kind.speedup * math.exp(kind.draw_luck(draw)) for _ in range(measure.processes)]
    processes = [process(kind.asked, factor, kind.noise, draw.getrandbits(32)) for factor in factors]
    return verdicts.columns(processes, kind.asked, {"device": "cpu"})


def rates(kind: Kind, runs: int, first_seed: int = 0) -> Rates:
    """Return what comes of that many runs, of as many seeds from the first."""
    found = [columns(kind, seed) for seed in range(first_seed, first_seed + runs)]
    covered = sum(c["speedup_low"] <= kind.speedup <= c["speedup_high"] for c in found)
    return Rates(runs, covered / runs, Counter(c["verdict"] for c in found))


def _table(title: str, kinds: dict[str, Kind], runs: int) -> None:
    lines = [
        f"\n{title}, {runs} runs a line\n",
        "| | interval covers | equal arms told apart | 3 % found | 5 % found |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, kind in kinds.items():
        equal = rates(kind, runs)
        found = [rates(replace(kind, speedup=s), runs // 4) for s in (1.03, 1.05)]
        parts = (equal.covered, equal.told_apart, *(r.verdicts["faster"] / r.runs for r in found))
        lines.append(f"| {name} | {' | '.join(f'{100 * part:.1f} %' for part in parts)} |")
    print("\n".join(lines), flush=True)  # noqa: T201  # what this program is for


def main() -> None:
    """Print the tables."""
    single = {
        f"luck {100 * luck:.2g} %, noise {100 * noise:.0f} %": Kind(spec(), luck, noise)
        for noise in (0.01, 0.03)
        for luck in (0.0015, 0.003, 0.01, 0.017)
    }
    _table("One process", single, 4000)
    asked = {n: spec(f"measure.processes={n}", "measure.max_seconds=60") for n in (3, 5, 10)}
    several = {
        f"{n} processes, luck {100 * luck:.2g} %": Kind(asked[n], luck, 0.01)
        for n in asked
        for luck in (0.0015, 0.003, 0.01, 0.017, 0.03)
    }
    _table("Several processes, noise 1 %", several, 2000)
    states = {
        f"{n} processes, {100 * part:.0f} % on the higher state": Kind(asked[n], 0.03, 0.01, on_high=part)
        for part in (0.5, 0.2)
        for n in asked
    }
    _table("Luck of 3 % in two states", states, 2000)
    bare = spec("measure.process_spread=0", "measure.min_effect=0")
    looked = {f"noise {100 * noise:.2g} %": Kind(bare, 0.0, noise) for noise in (0.003, 0.01, 0.02, 0.03)}
    _table("One process, the median's interval alone, without luck", looked, 4000)


if __name__ == "__main__":
    main()
