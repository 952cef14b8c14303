"""The stages of a run in one process: what each does with the arms, and what it tells.

Facts are reported as soon as they are known, so that a run that dies later keeps them. `child` has the
order of the stages.
"""

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from src.bench import (
    arms,
    comparison,
    explanation,
    followed,
    gpu_state,
    heap,
    implementations,
    judge,
    machine,
    optimizer,
    torch_private,
    trace,
    watched,
)
from src.bench import workload as workloads
from src.bench.arms import Arm
from src.bench.followed import Followed
from src.bench.timing import Plan, WarmUpPlan, time_arms, time_one, warm_up
from src.bench.torch_private import Compilation
from src.bench.workload import Workload, all_finite
from src.spec import RunSpec
from src.timings import ProcessTimes

Report = Callable[[str, Any], None]
"""Takes a kind and its value: `stage`, `facts`, `times` of this process, or `warm`, the seconds of a
compile that found the cache of another process."""

Clock = Callable[[], float]

BEFORE_COMPILE_BLOCKS = 8
"""Blocks of the eager arm before anything is compiled: six have an interval."""

WARM_UP_STEPS = {"cpu": 1100, "cuda": 100}
"""Steps of every arm before it is timed: on a CPU beyond 0.9**step = 0 in float32, which slows a
compiled Adam step down (docs/method.md, The first thousand steps)."""

LONGEST_WAIT = 15.0
"""Seconds to wait before the timing for processes that torch has started."""

_CHOICES = ("foreach", "fused")
"""Flags of an optimizer; either one, even false, keeps torch from choosing the implementation
(torch/optim/adam.py, `adam`)."""


class Run:
    """The arms of a run in one process, what is known of them, and the stages in their order."""

    def __init__(self, spec: RunSpec, device: torch.device, report: Report, *, first: bool) -> None:
        """Begin a run, in the first of its processes or in one that repeats it."""
        self.spec = spec
        self.columns: dict[str, Any] = {}
        self.best: str | None = None
        """Name of the fastest eager implementation; None when it is not asked for."""
        self._device = device
        self._report = report
        self._first = first
        self._now = _clock(device)
        self._arms: dict[str, Arm] = {}
        self._made: Workload | None = None
        self._followed: dict[str, Followed] = {}
        self._traced: trace.Trace | None = None
        self._later: list[Compilation] = []
        self._before_us: tuple[float, ...] = ()
        self._us: dict[str, float] = {}
        self._warm = True
        self._draws_random = False
        self._comparison = comparison.Comparison()
        self._eager_compiled = False

    def tell(self, columns: dict[str, Any]) -> None:
        """Report columns, and remember them; a process that repeats a run only remembers."""
        self.columns |= columns
        if self._first:
            self._report("facts", columns)

    def make_for_compiled(self) -> None:
        """Make the objects of the compiled arm, to be compiled later.

        Which arm's tensors were made first shows in its times, by 0.1 % on an H200: processes that take
        turns in it see that as a difference between processes.
        """
        self._made = workloads.build(self.spec, self._device)

    def build_eager(self) -> None:
        """Build the eager arm, which is there before anything is compiled."""
        made = self._arms["eager"] = arms.eager(self.spec, self._device, self._now)
        if made.workload.training is not None:
            self.tell({"input_shape": list(made.workload.training.batch.inputs.shape)})

    def time_before_compiling(self) -> None:
        """Warm up the eager arm and time some blocks of it.

        torch's wrappers around its optimizers cost a few us more in every eager step once anything
        was compiled in the process (torch/_dynamo/eval_frame.py, `TorchPatcher`).
        """
        eager = self._arms["eager"]
        eager.workload.settle()
        warm_up(eager.warm_block, lambda: 0, self._warm_up_plan(eager), self._now)
        self._before_us = time_one(eager.block, self._min_block_seconds(), BEFORE_COMPILE_BLOCKS).block_us
        self._eager_compiled = any(c.has_graph for c in torch_private.drain())

    def try_implementations(self) -> None:
        """Find out which eager implementation is the fastest, if that is asked for."""
        spec = self.spec
        if "eager_best" not in spec.measure.arms:
            return
        running = watched.take(self._arms["eager"], spec).implementation
        trials = implementations.trial(spec, self._device, self._now)
        self.best = trials.fastest or running
        told = json.dumps({name: round(us, 3) for name, us in trials.us.items()}) if trials.us else None
        self.tell({"eager_path": running, "eager_best": self.best, "eager_trials": told})

    def trace_compiled(self) -> None:
        """Take the first steps of the compiled arm; what they compiled is told even if one raises."""
        arm = self._build_compiled()
        steps = self._follow("compiled", arm)
        recorder = trace.Recorder(inductor=self.spec.compile.backend == "inductor")
        try:
            recorder.take(
                arm.take_step,
                self.spec.measure.trace_steps,
                self._now,
                steps.before_step,
                steps.after_step,
            )
        finally:
            self._traced = recorder.trace()
            self._tell_compile(self._traced.facts())
            self.tell({"lr_trajectory": [rates[0] for rates in steps.rates]})
        self.tell(_state_of("compiled", arm.workload))
        if not self._first and self.spec.compiles:
            self._report("warm", self._traced.facts()["compile_s"])

    def compile_again(self) -> None:
        """Take the first step of the compiled arm, and report how long it took."""
        arm = self._build_compiled()
        start = self._now()
        arm.take_step()
        self._report("warm", self._now() - start)

    def _build_compiled(self) -> Arm:
        made = self._arms["compiled"] = arms.compiled(self.spec, self._device, self._now, self._made)
        self.tell(
            {
                "compiled_capturable_before": optimizer.capturable(made.workload.optimizer),
                "compiled_step_device_before": optimizer.step_device(made.workload.optimizer),
            }
        )
        return made

    def trace_eager(self) -> None:
        """Let an eager arm take the same steps, so that both are equally far.

        The one that is timed has taken others already, so that a timed run makes one more for this.
        """
        timed = self.spec.measure.timed
        arm = arms.eager(self.spec, self._device, self._now) if timed else self._arms["eager"]
        steps, compiled = self._follow("eager", arm), self._followed["compiled"]
        generators = followed.random_states(self._device)
        steps.take(arm.take_step, self.spec.measure.trace_steps)
        self._draws_random = generators != followed.random_states(self._device)
        self._eager_compiled |= any(c.has_graph for c in torch_private.drain())
        self.tell(_state_of("eager", arm.workload))
        self.tell({"lr_equal": steps.rates == compiled.rates})
        if self.spec.training is not None:
            self.tell({"eager_final_loss": steps.losses[-1], "compiled_final_loss": compiled.losses[-1]})

    def _follow(self, name: str, arm: Arm) -> Followed:
        fresh = self.spec.measure.grads == "fresh" and self.spec.training is None
        self._followed[name] = Followed(arm.workload, renews=fresh)
        return self._followed[name]

    def compare(self) -> None:
        """Compare the traced arms with each other and with a reference."""
        self._comparison = comparison.compare(
            self.spec,
            self._device,
            self._followed["eager"],
            self._followed["compiled"],
            draws_random=self._draws_random,
        )
        self.tell(self._comparison.columns)

    def settle(self) -> None:
        """Make steps repeatable from here on, and let go what only the trace needed."""
        self._followed.clear()
        gc.collect()  # an arm's block refers to the arm, so that it would linger
        heap.give_back()
        for arm in self._arms.values():
            arm.workload.settle()

    def warm_up(self) -> None:
        """Warm up every arm, the compiled one until it stops compiling."""
        spec, compiled = self.spec, self._arms["compiled"]
        self._warm = warm_up(compiled.warm_block, self._news, self._warm_up_plan(compiled), self._now)
        if "eager_after_compile" in spec.measure.arms:
            self._arms["eager_after_compile"] = arms.eager_after_compile(spec, self._device, self._now)
            torch_private.drain()  # compilations of that arm are not the compiled arm's
        if self.best is not None and not self._eager_is_best():
            chosen = implementations.variant(spec, self.best)
            self._arms["eager_best"] = arms.eager(chosen, self._device, self._now)
            self._arms["eager_best"].take_step()
            self._arms["eager_best"].workload.settle()
        if self.spec.compiles:
            machine.wait_for_own_processes(LONGEST_WAIT)
        # After the wait, which lets a GPU's clocks fall.
        for name, arm in self._arms.items():
            if name != "compiled":
                warm_up(arm.warm_block, lambda: 0, self._warm_up_plan(arm), self._now)

    def _min_block_seconds(self) -> float:
        """Return the shortest block in s; steps that are timed one by one need none to be exact."""
        return 0.0 if self.spec.measure.flush_cache else self.spec.measure.min_block_seconds

    def _warm_up_steps(self) -> int:
        asked = self.spec.measure.warm_up_steps
        return WARM_UP_STEPS[self._device.type] if asked is None else asked

    def _warm_up_plan(self, arm: Arm) -> WarmUpPlan:
        m = self.spec.measure
        steps = max(0, self._warm_up_steps() - arm.steps_taken)
        return WarmUpPlan(m.min_block_seconds, steps, m.warm_up_seconds, m.max_compiling_blocks)

    def _eager_is_best(self) -> bool:
        """Return whether the eager arm is the fastest implementation itself."""
        return implementations.is_plain(self.spec) and self.best == self.columns["eager_path"]

    def _best_arm(self) -> str | None:
        """Return which arm is the fastest eager implementation, once all arms are there."""
        if self.best is None:
            return None
        return "eager_best" if "eager_best" in self._arms else "eager"

    def watch(self) -> None:
        """Take a step of each arm under the profiler: which path do they take?

        A step that compiles shows the compiler's operations, so the next is watched; without a
        warm-up this also tells whether the compiled arm ever stops compiling.
        """
        eager = watched.take(self._arms["eager"], self.spec)
        self._eager_compiled |= eager.compiled
        self.tell({"eager_path": eager.implementation})
        if not self.spec.compiles:
            return
        for _ in range(self.spec.measure.max_compiling_blocks):
            compiled = watched.take(self._arms["compiled"], self.spec, compiled=True)
            if self._news() == 0:
                outside = compiled.outside_graphs(self._graphs(), self.spec.compile.backend)
                self.tell({"eager_ops": max(0, outside - eager.not_in_graphs)})
                break
        else:
            self._warm = False
        self._tell_compile({"recompiles_warm_up": len(trace.recompiles(self._later))})

    def time(self) -> None:
        """Time the arms, and report the times with the doubts about them."""
        m, timed = self.spec.measure, self._timed_arms()
        first_steps = min(arm.steps_taken for arm in timed.values())
        seconds = m.max_seconds / m.processes
        plan = Plan(self._min_block_seconds(), m.min_rounds, seconds, m.target_relative_width)
        before, foreign = gpu_state.take(self._device), machine.ForeignLoad()
        timing = time_arms(
            {name: arm.block for name, arm in timed.items()}, plan, self._now, ("eager", "compiled")
        )
        self._us = {name: times.median_us.center for name, times in timing.arms.items()}
        foreign_cpus, after = foreign.busy_cpus(), gpu_state.take(self._device)
        while_timing = self._news()
        self._tell_compile({})
        conduct = self.conduct(
            compilations_while_timing=while_timing,
            enough_steps=first_steps >= self._warm_up_steps(),
            foreign_load=foreign_cpus / machine.host_cpus(),
        )
        of_machine = gpu_state.warnings(before, after)
        self.tell(gpu_state.columns(before, after))
        self._report(
            "times",
            ProcessTimes(
                timing,
                best=self._best_arm(),
                before_compile_us=self._before_us,
                sequential_us=self._sequential() if m.sequential else None,
                warnings=(*judge.warnings_of(conduct), *(name for name, so in of_machine.items() if so)),
                timed_from_step=first_steps,
                foreign_cpus=foreign_cpus,
                compilations=while_timing,
            ),
        )

    def _timed_arms(self) -> dict[str, Arm]:
        """Return the arms in the order that `measure.arms` gives."""
        return {name: self._arms[name] for name in self.spec.measure.arms if name in self._arms}

    def _sequential(self) -> tuple[float, float]:
        eager, compiled = (arms.sequential_us(self._arms[n].step, self._now) for n in ("eager", "compiled"))
        return eager, compiled

    def explain(self) -> None:
        """Find out what the arms do to device, host and memory.

        After the timing: what a profiler loads may slow down launches for good.
        """
        timed = explanation.Timed(self._timed_arms(), self._us, self._best_arm(), self.best)
        self.tell(explanation.explain(self.spec, self._device, timed, self._now))

    def conduct(self, **of_timing: Any) -> judge.Conduct:
        """Return how the run went so far."""
        spec, columns, traced = self.spec, self.columns, self._traced
        assert traced is not None  # noqa: S101  # for the type checker
        return judge.Conduct(
            device=self._device.type,
            mode=spec.compile.mode,
            compiles=spec.compiles,
            graphs=len(traced.graphs),
            limit_hit=self._limit_hit(),
            warm=self._warm,
            eager_ops=columns.get("eager_ops"),
            eager_path=columns.get("eager_path"),
            cudagraph_skips=traced.counts.cudagraph_skips,
            cache_asked_warm=spec.compile.cache == "warm",
            cache_misses=traced.counts.cache_misses,
            parity=columns.get("parity"),
            parity_asked=self._first and spec.measure.parity,
            reference=self._comparison.reference,
            optimizer_class=spec.optimizer.torch_class,
            torch_chooses=spec.measure.baseline is None
            and not any(getattr(spec.optimizer, flag, None) is not None for flag in _CHOICES),
            lr_as_tensor=spec.lr_as_tensor,
            gradients_written=self._comparison.gradients_written,
            eager_compiled=self._eager_compiled,
            saves_power=machine.governor_saves_power(columns.get("cpu_governor")),
            finite=all(all_finite(arm.workload.parameters) for arm in self._arms.values()),
            **of_timing,
        )

    def _graphs(self) -> set[str]:
        """Return the ids of all compilations so far that gave a graph with operations."""
        traced = self._traced.graphs if self._traced is not None else []
        return {c.id for c in [*traced, *self._later] if c.has_graph}

    def _news(self) -> int:
        """Return how many compilations there were since the last call."""
        new = torch_private.drain()
        self._later.extend(new)
        return len(new)

    def _limit_hit(self) -> bool:
        """Return whether torch's recompile limit was hit, in the trace or later."""
        traced = self._traced.compilations() if self._traced is not None else []
        return any(c.hit_limit for c in [*traced, *self._later])

    def _tell_compile(self, columns: dict[str, Any]) -> None:
        """Tell compile columns, with the limit as known so far; with backend `none` there are none."""
        if self.spec.compiles:
            self.tell(columns | {"recompile_limit_hit": self._limit_hit()})


def _state_of(name: str, workload: Workload) -> dict[str, Any]:
    return {
        f"{name}_capturable": optimizer.capturable(workload.optimizer),
        f"{name}_step_device": optimizer.step_device(workload.optimizer),
    }


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
