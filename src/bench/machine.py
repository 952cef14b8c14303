"""Facts about the machine, and whether a run can work on it."""

import contextlib
import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from src import exclusions, hardware
from src.bench import footprint, gpu_state, torch_private
from src.bench.refusal import Excluded, Unsupported
from src.spec import RunSpec

OLDEST_CAPABILITY = (7, 0)
"""Triton, and so inductor, needs this CUDA compute capability (torch/_inductor/scheduler.py)."""

_LOOK_EVERY = 0.25
"""Seconds between two looks at the processes that this one has started."""

_IDLE = 0.1
"""CPUs that they may use and count as idle."""

_STEERING = ("TORCH", "PYTORCH_", "TRITON_", "OMP_", "MKL_", "KMP_", "CUDA_", "CXX", "GOMP_")
_OUR_OWN = (
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK"),
    "TORCH_LOGS_OUT",  # of compile.logs, another file in each run
)

_SAVING_GOVERNORS = ("powersave", "conservative", "ondemand", "userspace")
"""Governors of cpufreq that hold the frequency down, raise it late, or leave it to another program
(linux/Documentation/admin-guide/pm/cpufreq.rst)."""

_OWN_GOVERNORS = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers that choose the frequency themselves, or let the processor do it: intel_pstate and amd-pstate in
active mode (in passive mode they are called intel_cpufreq and amd-pstate). Their `powersave` follows the
load, as schedutil does, and is what they start with; it is not the governor of that name, which stays at
the lowest frequency (linux/Documentation/admin-guide/pm/intel_pstate.rst)."""

_CPU_FOLDER = Path("/sys/devices/system/cpu")


def pin(cpus: list[int] | None) -> None:
    """Keep this thread, and what it starts from now on, on these CPUs alone; None pins nothing.

    It must come before torch starts threads: those that are there keep the CPUs they have.

    Raises:
        Unsupported: a CPU that this process may not use, or a system that pins nothing.
    """
    if cpus is None:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise Unsupported(f"cpus={cpus}: {platform.system()} pins no process to CPUs")
    allowed = os.sched_getaffinity(0)
    if not allowed.issuperset(cpus):
        raise Unsupported(f"cpus={cpus}: this process may use CPUs {_spans(allowed)}")
    os.sched_setaffinity(0, cpus)


def _spans(cpus: Iterable[int]) -> str:
    """Return CPUs for a message, such as `0-3, 8, 9`: a host may have hundreds."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and spans[-1][-1] + 1 == cpu:
            spans[-1].append(cpu)
        else:
            spans.append([cpu])
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in spans)


def lease_names(device: torch.device) -> list[str]:
    """Return the names under which the devices of a run are leased: its GPU, or all CPUs it may use."""
    if device.type == "cuda":
        return [f"gpu-GPU-{torch.cuda.get_device_properties(device).uuid}"]
    return [f"cpu-{cpu:04}" for cpu in _own_cpus()]


def limit_threads(threads: int | None, cpus: list[int] | None) -> None:
    """Set the CPU threads of torch, by default no more than CPUs that the run is pinned to or kept on.

    torch counted the CPUs when it was loaded, in a process that may use more of them.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    elif cpus is not None:
        torch.set_num_threads(len(cpus))
    elif "OMP_NUM_THREADS" not in os.environ and len(_own_cpus()) < torch.get_num_threads():
        torch.set_num_threads(len(_own_cpus()))


def resolve_device(asked: str) -> torch.device:
    """Return the device that `auto`, `cpu` or `cuda` means here.

    Raises:
        Unsupported: `cuda` was asked for and there is none.
    """
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
        raise Unsupported(f"device=cuda: torch sees no CUDA device (torch was built for {build})")
    return torch.device("cuda", 0) if asked == "cuda" else torch.device("cpu")


def check_can_run(spec: RunSpec, device: torch.device) -> None:
    """Check before anything is built what would make the run fail in an obscure way.

    Raises:
        Unsupported: arguments that the device rules out, no compiler, or too little memory.
    """
    if spec.lr_device == "cuda" and device.type != "cuda":
        raise Unsupported("lr_type=cuda_tensor: the parameters are on the CPU")
    _check_compiler(spec, device)
    footprint.check(spec, free_bytes(device))


def known_exclusion(spec: RunSpec, device: torch.device) -> str | None:
    """Return why the run is known not to work, None where nothing is known against it.

    Raises:
        Excluded: a rule of `exclude` leaves it out.
        Unsupported, Excluded: it is known, and `retest_exclusions` does not ask to try anyway.
    """
    rule = exclusions.rule_for(spec, device.type)
    if rule is not None:
        raise Excluded(rule)
    known = exclusions.find(spec, device.type, torch.__version__)
    if known is None:
        return None
    if not spec.retest_exclusions:
        raise {"unsupported": Unsupported, "excluded": Excluded}[known.status](known.reason)
    return known.reason


def compiles_cxx(spec: RunSpec, device: torch.device) -> bool:
    """Return whether inductor compiles C++ for this run: CPU parameters or a CPU lr tensor."""
    on_cpu = device.type == "cpu" or spec.lr_device == "cpu"
    return spec.compile.backend == "inductor" and on_cpu


def _check_compiler(spec: RunSpec, device: torch.device) -> None:
    if spec.compile.backend == "inductor" and device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < OLDEST_CAPABILITY:
            raise Unsupported(
                f"torch.compile needs CUDA capability 7.0 or newer: {torch.cuda.get_device_name(device)}"
                f" has {capability[0]}.{capability[1]}"
            )
        if not torch_private.has_triton():
            raise Unsupported("torch.compile needs a working Triton on CUDA: there is none")
    if compiles_cxx(spec, device) and torch_private.cxx_compiler() is None:
        raise Unsupported(
            "torch.compile needs a C++ compiler on the CPU: none found (set CXX or install g++)"
        )


def free_bytes(device: torch.device) -> int:
    """Return the memory that is free on the device, with what torch keeps there without using it."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    return int(psutil.virtual_memory().available)


def facts(spec: RunSpec, device: torch.device) -> dict[str, Any]:
    """Return the machine columns of the row."""
    found: dict[str, Any] = {
        "hostname": socket.gethostname(),
        "platform": platform.platform(),
        "cpu": hardware.cpu_model(),
        "cpu_count": len(_own_cpus()),
        "host_cpu_count": host_cpus(),
        "cpu_governor": _cpufreq("scaling_governor"),
        "load_average": _load_average(),
        "memory_bytes": psutil.virtual_memory().total,
        "python_version": platform.python_version(),
        # A string alone: torch's own class would have the parent load torch to read it.
        "torch_version": str(torch.__version__),
        "triton_version": _version("triton"),
        "cxx_compiler": _compiler_version() if compiles_cxx(spec, device) else None,
        "cuda_version": torch.version.cuda,
        "torch_environment": json.dumps(_steering_environment()),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found |= _gpu(device)
    return found


def governor_saves_power(governor: str | None) -> bool:
    """Return whether a governor, as `facts` tells it, does not let the CPUs be as fast as they can.

    The names mean what the frequency driver of this process's CPUs means by them.
    """
    driver = _cpufreq("scaling_driver")
    own = driver is not None and all(name in _OWN_GOVERNORS for name in driver.split(", "))
    saving = [name for name in _SAVING_GOVERNORS if not (own and name == "powersave")]
    return governor is not None and any(name in saving for name in governor.split(", "))


def host_cpus() -> int:
    """Return the number of CPUs of the host, also of those that this process may not use."""
    return psutil.cpu_count() or len(_own_cpus())


def wait_for_own_processes(
    seconds: float,
    busy_seconds: Callable[[], float] | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Wait until the processes that this one has started are idle, for `seconds` at most.

    Inductor starts a pool of compile workers, which load torch for some seconds after the first
    compile is over, and slow down a step that the host limits.

    Args:
        seconds: longest wait.
        busy_seconds: CPU time of these processes so far, in s; theirs by default.
        now: clock in s.
        sleep: waits for so many seconds.

    Returns:
        Seconds waited.
    """
    busy_seconds = busy_seconds or _descendants_busy_seconds
    start, before = now(), busy_seconds()
    while now() - start < seconds:
        sleep(_LOOK_EVERY)
        after = busy_seconds()
        if after - before < _IDLE * _LOOK_EVERY:
            break
        before = after
    return now() - start


def _descendants_busy_seconds() -> float:
    total = 0.0  # s
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may have ended meanwhile
            times = process.cpu_times()
            total += float(times.user) + float(times.system)
    return total


class ForeignLoad:
    """CPUs that are busy with other processes between its making and `busy_cpus`."""

    def __init__(self) -> None:
        """Start to count."""
        self._start = time.monotonic()
        self._host = _host_busy_seconds()
        self._own = time.process_time()

    def busy_cpus(self) -> float:
        """Return how many CPUs of the host were busy with other processes, on average.

        The host's busy time, time stolen from a virtual machine included, less this process's own.
        """
        host = _host_busy_seconds() - self._host
        own = time.process_time() - self._own
        return max(0.0, host - own) / (time.monotonic() - self._start)


def _host_busy_seconds() -> float:
    cpu = psutil.cpu_times()
    waiting = cpu.idle + getattr(cpu, "iowait", 0.0)
    # Linux counts guest time in user time as well.
    return float(sum(cpu)) - waiting - getattr(cpu, "guest", 0.0) - getattr(cpu, "guest_nice", 0.0)


def _gpu(device: torch.device) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    return {
        "gpu": properties.name,
        "gpu_uuid": str(getattr(properties, "uuid", "")) or None,
        "gpu_capability": f"{properties.major}.{properties.minor}",
        "gpu_memory_bytes": properties.total_memory,
        "gpu_driver": gpu_state.driver(),
    }


def _own_cpus() -> list[int]:
    """Return the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _cpufreq(attribute: str) -> str | None:
    """Return what Linux says of the frequency of this process's CPUs: one value, or all where they differ.

    None where it says nothing, as in most virtual machines.
    """
    found = []
    for cpu in _own_cpus():
        try:
            found.append((_CPU_FOLDER / f"cpu{cpu}" / "cpufreq" / attribute).read_text().strip())
        except OSError:
            continue
    return ", ".join(dict.fromkeys(found)) or None


def _load_average() -> float | None:
    """Return the load average of one minute; None on a system without one."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


@cache
def _compiler_version() -> str | None:
    compiler = torch_private.cxx_compiler()
    if compiler is None:
        return None
    printed = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=False, timeout=30
    ).stdout
    return printed.splitlines()[0] if printed else compiler


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _steering_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_STEERING) and name not in _OUR_OWN
    }
