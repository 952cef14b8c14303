"""The roofline of a step: how fast memory alone would let it be, and what limits it.

step_bytes     what the update must move, by formula
bandwidth      what memory moves in a second, measured in this process
floor          step_bytes / bandwidth: no step can be faster, unless its data lies in a cache
attained       floor / time, the part of the time that the update's own traffic explains (src/verdicts.py)
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import torch

from src.bench import workload
from src.optimizers import OptimizerSpec
from src.spec import RunSpec

CPUS = Path("/sys/devices/system/cpu")
"""Where Linux tells the caches of each CPU (Documentation/ABI/testing/sysfs-devices-system-cpu)."""

CACHES = {"cuda": 8, "cpu": 4}
"""Least size of each of the two buffers of a bandwidth measurement, in last-level caches: what is left in
the cache from the pass before is then a small part of what is read."""

BUFFER = {"cuda": 2**31, "cpu": 2**26}
"""Size of such a buffer, in bytes, where the memory is there. An H200 copies 4178 GB/s between buffers of
512 MiB, 4221 of 1 GiB, 4280 of 2 GiB and 4257 of 4 GiB."""

SMALLEST_BUFFER = 2**26
"""Size of a buffer in bytes below which nothing is measured."""

MEMORY_SHARE = 4
"""Both buffers together must not take more than one part in this many of the free memory."""

PASSES = {"cuda": 10, "cpu": 1}
"""Passes over the buffers between two readings of the clock: waiting for a GPU takes some 10 us, a pass
over 2 GiB on an H200 1 ms."""

MIN_REPEATS = 3
MEASURE_SECONDS = 0.15
"""A measurement ends after this many seconds, and not before `MIN_REPEATS` repeats."""

BUSY = 0.8
"""Part of a step's time below which the GPU waits for the host too long to be the limit."""

MOST = 0.5
"""Part of a time from which on something explains it."""

WARM_UPS = 3
LAUNCH_STEPS = 20
"""Steps whose median is the time of launching."""

Clock = Callable[[], float]


def step_bytes(parameters: Iterable[torch.nn.Parameter], spec: OptimizerSpec) -> int | None:
    """Return the least bytes that one update must read and write, in a steady state.

    Of each element of a parameter with a gradient: the parameter, the gradient and every state are
    read once, the parameter and every state are written once, so 3 + 2 * states numbers of the
    parameter's dtype, whatever the other arguments. Step counters and other single numbers are left
    out, and so is what Adafactor keeps: of a matrix its rows and columns, of a vector all.

    Args:
        parameters: of any dtypes; the states have their parameter's, as torch.optim makes them.
        spec: how many states there are.

    Returns:
        None for an optimizer without a formula, see `OptimizerSpec.full_size_states`.
    """
    states = spec.full_size_states()
    if states is None:
        return None
    stepped = [p for p in parameters if p.grad is not None]
    return sum(p.numel() * p.element_size() * (3 + 2 * states) for p in stepped)


def last_level_cache_bytes(device: torch.device, cpus: Path = CPUS) -> int | None:
    """Return the size of the cache before the device's memory, None where it cannot be told.

    Of a GPU its L2. Of a CPU the caches of the highest level that its threads can use: where every
    few cores have one of their own, as many as there are CPUs for this process, or threads of torch.

    Args:
        device: the parameters' device.
        cpus: folder in which Linux tells the caches.
    """
    if device.type == "cuda":
        return getattr(torch.cuda.get_device_properties(device), "L2_cache_size", None)
    found: dict[tuple[int, str], int] = {}
    for folder in _cache_folders(cpus):
        try:
            level = int((folder / "level").read_text())
            shared_by = (folder / "shared_cpu_list").read_text().strip()
            found[level, shared_by] = _size(folder / "size")
        except (OSError, ValueError):
            continue
    highest = max((level for level, _ in found), default=None)
    sizes = sorted((size for (level, _), size in found.items() if level == highest), reverse=True)
    return sum(sizes[: torch.get_num_threads()]) or None


def _cache_folders(cpus: Path) -> list[Path]:
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    return [folder for cpu in sorted(usable) for folder in (cpus / f"cpu{cpu}" / "cache").glob("index*")]


def _size(file: Path) -> int:
    text = file.read_text().strip()
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:])
    return int(text) if unit is None else int(text[:-1]) * unit


def bandwidth_gbps(
    device: torch.device, free_bytes: int, cache_bytes: int | None, now: Clock
) -> float | None:
    """Return what the device's memory moves, read and written together, in 1e9 bytes/s.

    On a GPU a copy, which reads one buffer and writes the other. On a CPU `a += b`, which reads both
    and writes one: a store to memory that is not in the cache reads it first, so a copy there moves
    three bytes for two that it seems to (38 against 57 GB/s on an AMD EPYC, one thread), and an
    optimizer's stores go to what it has just read.

    The fastest repeat counts. Bandwidth is a capability, which other load only takes away from; a
    floor from less would be above times that can be reached.

    Args:
        device: the parameters' device. On a CPU torch's threads take part, as they do in the step.
        free_bytes: free memory of the device.
        cache_bytes: see `last_level_cache_bytes`.
        now: clock in s that waits for the device.

    Returns:
        None where buffers that are large enough would need more than a quarter of the free memory.
    """
    least = max(SMALLEST_BUFFER, CACHES[device.type] * (cache_bytes or 0))
    size = min(max(least, BUFFER[device.type]), free_bytes // (2 * MEMORY_SHARE))
    if size < least:
        return None
    elements = size // 4
    seconds = _seconds_of_a_pass(device, elements, now)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return (2 if device.type == "cuda" else 3) * elements * 4 / seconds / 1e9


def _seconds_of_a_pass(device: torch.device, elements: int, now: Clock) -> float:
    """Return how long it takes to move two buffers of float32; they are gone afterwards."""
    # Filled, since memory that nothing was written to need not be there.
    first, second = (torch.ones(elements, dtype=torch.float32, device=device) for _ in range(2))
    move = first.copy_ if device.type == "cuda" else first.add_
    return _fastest(lambda: move(second), PASSES[device.type], now)


def _fastest(move: Callable[[], object], passes: int, now: Clock) -> float:
    """Return the seconds of one pass in the fastest repeat."""
    move()  # the first finds caches, clocks and threads as others left them
    seconds: list[float] = []
    while len(seconds) < MIN_REPEATS or sum(seconds) < MEASURE_SECONDS:
        start = now()
        for _ in range(passes):
            move()
        seconds.append(now() - start)
    return min(seconds) / passes


def floor_us(moved_bytes: int | None, gbps: float | None) -> float | None:
    """Return the time in us that moving so many bytes takes at least, None where either is not known."""
    if moved_bytes is None or gbps is None:
        return None
    return moved_bytes / gbps / 1e3


def launch_us(spec: RunSpec, device: torch.device, now: Clock) -> float | None:
    """Return the time in us of an eager step that has nothing to do but call its operations.

    It is the very step over as many tensors, of one element in each dimension.

    Args:
        spec: of the arm.
        device: the parameters' device.
        now: clock in s that waits for the device.

    Returns:
        None where such a step is another one (LBFGS, which goes on until it converges), or fails.
    """
    if spec.optimizer.needs_closure:
        return None
    try:
        step = workload.build(spec, device, single=True).step
        for _ in range(WARM_UPS):
            step()
        return median(_seconds(step, now) for _ in range(LAUNCH_STEPS)) * 1e6
    except Exception:  # whatever a user's own optimizer raises over such tensors
        return None


def compiled_launch_us(
    us: float | None, eager_us: float | None, eager_launch_us: float | None
) -> float | None:
    """Return the time in us of a compiled step that is launching at least, None where it cannot be told.

    It has no more to calculate and to move than the eager step: what it takes beyond that is launching.
    """
    if us is None or eager_us is None or eager_launch_us is None:
        return None
    return max(0.0, us - max(0.0, eager_us - eager_launch_us))


def _seconds(step: Callable[[], None], now: Clock) -> float:
    start = now()
    step()
    return now() - start


def bound(
    device: str,
    us: float | None,
    *,
    device_us: float | None = None,
    launch_us: float | None = None,
    moved_us: float | None = None,
    in_cache: bool = False,
    multiplies_matrices: bool = False,
) -> str | None:
    """Return what limits a step, one of `vocabulary.BOUNDS`; None where nothing explains its time.

    `launch`: on a GPU, it is busy for less than `BUSY` of the step. On a CPU, calling the operations is
    at least `MOST` of it.
    `bandwidth`: moving what the step moves is at least `MOST` of the time (on a GPU, of the time in
    which it is busy), and the data does not fit into the last-level cache.
    `compute`: neither, and the optimizer multiplies matrices.

    Args:
        device: cuda or cpu.
        us: time of the step in us.
        device_us: time of it in which the GPU is busy, in us; None on a CPU.
        launch_us: time of it that is launching, in us: see the function of that name and, of a compiled
            step, `compiled_launch_us`; not used on a GPU.
        moved_us: time in us of moving, at full bandwidth, the bytes that the step moves: those counted in
            an eager step, the least of the update in a compiled one.
        in_cache: whether parameters, gradients and states fit into the last-level cache.
        multiplies_matrices: of the optimizer.
    """
    on_gpu = device == "cuda"
    told = device_us if on_gpu else launch_us
    if us is None or (on_gpu and told is None):
        return None
    if told is not None and (told < BUSY * us if on_gpu else told >= MOST * us):
        return "launch"
    working_us = device_us if on_gpu and device_us is not None else us
    if moved_us is not None and moved_us >= MOST * working_us and not in_cache:
        return "bandwidth"
    return "compute" if multiplies_matrices and told is not None else None
