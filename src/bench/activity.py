"""What a step keeps busy: the device, the host that enqueues it, and the CPU.

Measure this after the timing: a process that has profiled CUDA once may launch more slowly.
"""

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import DeviceType, ProfilerActivity, profile, supported_activities

Interval = tuple[float, float]
"""Start and end of something, in us."""

_MOST_PROFILES = 4
"""Profiles taken until two in a row agree."""

_WAITING = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")
"""Names of device events that only wait (libkineto/src/CuptiActivity.cpp); torch asks for them in an
experimental setting alone."""

_LAUNCHES = 300
"""Kernels enqueued without waiting: well below the some 1,000 launches that CUDA's queue holds."""

_MOST_STEPS = 10
"""Steps enqueued without waiting, however few kernels they have."""

_UNKNOWN = 1_000
"""Kernels that a step is taken to have while nobody counted them: it is then enqueued alone."""

_REPEATS = 15
"""Times that enqueuing is measured; the median is taken."""


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """What one step does on the device."""

    busy_us: float
    """Time during which the device runs something of the step, in us."""
    kernels: int
    """Kernels, copies and fills."""


def busy(events: Iterable[Interval], steps: int) -> DeviceActivity:
    """Return what one of `steps` steps did, from the intervals of all their device events.

    What overlaps, on several streams, is busy once: the time is the length of the union of the
    intervals. The number of events is the mean over the steps, rounded to a whole number, since
    nothing in a profile tells where on the device one step ends and the next begins.
    """
    ordered = sorted(events)
    length, covered_until = 0.0, float("-inf")
    for start, end in ordered:
        length += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return DeviceActivity(length / steps, round(len(ordered) / steps))


def device_events(events: Iterable[Any]) -> list[Interval]:
    """Return the intervals of a profile's kernels, copies and fills.

    Args:
        events: `FunctionEvent`s of a `torch.profiler` profile. Besides the device's work they hold what
            the host did, and ranges of the host (such as `Optimizer.step#Adam.step`) drawn once more
            around the kernels that they launched.
    """
    return [
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == DeviceType.CUDA
        and not event.is_user_annotation
        and not event.name.startswith(_WAITING)
    ]


def on_device(
    step: Callable[[], None],
    device: torch.device,
    steps: int = 10,
    record: Callable[[Callable[[], None], torch.device, int], list[Interval]] | None = None,
) -> DeviceActivity | None:
    """Return what a step does on a CUDA device; None on a CPU, and where CUDA cannot be profiled.

    The first profile of a process sets CUPTI up and may miss events, so it is thrown away. Then
    profiles of `steps` steps are taken until two in a row hold equally many events, four at most,
    and the one with the most events counts.

    Args:
        step: a step that is warm.
        device: where it runs.
        steps: steps of a profile.
        record: takes a profile of so many steps and returns `device_events`; a test's own.
    """
    if device.type != "cuda":
        return None
    record = record or _profile
    record(step, device, 1)
    profiles = [record(step, device, steps), record(step, device, steps)]
    while len(profiles[-1]) != len(profiles[-2]) and len(profiles) < _MOST_PROFILES:
        profiles.append(record(step, device, steps))
    fullest = max(profiles, key=len)
    return busy(fullest, steps) if fullest else None


def _profile(step: Callable[[], None], device: torch.device, steps: int) -> list[Interval]:
    if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
        return []
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled:
        for _ in range(steps):
            step()
        torch.cuda.synchronize(device)
    return device_events(profiled.events() or [])


def host_us(
    step: Callable[[], None],
    device: torch.device,
    kernels: int | None,
    now: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], None] | None = None,
) -> float | None:
    """Return how long the host takes to enqueue a step, without waiting for the device; None on a CPU.

    A few steps are enqueued between two readings of the clock, on a device that has nothing else to
    do: as many as have 300 kernels together, at least one and at most ten, so that the queue of
    launches never fills and makes the host wait. The median of 15 such readings is taken. A step
    that itself waits for the device, or has more kernels than the queue holds, waits here as well.

    Args:
        step: a step that is warm.
        device: where it runs.
        kernels: kernels of a step, None where they are not known.
        now: clock in s that does not wait for the device.
        synchronize: waits for the device; `torch.cuda.synchronize` unless a test has its own.

    Returns:
        us per step.
    """
    if device.type != "cuda":
        return None
    synchronize = synchronize or (lambda: torch.cuda.synchronize(device))
    steps = max(1, min(_MOST_STEPS, _LAUNCHES // max(1, _UNKNOWN if kernels is None else kernels)))
    seconds = []
    with _no_garbage_collection():
        for _ in range(_REPEATS):
            synchronize()
            seconds.append(_elapsed(step, steps, now))
        synchronize()
    return statistics.median(seconds) / steps * 1e6


def cpu_us(
    step: Callable[[], None],
    seconds: float,
    now: Callable[[], float] = time.perf_counter,
    cpu_now: Callable[[], float] = time.process_time,
) -> float:
    """Return the CPU time of a step, of all threads of the process.

    Steps are taken in blocks of 1, 2, 4 and so on; the first block that lasts `seconds` counts. Threads
    that wait for others at the end of a parallel loop spin before they sleep, which is CPU time too.

    Args:
        step: a step that is warm.
        seconds: the kernel adds up the time of threads on other CPUs at its timer ticks, every 1 to
            10 ms, so this should be 0.1 or more.
        now: clock in s.
        cpu_now: CPU time of the process so far, in s.

    Returns:
        us per step.
    """
    steps = 1
    with _no_garbage_collection():
        while True:
            start = now()
            used = _elapsed(step, steps, cpu_now)
            if now() - start >= seconds:
                return used / steps * 1e6
            steps *= 2


def _elapsed(step: Callable[[], None], steps: int, now: Callable[[], float]) -> float:
    start = now()
    for _ in range(steps):
        step()
    return now() - start


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile, as `Timer` does in the timed blocks."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
