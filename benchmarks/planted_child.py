"""One process of `benchmarks.planted`: two eager arms, one with more tensors, timed in rounds."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from src.bench import arms, machine
from src.bench.timing import Plan, WarmUpPlan, time_arms, warm_up
from src.spec import RunSpec
from src.timings import ProcessTimes


def measure(told: tuple[RunSpec, str, float], report: Callable[[str, Any], None]) -> None:
    """Time the two arms and report their times."""
    spec, planted, extra = told
    device = machine.resolve_device(spec.device)
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    larger = replace(spec, model=replace(spec.model, depth=round(spec.model.depth * extra)))
    eager, compiled = (larger, spec) if planted == "faster" else (spec, larger)
    both = {"eager": arms.eager(eager, device, now), "compiled": arms.eager(compiled, device, now)}
    m = spec.measure
    for arm in both.values():
        warm_up(arm.warm_block, lambda: 0, WarmUpPlan(m.min_block_seconds, 20, m.warm_up_seconds, 1), now)
    plan = Plan(m.min_block_seconds, m.min_rounds, m.max_seconds / m.processes, m.target_relative_width)
    timing = time_arms({name: arm.block for name, arm in both.items()}, plan, now, ("eager", "compiled"))
    report("times", ProcessTimes(timing, None, (), None, (), 0, 0.0, 0))
