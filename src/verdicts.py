"""From the block times of a run's processes to columns: times, speedups, warnings, verdict, gate.

One process gives the median over its rounds. Its blocks share its luck (where memory lay, how the
clocks stood), so the interval of its speedup is widened by what is known of that luck. Several
processes give one number each, and an interval over those. What all processes share (in which order the
arms lie in memory) no repetition shows; it widens every interval.

Pure: takes numbers, returns columns; needs no torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from src.spec import RunSpec
from src.stats import Interval, levels, log_t_interval, median_interval, spread, verdict, widened
from src.timings import ArmTimes, ProcessTimes, Timing
from src.vocabulary import INVALIDATING, SHARED_SPREAD, TIMED_ARMS, WARNINGS

NOISY_SPREAD = 0.10
"""Interquartile range over median above which `torch.utils.benchmark` warns too (its common.py)."""

DRIFT = 0.03
"""Change of an arm's median from the first third of the rounds to the last that is reported. A steady
change of 5 % over all rounds is one of 3.3 % between the thirds."""

SLOWED = 0.03
"""Part by which the eager step is slower after the first compilation than before it that is reported."""

SHORT = 0.5
"""Part of `measure.min_block_seconds` below which blocks are reported as short."""

COMPILED, BASELINE = "compiled", "eager"


def columns(processes: Sequence[ProcessTimes], spec: RunSpec, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that the times of the processes give.

    A gate asks for a speedup that is real: an invalid verdict fails it whatever the ratio.

    Args:
        processes: at least one, in the order in which they ran.
        spec: what was asked for.
        facts: columns that the processes told: the device, and the roofline floor where it is known.
    """
    first = processes[0]
    alone = len(processes) == 1
    cached = in_cache(facts.get("working_set_bytes"), facts.get("last_level_cache_bytes"), spec)
    shortest = 0.0 if spec.measure.flush_cache else SHORT * spec.measure.min_block_seconds
    warnings = _warnings(processes, cached=cached, compiles=spec.compiles, shortest=shortest)
    shared = shared_spread(spec, facts["device"])
    unseen = math.hypot(spec.measure.process_spread if alone else 0.0, shared)
    speedup = _speedup(processes, BASELINE, unseen)
    invalid = next((name for name in INVALIDATING if name in warnings), None)
    told = {
        "processes": len(processes),
        "process_spread": spec.measure.process_spread if alone else None,
        "shared_spread": shared,
        "process_rounds": [p.timing.rounds for p in processes],
        "rounds": sum(p.timing.rounds for p in processes),
        "timing_s": sum(p.timing.seconds for p in processes),
        "timed_from_step": min(p.timed_from_step for p in processes),
        "foreign_cpus": fmean(p.foreign_cpus for p in processes),
        "recompiles_timing": sum(p.compilations for p in processes) if spec.compiles else None,
        "min_effect": spec.measure.min_effect,
        "warnings": warnings,
        "verdict": "invalid" if invalid else verdict(speedup, spec.measure.min_effect),
        "verdict_reason": invalid,
        "gate": _gate(spec.gate.min_speedup, speedup, invalid),
        **_ends("speedup", speedup),
        "process_speedup": [p.timing.speedup(BASELINE, COMPILED).center for p in processes],
    }
    for name in first.timing.arms:
        told |= _arm(name, [p.timing.arms[name] for p in processes])
    if first.best is not None:
        best = _fastest(first.best, told)
        told |= _best(best, processes, unseen)
        if best != first.best:
            told |= _of_eager_arm(facts)
    if first.before_compile_us:
        before = _over([median_interval(p.before_compile_us) for p in processes])
        told |= _ends("eager_before_compile_us", before)
    told |= _throughput(spec, told)
    floor_us = facts.get("floor_us")
    if floor_us is not None:
        told |= {f"{n}_attained": floor_us / told[f"{n}_us"] for n in TIMED_ARMS if f"{n}_us" in told}
    return told | _sequential([p.sequential_us for p in processes if p.sequential_us is not None])


def _warnings(
    processes: Sequence[ProcessTimes], *, cached: bool, compiles: bool, shortest: float
) -> list[str]:
    """Return the doubts of all processes and those about their times, in the order of `WARNINGS`."""
    found = {name for process in processes for name in process.warnings}
    of_times = time_warnings(processes, compiles=compiles, shortest=shortest) | {"in_cache": cached}
    unknown = sorted((found | of_times.keys()) - WARNINGS.keys())
    if unknown:
        raise KeyError(f"warnings without an explanation in src/vocabulary.py: {', '.join(unknown)}")
    return [name for name in WARNINGS if name in found or of_times.get(name)]


def in_cache(data_bytes: int | None, cache_bytes: int | None, spec: RunSpec) -> bool:
    """Return whether a step finds its data in the last-level cache: it fits, and nothing empties it."""
    if data_bytes is None or cache_bytes is None:
        return False
    return data_bytes <= cache_bytes and not spec.measure.flush_cache


def _gate(min_speedup: float | None, speedup: Interval, invalid: str | None) -> str | None:
    if min_speedup is None:
        return None
    return "passed" if invalid is None and speedup.center >= min_speedup else "failed"


def _over(values: Sequence[Interval]) -> Interval:
    """Return the interval of a single process, or the geometric mean over processes with its own."""
    return values[0] if len(values) == 1 else log_t_interval([v.center for v in values])


def shared_spread(spec: RunSpec, device: str) -> float:
    """Return what is asked for, or what is known of the device."""
    asked = spec.measure.shared_spread
    return SHARED_SPREAD[device] if asked is None else asked


def _speedup(processes: Sequence[ProcessTimes], baseline: str, unseen: float) -> Interval:
    return widened(_over([p.timing.speedup(baseline, COMPILED) for p in processes]), unseen)


def _ends(name: str, value: Interval) -> dict[str, Any]:
    return {name: value.center, f"{name}_low": value.low, f"{name}_high": value.high}


def _arm(name: str, times: Sequence[ArmTimes]) -> dict[str, Any]:
    blocks = list(chain.from_iterable(t.block_us for t in times))
    medians = [t.median_us for t in times]
    return {
        **_ends(f"{name}_us", _over(medians)),
        f"{name}_mean_us": fmean(blocks),
        f"{name}_process_us": [m.center for m in medians],
        f"{name}_block_us": blocks,
        f"{name}_steps_per_block": times[0].steps_per_block,
    }


def _throughput(spec: RunSpec, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the samples per second of each arm whose time is known, with the interval of that time."""
    if spec.training is None:
        return {}
    ends = (("", ""), ("_low", "_high"), ("_high", "_low"))
    times = {f"{arm}_samples_per_s{end}": told.get(f"{arm}_us{of}") for arm in TIMED_ARMS for end, of in ends}
    return {name: spec.training.batch_size / us * 1e6 for name, us in times.items() if us}


def _best(arm: str, processes: Sequence[ProcessTimes], unseen: float) -> dict[str, Any]:
    """Return the columns of the fastest eager implementation, which may be the eager arm itself."""
    return {
        **_arm("eager_best", [p.timing.arms[arm] for p in processes]),
        **_ends("speedup_vs_best", _speedup(processes, arm, unseen)),
        "process_speedup_vs_best": [p.timing.speedup(arm, COMPILED).center for p in processes],
    }


def _fastest(best: str, told: Mapping[str, Any]) -> str:
    """Return which arm is the best eager one: what brief trials found, unless the eager arm beat it."""
    return BASELINE if told[f"{BASELINE}_us"] < told[f"{best}_us"] else best


def _of_eager_arm(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the eager arm as what is known of the best one."""
    own = {n: n.replace("eager_best_", "eager_", 1) for n in facts if n.startswith("eager_best_")}
    return {"eager_best": facts.get("eager_path"), **{name: facts.get(of) for name, of in own.items()}}


def _sequential(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return what the tutorial's method gives: of several processes the first, as it would be published."""
    if not pairs:
        return {}
    eager, compiled = pairs[0]
    return {
        "sequential_eager_us": eager,
        "sequential_compiled_us": compiled,
        "sequential_speedup": eager / compiled,
    }


def time_warnings(processes: Sequence[ProcessTimes], *, compiles: bool, shortest: float) -> dict[str, bool]:
    """Return the named doubts about the times, and whether each is present in any process."""

    def in_any_arm(doubtful: Callable[[Sequence[float]], bool]) -> bool:
        return any(doubtful(arm.block_us) for t in timings for arm in t.arms.values())

    timings: list[Timing] = [p.timing for p in processes]
    return {
        "too_few_rounds": any(not t.enough_rounds or _no_interval(t) for t in timings),
        "not_converged": not all(t.converged for t in timings),
        "short_blocks": any(_seconds(arm) < shortest for t in timings for arm in t.arms.values()),
        "noisy": in_any_arm(lambda blocks: spread(blocks) > NOISY_SPREAD),
        "drift": in_any_arm(drifts),
        "bimodal": in_any_arm(lambda blocks: levels(blocks) is not None),
        "all_equal": in_any_arm(lambda blocks: len(blocks) > 1 and len(set(blocks)) == 1),
        "slowed_by_compiling": compiles
        and any(slowed(p.before_compile_us, p.timing.arms) for p in processes),
    }


def _seconds(arm: ArmTimes) -> float:
    """Return how long the arm's blocks lasted, in s."""
    return arm.median_us.center * arm.steps_per_block / 1e6


def _no_interval(timing: Timing) -> bool:
    return timing.speedup(BASELINE, COMPILED).low is None


def drifts(block_us: Sequence[float]) -> bool:
    """Return whether the last third of the blocks differs from the first by more than `DRIFT`.

    And by more than the intervals of both medians, since few noisy blocks differ by chance. Fewer
    than 18 blocks have no such intervals and tell nothing.
    """
    third = len(block_us) // 3
    if third == 0:
        return False
    first, last = median_interval(block_us[:third]), median_interval(block_us[-third:])
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return False
    apart = first.high < last.low or last.high < first.low
    return apart and abs(last.center / first.center - 1) > DRIFT


def slowed(before_us: Sequence[float], arms: Mapping[str, ArmTimes]) -> bool:
    """Return whether the eager arm got slower by more than `SLOWED`, and by more than both intervals."""
    if not before_us:
        return False
    before, after = median_interval(before_us), arms[BASELINE].median_us
    if before.high is None or after.low is None:
        return False
    return after.center > (1 + SLOWED) * before.center and after.low > before.high
