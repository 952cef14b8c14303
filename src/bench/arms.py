"""Arms: ways of taking the same step, each with its own objects, all timed by the same code."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.benchmark import Timer

from src.bench import workload
from src.bench.workload import Workload
from src.spec import CompileSpec, RunSpec

TUTORIAL_WARM_UPS = 5
"""Calls of the compiled step before PyTorch's tutorial times the eager step of the same object."""


@dataclass
class Arm:
    """One way of taking the step."""

    workload: Workload
    step: Callable[[], None]
    """What is timed."""
    block: Callable[[int], float]
    """Takes that many steps and returns how many seconds they took."""
    steps_taken: int = 0
    """Steps since the optimizer was made."""

    def take_step(self) -> None:
        """Take one step, untimed."""
        self.step()
        self.steps_taken += 1


def eager(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm:
    """Return the optimizer as configured, never compiled."""
    built = workload.build(spec, device)
    return _arm(built, built.step, now)


def compiled(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm:
    """Return the arm whose step is compiled; with backend `none` it is a second eager arm."""
    built = workload.build(spec, device)
    return _arm(built, _compile(built.step, spec.compile), now)


def eager_after_compile(spec: RunSpec, device: torch.device, now: Callable[[], float]) -> Arm:
    """Return the arm that PyTorch's tutorial times as its eager step.

    Its optimizer is compiled and called, and then stepped without compiling. Compiling writes into
    it: on CUDA `capturable` becomes True for good, and eager steps take a slower path from then on
    (torch/_dynamo/variables/optimizer.py, `_set_capturable`).

    Its step has the same code as the compiled arm's, so that it shares torch's recompile counts
    and limit: make it only when the compiled arm has been traced and warmed up.
    """
    built = workload.build(spec, device)
    step = _compile(built.step, spec.compile)
    for _ in range(TUTORIAL_WARM_UPS):
        step()
    built.settle()
    arm = _arm(built, built.step, now)
    arm.steps_taken = TUTORIAL_WARM_UPS
    return arm


def _compile(step: Callable[[], None], how: CompileSpec) -> Callable[[], None]:
    if how.backend == "none":
        return step
    return torch.compile(
        step,
        backend=how.backend,
        mode=None if how.mode == "default" else how.mode,
        fullgraph=how.fullgraph,
        dynamic=how.dynamic,
    )


def _arm(built: Workload, step: Callable[[], None], now: Callable[[], float]) -> Arm:
    """Return an arm; whatever the step, it is timed by this code.

    The thread count is handed to Timer because its default of 1 thread changes a guard of the
    compiled step and recompiles it inside the timing. Timer turns off garbage collection, takes
    `max(2, steps // 100)` untimed steps first, and reads the clock at both ends of the block.
    """
    timer = Timer("step()", timer=now, globals={"step": step}, num_threads=torch.get_num_threads())

    def block(steps: int) -> float:
        seconds = float(timer.timeit(steps).raw_times[0])
        arm.steps_taken += steps + max(2, steps // 100)
        return seconds

    arm = Arm(built, step, block)
    return arm
