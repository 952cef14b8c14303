"""Facts about the machine, and whether a run can work on it."""

import json
import os
import platform
import socket
import subprocess
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from src import exclusions
from src.bench import parameters, torch_private
from src.bench.refusal import Excluded, Unsupported
from src.spec import RunSpec

OLDEST_CAPABILITY = (7, 0)
"""Triton, and so inductor, needs this CUDA compute capability (torch/_inductor/scheduler.py)."""

_STEERING = ("TORCH", "PYTORCH_", "TRITON_", "OMP_", "MKL_", "KMP_", "CUDA_", "CXX", "GOMP_")
_OUR_OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK")


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
    _check_memory(spec, device)


def known_exclusion(spec: RunSpec, device: torch.device) -> str | None:
    """Return why the run is known not to work, None where nothing is known against it.

    Raises:
        Unsupported, Excluded: it is known, and `retest_exclusions` does not ask to try anyway.
    """
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


def _check_memory(spec: RunSpec, device: torch.device) -> None:
    """Refuse what cannot fit: each arm's parameters and gradients, without states or temporaries."""
    needed = len(spec.measure.arms) * 2 * parameters.size_bytes(spec.model)
    available = free_bytes(device)
    if needed > available:
        raise Unsupported(
            f"model={spec.model.name}: parameters and gradients of {len(spec.measure.arms)} arms need "
            f"{needed / 2**30:.1f} GiB, {available / 2**30:.1f} GiB are available"
        )


def free_bytes(device: torch.device) -> int:
    """Return the memory that is free on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def facts(spec: RunSpec, device: torch.device) -> dict[str, Any]:
    """Return the machine columns of the row."""
    found: dict[str, Any] = {
        "hostname": socket.gethostname(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cpu_count": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "host_cpu_count": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python_version": platform.python_version(),
        "torch_version": torch.__version__,
        "triton_version": _version("triton"),
        "cxx_compiler": _compiler_version() if compiles_cxx(spec, device) else None,
        "cuda_version": torch.version.cuda,
        "torch_environment": json.dumps(_steering_environment()),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found |= _gpu(device)
    return found


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
        "gpu_driver": _driver(),
    }


def _driver() -> str | None:
    """Return the driver's version; NVML belongs to the driver, so it is asked only on CUDA."""
    try:
        import pynvml  # noqa: PLC0415  # optional: only where there is a GPU
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


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
