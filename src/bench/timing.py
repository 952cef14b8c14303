"""Alternating timed blocks.

    steps per block of each arm: enough that a block lasts `min_block_seconds`
    round r = 0, 1, 2, ...:
        for each arm, forwards in even rounds, backwards in odd ones:
            time one block
        stop when the interval of the speedup is narrow enough, or the time is up

A round puts the arms side by side in time, so that what slows the machine for longer than a round
(clocks, heat, other load) slows both arms of the pair and cancels in their ratio. Turning the
order round cancels what one arm leaves behind for the next. Large blocks amortise the clock and
the synchronisation; small ones give more pairs.

This module is pure: a block is a function from a number of steps to seconds, and the clock is
handed in, so that tests run it without a device and without waiting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from src.stats import paired_speedup
from src.timings import ArmTimes, Timing

Block = Callable[[int], float]
"""Takes that many steps and returns how many seconds they took."""

MAX_STEPS_PER_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop."""

    min_block_seconds: float
    min_rounds: int
    max_seconds: float
    """Ends the timing; while there are fewer than `min_rounds`, three times as long."""
    target_relative_width: float
    """Width of the speedup's interval, as a part of the speedup, at which timing ends."""


def steps_for(block: Block, min_block_seconds: float) -> int:
    """Return how many steps make a block of `min_block_seconds`, found by trying.

    Grows at most tenfold a try, so that a slow first try does not lead to a huge block. A try that is
    long enough is made once more, and the shorter one counts: a moment in which the machine stood still
    would else fix short blocks for the whole timing.
    """
    steps = 1
    while steps < MAX_STEPS_PER_BLOCK:
        seconds = block(steps)
        if seconds >= min_block_seconds:
            seconds = min(seconds, block(steps))
        if seconds >= min_block_seconds:
            break
        wanted = 1.2 * steps * min_block_seconds / max(seconds, 1e-9)
        steps = min(max(steps + 1, round(wanted)), 10 * steps, MAX_STEPS_PER_BLOCK)
    return steps


def time_one(block: Block, min_block_seconds: float, blocks: int) -> ArmTimes:
    """Time `blocks` blocks of one arm by itself."""
    steps = steps_for(block, min_block_seconds)
    return ArmTimes(steps, tuple(block(steps) / steps * 1e6 for _ in range(blocks)))


def time_arms(
    arms: Mapping[str, Block], plan: Plan, now: Callable[[], float], pair: tuple[str, str]
) -> Timing:
    """Time all arms in alternating rounds.

    Args:
        arms: the block of each arm by its name, in the order of even rounds.
        plan: when to stop.
        now: clock in s.
        pair: baseline and other arm whose speedup decides when to stop.
    """
    start = now()
    steps = {name: steps_for(block, plan.min_block_seconds) for name, block in arms.items()}
    times: dict[str, list[float]] = {name: [] for name in arms}
    order = list(arms)
    rounds, converged = 0, False
    while True:
        for name in order:
            times[name].append(arms[name](steps[name]) / steps[name] * 1e6)
        order.reverse()
        rounds += 1
        converged = (
            rounds >= plan.min_rounds
            and paired_speedup(times[pair[0]], times[pair[1]]).relative_width <= plan.target_relative_width
        )
        if converged or now() - start >= _time_allowed(plan, rounds):
            break
    return Timing(
        {name: ArmTimes(steps[name], tuple(times[name])) for name in arms},
        rounds,
        now() - start,
        converged,
        rounds >= plan.min_rounds,
    )


def _time_allowed(plan: Plan, rounds: int) -> float:
    """Slow steps get up to three times `max_seconds` to reach `min_rounds`."""
    return plan.max_seconds if rounds >= plan.min_rounds else 3 * plan.max_seconds


@dataclass(frozen=True, slots=True)
class WarmUpPlan:
    """When an arm is warm."""

    min_block_seconds: float
    min_steps: int
    """Steps to take, unless `max_seconds` are over before."""
    max_seconds: float
    max_compiling_blocks: int
    """Blocks with a compilation after which the arm counts as never warm."""


def warm_up(
    block: Block, compilations: Callable[[], int], plan: WarmUpPlan, now: Callable[[], float]
) -> bool:
    """Run blocks until the arm is warm: enough steps, and a whole block without a compilation.

    Args:
        block: the arm's block.
        compilations: returns how many compilations there were since its last call.
        plan: when the arm is warm.
        now: clock in s.

    Returns:
        Whether the arm got warm; False when it compiled in `max_compiling_blocks` blocks.
    """
    start, taken, compiling, steps = now(), 0, 0, 1
    while compiling < plan.max_compiling_blocks:
        seconds = block(steps)
        taken += steps
        quiet = compilations() == 0
        compiling += not quiet
        long_enough = seconds >= plan.min_block_seconds or steps >= MAX_STEPS_PER_BLOCK
        enough = taken >= plan.min_steps or now() - start >= plan.max_seconds
        if quiet and long_enough and enough:
            return True
        if quiet and not long_enough:
            steps = min(2 * steps, MAX_STEPS_PER_BLOCK)
    return False
