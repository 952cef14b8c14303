"""The GPU around the timing: its clocks, why it lowered them, temperature, power, and who else uses it.

NVML tells, through nvidia-ml-py, whose module is `pynvml`. What it does not tell is None, and nothing
that it raises ends a run: the state explains a number, which is there without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

CLOCKS_MOVED = 0.05
"""Change of the SM clock during the timing, as a part of what it was before, that is reported."""

_IDLE = "GpuIdle"

_REASONS = {
    0x001: _IDLE,
    0x002: "ApplicationsClocksSetting",
    0x004: "SwPowerCap",
    0x008: "HwSlowdown",
    0x010: "SyncBoost",
    0x020: "SwThermalSlowdown",
    0x040: "HwThermalSlowdown",
    0x080: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
    0x200: "BoardLimit",
    0x400: "Reliability",
}
"""Bits of NVML's clocks event reasons, with the names they have there (nvml.h, nvmlClocksEventReasons)."""

_SETTINGS = ("ApplicationsClocksSetting", "DisplayClockSetting")
"""Reasons that someone chose: the clocks are where they were set, before the timing as after it."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One look at a GPU; what NVML does not tell is None."""

    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    """Mean over the last second; of the moment on GA100 and older GPUs (nvml.h, nvmlDeviceGetPowerUsage)."""
    throttle_reasons: tuple[str, ...] | None
    """Why the clocks are not higher, by NVML's names; being idle is no reason."""
    foreign_processes: int | None
    """Other processes that compute on the GPU."""


def take(device: torch.device) -> GpuState | None:
    """Return the state of a GPU at this moment; it waits for nothing that the GPU still has to do.

    None on a CPU, without pynvml or NVML, and for a GPU that NVML does not know by its UUID: a part of
    a divided one (MIG) has another name there.
    """
    found = _nvml_and_gpu(device)
    if found is None:
        return None
    nvml, gpu = found
    milliwatts = _ask(nvml, ("nvmlDeviceGetPowerUsage",), gpu)
    return GpuState(
        sm_clock_mhz=_ask(nvml, ("nvmlDeviceGetClockInfo",), gpu, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=_ask(nvml, ("nvmlDeviceGetClockInfo",), gpu, nvml.NVML_CLOCK_MEM),
        temperature_c=_ask(
            nvml, ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), gpu, nvml.NVML_TEMPERATURE_GPU
        ),
        power_w=None if milliwatts is None else milliwatts / 1000,
        throttle_reasons=_throttle_reasons(nvml, gpu),
        foreign_processes=_foreign_processes(nvml, gpu),
    )


def utilisation(device: torch.device) -> Callable[[], float | None] | None:
    """Return what tells the part of the last moments in which a kernel ran on the GPU.

    None where `take` is None.
    """
    found = _nvml_and_gpu(device)
    if found is None:
        return None
    nvml, gpu = found

    def sample() -> float | None:
        rates = _ask(nvml, ("nvmlDeviceGetUtilizationRates",), gpu)
        return None if rates is None else rates.gpu / 100

    return sample


def _nvml_and_gpu(device: torch.device) -> tuple[Any, Any] | None:
    """Return NVML and its handle of a GPU."""
    if device.type != "cuda":
        return None
    nvml = _nvml()
    if nvml is None:
        return None
    # By UUID: NVML counts all GPUs of the host, torch those that CUDA_VISIBLE_DEVICES leaves, in its order.
    uuid = torch.cuda.get_device_properties(device).uuid
    gpu = _ask(nvml, ("nvmlDeviceGetHandleByUUID",), f"GPU-{uuid}")
    return None if gpu is None else (nvml, gpu)


def driver() -> str | None:
    """Return the version of the GPU's driver; None without pynvml or NVML."""
    nvml = _nvml()
    return None if nvml is None else _ask(nvml, ("nvmlSystemGetDriverVersion",))


def columns(before: GpuState | None, after: GpuState | None) -> dict[str, Any]:
    """Return the columns of the row from the states before and after the timing."""
    measured = {
        "sm_clock_mhz": "sm_clock_mhz",
        "memory_clock_mhz": "memory_clock_mhz",
        "gpu_temperature_c": "temperature_c",
        "gpu_power_w": "power_w",
    }
    found: dict[str, Any] = {
        f"{column}_{when}": None if state is None else getattr(state, name)
        for column, name in measured.items()
        for when, state in (("before", before), ("after", after))
    }
    reasons = _reasons_of(before, after)
    found["throttle_reasons"] = None if reasons is None else sorted(reasons)
    found["foreign_gpu_processes"] = _foreign_of(before, after)
    return found


def warnings(before: GpuState | None, after: GpuState | None) -> dict[str, bool]:
    """Return the doubts of `vocabulary.WARNINGS` that the states raise; what is not known raises none."""
    reasons = _reasons_of(before, after) or set()
    return {
        "clock_throttled": bool(reasons.difference(_SETTINGS)),
        "clocks_moved": _clocks_moved(before, after),
        "foreign_gpu_process": bool(_foreign_of(before, after)),
    }


def _nvml() -> Any | None:
    """Return the module pynvml, ready to be asked; None without it, or without a driver that has NVML."""
    try:
        import pynvml  # noqa: PLC0415  # optional: only where there is a GPU
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()  # counts its calls; a process's end closes it as well as nvmlShutdown
    except pynvml.NVMLError:
        return None
    return pynvml


def _ask(nvml: Any, functions: tuple[str, ...], *arguments: Any) -> Any | None:
    """Return the answer of the first of these functions that gives one, None when none does.

    The same question has had several names. A name may be missing in pynvml, and pynvml may have one
    that the driver lacks.
    """
    # Not an NVMLError: raised where a driver is older than pynvml. Older pynvml do not have it.
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
    for name in functions:
        if not hasattr(nvml, name):
            continue
        try:
            return getattr(nvml, name)(*arguments)
        except (nvml.NVMLError, mismatch):
            continue
    return None


def _throttle_reasons(nvml: Any, gpu: Any) -> tuple[str, ...] | None:
    mask = _ask(
        nvml,
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        gpu,
    )
    if mask is None:
        return None
    bits = [1 << n for n in range(mask.bit_length()) if mask & 1 << n]
    names = [_REASONS.get(bit, f"{bit:#x}") for bit in bits]  # NVML says that there may be more some day
    return tuple(name for name in names if name != _IDLE)


def _foreign_processes(nvml: Any, gpu: Any) -> int | None:
    """Return how many other processes compute on the GPU; None when NVML shows no process at all.

    One of those it shows is this one, which has the GPU in use, though perhaps under another number:
    NVML counts as the host does, and a container has numbers of its own. Where even this process is
    not shown, NVML hides them all.
    """
    shown = _ask(
        nvml,
        ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"),
        gpu,
    )
    return len({process.pid for process in shown}) - 1 if shown else None


def _reasons_of(*states: GpuState | None) -> set[str] | None:
    known = [s.throttle_reasons for s in states if s is not None and s.throttle_reasons is not None]
    return set().union(*known) if known else None


def _foreign_of(*states: GpuState | None) -> int | None:
    known = [s.foreign_processes for s in states if s is not None and s.foreign_processes is not None]
    return max(known, default=None)


def _clocks_moved(before: GpuState | None, after: GpuState | None) -> bool:
    clocks = [None if state is None else state.sm_clock_mhz for state in (before, after)]
    if clocks[0] is None or clocks[1] is None:
        return False
    return abs(clocks[1] - clocks[0]) > CLOCKS_MOVED * clocks[0]
