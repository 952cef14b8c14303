"""What happens in a run's own process: prepare, build, trace, parity, warm up, time.

Facts are reported as soon as they are known, so that a run that dies later keeps them.
"""

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from src.bench import arms, hints, judge, machine, optimizer, parameters, parity, path, torch_private, trace
from src.bench import workload as workloads
from src.bench.arms import Arm
from src.bench.timing import Plan, Timing, WarmUpPlan, time_arms, warm_up
from src.bench.torch_private import Compilation
from src.bench.workload import Workload
from src.spec import RunSpec

Report = Callable[[str, Any], None]
"""Takes a kind (`stage` or `facts`) and its value."""

Clock = Callable[[], float]

_REFERENCE_BYTES = 8 * 8
"""Memory of the reference per parameter element, with states and temporaries, in bytes."""

_CHOICES = ("foreach", "fused")
"""Flags of an optimizer; either one, even false, keeps torch from choosing the implementation
(torch/optim/adam.py, `adam`)."""


def measure(spec: RunSpec, report: Report) -> None:
    """Measure one run and report its columns.

    Raises:
        refusal.Unsupported, refusal.Excluded: the run cannot work here.
        SpecError: a dotted path of the configuration names nothing that can be used.
        Whatever torch raises while it builds, compiles or steps.
    """
    report("stage", "prepare")
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = machine.resolve_device(spec.device)
    run = _Run(spec, device, report)
    run.tell({"device": device.type} | machine.facts(spec, device))
    run.tell({"exclusion": machine.known_exclusion(spec, device)})
    machine.check_can_run(spec, device)
    if spec.compile.logs:
        torch_private.start_log(spec.compile.logs)

    report("stage", "build")
    run.build()
    report("stage", "trace of the compiled arm")
    run.trace_compiled()
    report("stage", "trace of the eager arm")
    run.trace_eager()
    if spec.measure.parity:
        report("stage", "parity")
        run.compare()
    run.settle()
    if spec.measure.timed:
        report("stage", "warm-up")
        run.warm_up()
    report("stage", "watch")
    run.watch()
    if spec.measure.timed:
        report("stage", "time")
        run.time()
    else:
        run.tell(judge.judge(run.conduct()))
    run.tell({"hint": hints.hint(spec, run.columns)})


class _Run:
    """The arms of a run, what is known of them, and the stages in their order."""

    def __init__(self, spec: RunSpec, device: torch.device, report: Report) -> None:
        self.spec = spec
        self.columns: dict[str, Any] = {}
        self._device = device
        self._report = report
        self._now = _clock(device)
        self._compiles = spec.compile.backend != "none"
        self._arms: dict[str, Arm] = {}
        self._traced: trace.Trace | None = None
        self._later: list[Compilation] = []
        self._rates: dict[str, list[tuple[float, ...]]] = {"eager": [], "compiled": []}
        self._warm = True
        self._gradients_written = False
        self._draws_random = False
        self._reference_taken = False
        self._eager_compiled = False

    def tell(self, columns: dict[str, Any]) -> None:
        """Report columns, and remember them."""
        self.columns |= columns
        self._report("facts", columns)

    def build(self) -> None:
        """Build the arms that are there from the start."""
        spec, device, now = self.spec, self._device, self._now
        self._arms = {"eager": arms.eager(spec, device, now), "compiled": arms.compiled(spec, device, now)}
        made = self._arms["compiled"].workload
        self.tell(
            {
                "parameters": sum(p.numel() for p in made.parameters),
                "tensors": len(made.parameters),
                "compiled_capturable_before": optimizer.capturable(made.optimizer),
                "compiled_step_device_before": optimizer.step_device(made.optimizer),
            }
        )

    def trace_compiled(self) -> None:
        """Take the first steps of the compiled arm; what they compiled is told even if one raises."""
        arm = self._arms["compiled"]
        recorder = trace.Recorder(inductor=self.spec.compile.backend == "inductor")
        try:
            recorder.take(arm.take_step, self.spec.measure.trace_steps, self._now, self._before("compiled"))
        finally:
            self._traced = recorder.trace()
            self._tell_compile(self._traced.facts())
            self.tell({"lr_trajectory": [rates[0] for rates in self._rates["compiled"]]})
        self.tell(_state_of("compiled", arm.workload))

    def trace_eager(self) -> None:
        """Let the eager arm follow, so that both are equally far."""
        arm, before_step = self._arms["eager"], self._before("eager")
        generators = _random_states(self._device)
        for _ in range(self.spec.measure.trace_steps):
            before_step()
            arm.take_step()
        self._draws_random = generators != _random_states(self._device)
        self._eager_compiled = any(c.has_graph for c in torch_private.drain())
        self.tell(_state_of("eager", arm.workload))
        self.tell({"lr_equal": self._rates["eager"] == self._rates["compiled"]})

    def _before(self, name: str) -> Callable[[], None]:
        """Return what precedes each step of an arm's trace, outside its time."""
        workload, rates = self._arms[name].workload, self._rates[name]

        def before_step() -> None:
            workload.refill()
            rates.append(workload.learning_rates())

        return before_step

    def compare(self) -> None:
        """Compare the arms with each other and with a reference."""
        spec, eager = self.spec, self._arms["eager"].workload
        needed, free = 2 * parameters.size_bytes(spec.model), machine.free_bytes(self._device)
        if self._draws_random:
            # Inductor draws from a generator of its own, so that no two arms draw alike.
            self.tell({"parity_reason": "not compared: the step draws random numbers"})
            return
        if needed > free:
            self.tell({"parity_reason": f"not compared: needs {needed} bytes, {free} are free"})
            return
        start = parameters.make(spec, self._device)
        self._gradients_written = eager.gradients is None and parity.changed_gradients(start, eager)
        reference = self._reference()
        self._reference_taken = reference is not None
        self.tell(
            parity.compare(
                start,
                eager,
                self._arms["compiled"].workload,
                reference,
                (self._rates["eager"], self._rates["compiled"]),
            )
        )

    def _reference(self) -> Workload | None:
        """Return eager steps in float64, None where they do not fit or cannot be taken.

        Some optimizers refuse float64, in a manner of their own; their arms are compared all the same.
        """
        needed = self.columns["parameters"] * _REFERENCE_BYTES
        if needed > machine.free_bytes(self._device):
            return None
        try:
            reference = workloads.build(self.spec, self._device, reference=True)
            for _ in range(self.spec.measure.trace_steps):
                reference.refill()
                reference.step()
        except Exception:  # whatever a user's own optimizer raises
            return None
        return reference

    def settle(self) -> None:
        """Make steps repeatable from here on."""
        for arm in self._arms.values():
            arm.workload.settle()

    def warm_up(self) -> None:
        """Warm up every arm, the compiled one until it stops compiling."""
        spec, m = self.spec, self.spec.measure
        plan = WarmUpPlan(m.min_block_seconds, m.warm_up_steps, m.warm_up_seconds, m.max_compiling_blocks)
        self._warm = warm_up(self._arms["compiled"].block, self._news, plan, self._now)
        if "eager_after_compile" in m.arms:
            self._arms["eager_after_compile"] = arms.eager_after_compile(spec, self._device, self._now)
            torch_private.drain()  # compilations of that arm are not the compiled arm's
        for name, arm in self._arms.items():
            if name != "compiled":
                warm_up(arm.block, lambda: 0, plan, self._now)

    def watch(self) -> None:
        """Take a step of each arm under the profiler: which path do they take?

        A step that compiles shows the compiler's operations, so the next is watched; without a
        warm-up this also tells whether the compiled arm ever stops compiling.
        """
        eager = path.take(self._arms["eager"].take_step)
        self._eager_compiled |= bool(eager.frames)
        self.tell({"eager_path": eager.implementation()})
        if not self._compiles:
            return
        for _ in range(self.spec.measure.max_compiling_blocks):
            compiled = path.take(self._arms["compiled"].take_step)
            if self._news() == 0:
                outside = compiled.outside_graphs(self._graphs(), self.spec.compile.backend)
                self.tell({"eager_ops": max(0, outside - eager.outside_optimizer())})
                break
        else:
            self._warm = False
        self._tell_compile({"recompiles_warm_up": len(trace.recompiles(self._later))})

    def time(self) -> None:
        """Time the arms and judge."""
        m, about = self.spec.measure, self.columns
        first_steps = min(arm.steps_taken for arm in self._arms.values())
        plan = Plan(m.min_block_seconds, m.min_rounds, m.max_seconds, m.target_relative_width)
        foreign = machine.ForeignLoad()
        timing: Timing = time_arms(
            {name: self._arms[name].block for name in m.arms}, plan, self._now, ("eager", "compiled")
        )
        foreign_cpus = foreign.busy_cpus()
        while_timing = self._news()
        self._tell_compile({"recompiles_timing": while_timing})
        conduct = self.conduct(
            compilations_while_timing=while_timing,
            enough_steps=first_steps >= m.warm_up_steps,
            foreign_load=foreign_cpus / about["host_cpu_count"],
        )
        judged = judge.judge_timing(
            timing, conduct, min_effect=m.min_effect, min_speedup=self.spec.gate.min_speedup
        )
        self.tell(judge.times(timing) | judged)
        self.tell({"timed_from_step": first_steps, "foreign_cpus": foreign_cpus})

    def conduct(self, *, compilations_while_timing: int = 0, **of_timing: Any) -> judge.Conduct:
        """Return how the run went so far."""
        spec, columns, traced = self.spec, self.columns, self._traced
        assert traced is not None  # noqa: S101  # for the type checker
        return judge.Conduct(
            device=self._device.type,
            mode=spec.compile.mode,
            compiles=self._compiles,
            graphs=len(traced.graphs),
            limit_hit=self._limit_hit(),
            warm=self._warm,
            eager_ops=columns.get("eager_ops"),
            eager_path=columns.get("eager_path"),
            compilations_while_timing=compilations_while_timing,
            cudagraph_skips=traced.counts.cudagraph_skips,
            cache_asked_warm=spec.compile.cache == "warm",
            cache_misses=traced.counts.cache_misses,
            parity=columns.get("parity"),
            parity_asked=spec.measure.parity,
            reference=self._reference_taken,
            optimizer_class=spec.optimizer.torch_class,
            torch_chooses=not any(getattr(spec.optimizer, flag, None) is not None for flag in _CHOICES),
            lr_as_tensor=spec.lr_as_tensor,
            gradients_written=self._gradients_written,
            eager_compiled=self._eager_compiled,
            finite=all(workloads.all_finite(arm.workload.parameters) for arm in self._arms.values()),
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
        if self._compiles:
            self.tell(columns | {"recompile_limit_hit": self._limit_hit()})


def _state_of(name: str, workload: Workload) -> dict[str, Any]:
    return {
        f"{name}_capturable": optimizer.capturable(workload.optimizer),
        f"{name}_step_device": optimizer.step_device(workload.optimizer),
    }


def _random_states(device: torch.device) -> list[Any]:
    """Return the states of the generators that a step on `device` may draw from, to be compared."""
    found = [random.getstate(), torch.get_rng_state().tolist()]
    if device.type == "cuda":
        found.append(torch.cuda.get_rng_state(device).tolist())
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        found.append([name, keys.tolist(), *rest])
    return found


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
