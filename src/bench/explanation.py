"""Why an arm takes as long as it does: device, host, memory, and what the update must move."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from src.bench import activity, implementations, machine, memory, roofline, traffic, utilisation
from src.bench.arms import Arm
from src.spec import RunSpec
from src.verdicts import in_cache
from src.vocabulary import CUDAGRAPH_MODES

_CPU_SECONDS = 0.1
"""Time for which steps are taken to get their CPU time, which has a coarse clock."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The arms of a run whose times are known, all of them warm."""

    arms: Mapping[str, Arm]
    us: Mapping[str, float]
    """Time of a step of each in us."""
    best: str | None
    """Which of them is the fastest eager implementation, None when that was not asked for."""
    implementation: str | None
    """Which implementation that is: one of `vocabulary.EAGER_PATHS`."""


def explain(spec: RunSpec, device: torch.device, timed: Timed, now: Callable[[], float]) -> dict[str, Any]:
    """Return the columns that explain the times.

    Args:
        spec: what was asked for.
        device: where the arms are.
        timed: the arms and their times.
        now: clock in s that waits for the device.
    """
    if spec.training is not None:
        return _of_training(spec, device, timed)
    eager = timed.arms["eager"].workload
    cache_bytes = roofline.last_level_cache_bytes(device)
    bandwidth = roofline.bandwidth_gbps(device, machine.free_bytes(device), cache_bytes, now)
    step_bytes = roofline.step_bytes(eager.parameters, spec.optimizer)
    working_set = memory.own_bytes(eager)
    columns: dict[str, Any] = {
        "last_level_cache_bytes": cache_bytes,
        "bandwidth_gbps": bandwidth,
        "step_bytes": step_bytes,
        "floor_us": roofline.floor_us(step_bytes, bandwidth),
        "working_set_bytes": working_set,
        "state_bytes": memory.state_bytes(eager.optimizer),
    }
    moved = _moved(spec, timed, step_bytes)
    launching = _launching(spec, device, timed, now) if device.type == "cpu" else {}
    # Before any profile of CUDA, which may slow down launches for good.
    host = {name: activity.host_us(arm.step, device, None) for name, arm in timed.arms.items()}
    for name, arm in timed.arms.items():
        found = _of(arm, device, graphs=_replays(spec, name, device)) | {"host_us": host[name]}
        found["bound"] = roofline.bound(
            device.type,
            timed.us[name],
            device_us=found["device_us"],
            launch_us=launching.get(name),
            moved_us=roofline.floor_us(moved[name], bandwidth),
            in_cache=in_cache(working_set, cache_bytes, spec),
            multiplies_matrices=spec.optimizer.multiplies_matrices,
        )
        columns |= _named(name, found, timed.best)
    return columns | {"eager_bytes": moved["eager"]}


def _of_training(spec: RunSpec, device: torch.device, timed: Timed) -> dict[str, Any]:
    """Return the columns of training steps, whose least memory traffic has no formula.

    Without it a step that keeps the GPU busy may be limited by its memory or by its arithmetic.
    """
    columns: dict[str, Any] = {
        "last_level_cache_bytes": roofline.last_level_cache_bytes(device),
        "state_bytes": memory.state_bytes(timed.arms["eager"].workload.optimizer),
    }
    utilised = {name: utilisation.of(arm.take_step, device) for name, arm in timed.arms.items()}
    host = {name: activity.host_us(arm.step, device, None) for name, arm in timed.arms.items()}
    for name, arm in timed.arms.items():
        found = _of(arm, device, graphs=_replays(spec, name, device)) | {"host_us": host[name]}
        found |= {"gpu_utilisation": utilised[name]}
        found["bound"] = roofline.bound(device.type, timed.us[name], device_us=found["device_us"])
        columns |= _named(name, found, timed.best)
    return columns


def _replays(spec: RunSpec, name: str, device: torch.device) -> bool:
    """Return whether an arm replays CUDA graphs."""
    return name == "compiled" and device.type == "cuda" and spec.compile.mode in CUDAGRAPH_MODES


def _named(name: str, found: dict[str, Any], best: str | None) -> dict[str, Any]:
    """Return what is known of an arm by the names of its columns, and of the best one where it is that."""
    columns = {f"{name}_{what}": value for what, value in found.items()}
    if name == best:
        columns |= {f"eager_best_{what}": value for what, value in found.items()}
    return columns


def _of(arm: Arm, device: torch.device, *, graphs: bool) -> dict[str, Any]:
    """Return what a step of one arm does, by the ends of the columns' names."""
    on_device = activity.on_device(arm.take_step, device)
    return {
        "device_us": None if on_device is None else on_device.busy_us,
        "kernels": None if on_device is None else on_device.kernels,
        "cpu_us": activity.cpu_us(arm.step, _CPU_SECONDS),
        "peak_bytes": memory.peak_bytes(arm.workload, arm.take_step, device, graphs=graphs),
        "reserved_bytes": memory.reserved_bytes(arm.workload, arm.take_step, device, graphs=graphs),
    }


def _moved(spec: RunSpec, timed: Timed, step_bytes: int | None) -> dict[str, int | None]:
    """Return the bytes that a step of each arm moves: counted, or of compiled code the least."""
    return {
        name: step_bytes if spec.compiles and name == "compiled" else traffic.counted_bytes(arm.take_step)
        for name, arm in timed.arms.items()
    }


def _launching(
    spec: RunSpec, device: torch.device, timed: Timed, now: Callable[[], float]
) -> dict[str, float | None]:
    """Return how much of a step of each arm is calling its operations, in us, on a CPU."""
    eager = roofline.launch_us(spec.for_eager(), device, now)
    found: dict[str, float | None] = dict.fromkeys(timed.arms, eager)
    if timed.best == "eager_best" and timed.implementation is not None:
        best = implementations.variant(spec, timed.implementation)
        found["eager_best"] = roofline.launch_us(best, device, now)
    if spec.compiles:
        found["compiled"] = roofline.compiled_launch_us(timed.us["compiled"], timed.us["eager"], eager)
    return found
