"""What happens in a run's own process: prepare, build, trace, warm up, time.

Facts are reported as soon as they are known, so that a run that dies later keeps them.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from src.bench import arms, judge, machine, torch_private, trace, workload
from src.bench.arms import Arm
from src.bench.timing import Plan, WarmUpPlan, time_arms, warm_up
from src.bench.torch_private import Compilation
from src.spec import RunSpec

Report = Callable[[str, Any], None]
"""Takes a kind (`stage` or `facts`) and its value."""

Clock = Callable[[], float]


def measure(spec: RunSpec, report: Report) -> None:
    """Measure one run and report its columns.

    Raises:
        machine.Unsupported: the run cannot work here.
        Whatever torch raises while it builds, compiles or steps.
    """
    report("stage", "prepare")
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = machine.resolve_device(spec.device)
    about = machine.facts(spec, device)
    report("facts", {"device": device.type} | about)
    machine.check_can_run(spec, device)
    now = _clock(device)

    report("stage", "build")
    timed = {"eager": arms.eager(spec, device, now), "compiled": arms.compiled(spec, device, now)}
    parameters = timed["compiled"].workload.parameters
    report("facts", {"parameters": sum(p.numel() for p in parameters), "tensors": len(parameters)})

    report("stage", "trace")
    traced = _trace(spec, timed, now)
    compiled = _Compiled(spec, traced, report)
    compiled.report(traced.facts())

    report("stage", "warm-up")
    warm = warm_up(timed["compiled"].block, compiled.news, _warm_up_plan(spec), now)
    compiled.report({"recompiles_warm_up": len(trace.recompiles(compiled.later))})
    _warm_up_others(spec, device, timed, now)
    first_steps = min(arm.steps_taken for arm in timed.values())

    report("stage", "time")
    m = spec.measure
    plan = Plan(m.min_block_seconds, m.min_rounds, m.max_seconds, m.target_relative_width)
    foreign = machine.ForeignLoad()
    timing = time_arms({name: timed[name].block for name in m.arms}, plan, now, ("eager", "compiled"))
    foreign_cpus = foreign.busy_cpus()
    while_timing = compiled.news()
    compiled.report({"recompiles_timing": while_timing})
    conduct = judge.Conduct(
        device=device.type,
        mode=spec.compile.mode,
        compiles=compiled.compiles,
        graphs=traced.graphs,
        limit_hit=compiled.limit_hit,
        warm=warm,
        compilations_while_timing=while_timing,
        cudagraph_skips=traced.counts.cudagraph_skips,
        cache_asked_warm=spec.compile.cache == "warm",
        cache_misses=traced.counts.cache_misses,
        enough_steps=first_steps >= m.warm_up_steps,
        finite=all(workload.all_finite(arm.workload.parameters) for arm in timed.values()),
        foreign_load=foreign_cpus / about["host_cpu_count"],
    )
    judged = judge.judge(timing, conduct, min_effect=m.min_effect, min_speedup=spec.gate.min_speedup)
    report("facts", judge.times(timing) | judged)
    report("facts", {"timed_from_step": first_steps, "foreign_cpus": foreign_cpus})


class _Compiled:
    """What torch has compiled since the trace; with backend `none` there are no such columns."""

    def __init__(self, spec: RunSpec, traced: trace.Trace, report: Report) -> None:
        self.compiles = spec.compile.backend != "none"
        self.later: list[Compilation] = []
        self._traced = traced
        self._report = report

    def news(self) -> int:
        """Return how many compilations there were since the last call."""
        new = torch_private.drain()
        self.later.extend(new)
        return len(new)

    @property
    def limit_hit(self) -> bool:
        """Whether torch's recompile limit was hit, in the trace or later."""
        return any(c.hit_limit for c in [*self._traced.compilations(), *self.later])

    def report(self, columns: dict[str, Any]) -> None:
        """Report compile columns, with the limit as known so far."""
        if self.compiles:
            self._report("facts", columns | {"recompile_limit_hit": self.limit_hit})


def _clock(device: torch.device) -> Clock:
    """Return a clock in s that waits for the device, as `torch.utils.benchmark` does.

    Its own default is chosen when it is imported, and would synchronise CUDA in a CPU run.
    """
    if device.type == "cpu":
        return time.perf_counter

    def synchronised() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return synchronised


def _trace(spec: RunSpec, timed: dict[str, Arm], now: Clock) -> trace.Trace:
    """Trace the compiled arm and let the eager arm follow, so that both are equally far."""
    steps = spec.measure.trace_steps
    traced = trace.take(timed["compiled"].take_step, steps, now)
    for _ in range(steps):
        timed["eager"].take_step()
    return traced


def _warm_up_plan(spec: RunSpec) -> WarmUpPlan:
    m = spec.measure
    return WarmUpPlan(m.min_block_seconds, m.warm_up_steps, m.warm_up_seconds, m.max_compiling_blocks)


def _warm_up_others(spec: RunSpec, device: torch.device, timed: dict[str, Arm], now: Clock) -> None:
    """Add the arm of the published order where asked for, and warm up all but the compiled arm."""
    if "eager_after_compile" in spec.measure.arms:
        timed["eager_after_compile"] = arms.eager_after_compile(spec, device, now)
        torch_private.drain()  # compilations of that arm are not the compiled arm's
    for name, arm in timed.items():
        if name != "compiled":
            warm_up(arm.block, lambda: 0, _warm_up_plan(spec), now)
