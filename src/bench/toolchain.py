"""The probe of the compiler toolchain: a trivial function, compiled in an empty cache."""

import time
from typing import Any

import torch

from src.bench import machine
from src.spec import RunSpec


def probe(spec: RunSpec, report: Any) -> None:
    """Compile something trivial for the CPU where the run compiles C++.

    Reports `needed`, a bool, and then `seconds`: a GPU without a CPU learning rate needs no probe.
    """
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    needed = machine.compiles_cxx(spec, machine.resolve_device(spec.device))
    report("needed", needed)
    if not needed:
        return
    start = time.perf_counter()
    torch.compile(_trivial)(torch.ones(1024))
    report("seconds", time.perf_counter() - start)


def _trivial(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1
