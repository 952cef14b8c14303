"""Where a run goes on a host with several GPUs: to the one with the fewest runs, and to CPUs near it.

The GPU is chosen before CUDA starts and kept by all processes of the run. Which are taken is known by
locks, so that it holds for all sweeps of the host, and for those that were killed.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from src import hardware, lease
from src.hardware import Gpu
from src.spec import RunSpec

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the processes of a run are."""

    environment: dict[str, str] = field(default_factory=dict)
    """Variables that leave the run its GPU alone."""
    near_cpus: tuple[int, ...] | None = None
    """CPUs that the run is kept on; None: it is not."""


@contextlib.contextmanager
def placed(spec: RunSpec) -> Iterator[Place]:
    """Give a run its place for as long as this is entered."""
    everything = hardware.gpus()
    visible = _visible(everything, os.environ.get(_VISIBLE))
    enough = len(visible) > 1 or (spec.measure.pin and visible)
    try:
        gpu, slot = _least_taken(visible) if enough and spec.device != "cpu" else (None, None)
    except OSError:  # no place for leases: CUDA chooses
        gpu, slot = None, None
    if gpu is None or slot is None:
        yield Place()
        return
    try:
        pinned = spec.measure.pin is not False and spec.cpus is None
        near = _near_cpus(gpu, everything, os.sched_getaffinity(0)) if pinned else None
        yield Place({_VISIBLE: gpu.uuid}, near)
    finally:
        os.close(slot)


def _visible(gpus: Sequence[Gpu], asked: str | None) -> list[Gpu]:
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` leaves; none where it names what is not known here.

    By number in the order of NVML, as torch reads it where it asks NVML, or by the beginning of a UUID.
    """
    if asked is None:
        return list(gpus)
    found = []
    for name in (part.strip() for part in asked.split(",")):
        if name.isdecimal() and int(name) < len(gpus):
            found.append(gpus[int(name)])
        else:
            same = [gpu for gpu in gpus if name and gpu.uuid.startswith(name)]
            if len(same) != 1:
                return []
            found += same
    return found


def _least_taken(gpus: Sequence[Gpu]) -> tuple[Gpu, int]:
    """Return the first GPU of those with the fewest runs, and the lock that says so."""
    for number in itertools.count():
        for gpu in gpus:
            slot = lease.taken_if_free(f"gpu-{gpu.uuid}.run{number}")
            if slot is not None:
                return gpu, slot
    raise AssertionError("endless")


def _near_cpus(gpu: Gpu, gpus: Sequence[Gpu], allowed: set[int]) -> tuple[int, ...] | None:
    """Return the CPUs of a GPU: its part of those that are near it and equally near to other GPUs.

    All GPUs of a node have equally many, so that their runs have equally many threads. None where the
    system does not tell, or where there are not enough.
    """
    near = {each.uuid: _listed(_SYS / "bus/pci/devices" / each.bus / "local_cpulist") for each in gpus}
    if not near[gpu.uuid]:
        return None
    sharing = [each.uuid for each in gpus if near[each.uuid] == near[gpu.uuid]]
    cores = _by_core(near[gpu.uuid] & allowed)
    part = len(cores) // len(sharing)
    first = sharing.index(gpu.uuid) * part
    chosen = sorted(itertools.chain(*cores[first : first + part]))
    return tuple(chosen) or None


def _by_core(cpus: set[int]) -> list[list[int]]:
    """Return CPUs by the core that they are threads of: two runs on one core would disturb each other."""
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = _listed(_SYS / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(min(siblings, default=cpu), []).append(cpu)
    return [cores[core] for core in sorted(cores)]


def _listed(file: Path) -> set[int]:
    """Return the CPUs of a list such as `0-3,8`; none where there is no such file."""
    try:
        spans = [part.partition("-") for part in file.read_text().strip().split(",") if part]
        return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}
    except (OSError, ValueError):
        return set()
