"""Arms: ways of taking the same step, each with its own objects, all timed by the same code."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.benchmark import Timer

from src.bench import flush, workload
from src.bench.training import Pieces
from src.bench.workload import Workload
from src.spec import CompileSpec, RunSpec

TUTORIAL_WARM_UPS = 5
"""Calls of the compiled step before PyTorch's tutorial times the eager step of the same object."""

Block = Callable[[int], float]
"""Takes that many steps and returns how many seconds they took."""


@dataclass
class Arm:
    """One way of taking the step."""

    workload: Workload
    step: Callable[[], Any]
    """What is timed."""
    block: Block
    warm_block: Block
    """The same without emptying any cache, for the warm-up."""
    pieces: Pieces | None = None
    """The same step in pieces, compiled ones where they are; None where it is no training step."""
    steps_taken: int = 0
    """Steps since the optimizer was made."""

    def take_step(self) -> Any:
        """Take one step, untimed; return its loss if it is a training step."""
        returned = self.step()
        self.steps_taken += 1
        return returned


def eager(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm:
    """Return the optimizer as configured, or in the implementation `measure.baseline`, never compiled."""
    built = workload.build(spec.for_eager(), device)
    return _arm(spec, built, built.step, now)


def compiled(
    spec: RunSpec, device: torch.device, now: Callable[[], float], built: Workload | None = None
) -> Arm:
    """Return the arm whose step is compiled; with backend `none` it is a second eager arm.

    Args:
        spec: what was asked for.
        device: where the arm is.
        now: clock in s.
        built: its objects, where they were made before.
    """
    built = built or workload.build(spec, device)
    step, pieces = _compiled(spec, built)
    return _arm(spec, built, step, now, pieces)


def _compiled(spec: RunSpec, built: Workload) -> tuple[Callable[[], Any], Pieces | None]:
    """Return the step with its target compiled, and its pieces, which share with it what is compiled."""
    cache: dict[int, Callable[..., Any]] = {}

    def once(what: Callable[..., Any]) -> Callable[..., Any]:
        if id(what) not in cache:
            cache[id(what)] = _compile(what, spec.compile)
        return cache[id(what)]

    target = spec.compile.target or spec.workload.target
    step = built.compiled_step(once, target)
    return step, None if built.training is None else built.training.pieces(once, target)


def eager_after_compile(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm:
    """Return the arm that PyTorch's tutorial times as its eager step.

    Its optimizer is compiled and called, and then stepped without compiling. Compiling writes into
    it: on CUDA `capturable` becomes True for good, and eager steps take a slower path from then on
    (torch/_dynamo/variables/optimizer.py, `_set_capturable`).

    Its step has the same code as the compiled arm's, so that it shares torch's recompile counts
    and limit: make it only when the compiled arm has been traced and warmed up.
    """
    built = workload.build(spec, device)
    step, _ = _compiled(spec, built)
    for _ in range(TUTORIAL_WARM_UPS):
        step()
    built.settle()
    arm = _arm(spec, built, built.step, now)
    arm.steps_taken = TUTORIAL_WARM_UPS
    return arm


def sequential_us(step: Callable[[], None], now: Callable[[], float]) -> float:
    """Return the time of a step in us as PyTorch's tutorial takes it: by itself, the mean of a while.

    `Timer.blocked_autorange().mean`; but with the thread count of the run, since the tutorial's
    default of one thread recompiles the step inside the timing.
    """
    return float(_timer(step, now).blocked_autorange().mean * 1e6)


def _compile(what: Callable[..., Any], how: CompileSpec) -> Callable[..., Any]:
    if how.backend == "none":
        return what
    return torch.compile(
        what,
        backend=how.backend,
        mode=None if how.mode == "default" else how.mode,
        fullgraph=how.fullgraph,
        dynamic=how.dynamic,
    )


def _arm(
    spec: RunSpec,
    built: Workload,
    step: Callable[[], Any],
    now: Callable[[], float],
    pieces: Pieces | None = None,
) -> Arm:
    """Return an arm; whatever the step, it is timed by this code."""
    if spec.measure.grads == "static":
        built.fix_gradients()
    plain = _one_after_the_other(step, now)
    timed = plain
    if spec.measure.flush_cache:
        timed = _each_by_itself(step, flush.of(built.parameters[0].device), now)

    def counted(block: Block) -> Block:
        def run(steps: int) -> float:
            if spec.measure.grads == "fresh" and built.training is None:
                built.renew_gradients()
            seconds = block(steps)
            arm.steps_taken += steps + _untimed(steps)
            return seconds

        return run

    if pieces is None and built.training is not None:
        pieces = built.training.pieces()
    arm = Arm(built, step, counted(timed), counted(plain), pieces)
    return arm


def _untimed(steps: int) -> int:
    """Return how many steps precede the timed ones of a block, as `Timer.timeit` has it."""
    return max(2, steps // 100)


def _timer(step: Callable[[], None], now: Callable[[], float]) -> Timer:
    """Return torch's timer of a step.

    The thread count is handed to it because its default of 1 thread changes a guard of the compiled
    step and recompiles it inside the timing.
    """
    return Timer("step()", timer=now, globals={"step": step}, num_threads=torch.get_num_threads())


def _one_after_the_other(step: Callable[[], None], now: Callable[[], float]) -> Block:
    """Return a block of steps between two looks at the clock.

    Timer turns off garbage collection, takes `_untimed` steps first, and reads the clock at both
    ends of the block.
    """
    timer = _timer(step, now)
    return lambda steps: float(timer.timeit(steps).raw_times[0])


def _each_by_itself(step: Callable[[], None], empty: Callable[[], None], now: Callable[[], float]) -> Block:
    """Return a block in which the caches are emptied before every step, outside of its time.

    The clock waits for the device at both ends of every step, so that a step has the whole of its
    launch latency: the steps of such a block do not overlap as those of a loop do.
    """

    def block(steps: int) -> float:
        collecting = gc.isenabled()
        gc.disable()
        try:
            for _ in range(_untimed(steps)):
                step()
            seconds = 0.0
            for _ in range(steps):
                empty()
                start = now()
                step()
                seconds += now() - start
            return seconds
        finally:
            if collecting:
                gc.enable()

    return block
