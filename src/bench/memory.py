"""How much memory a step needs: parameters, gradients, states, and the most temporary memory it holds."""

import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from src.bench import heap, states
from src.bench.workload import Workload

_PROC = Path("/proc/self")

_RESET_PEAK = "5"
"""What to write to `clear_refs` so that VmHWM starts anew from VmRSS (man 5 proc_pid_clear_refs)."""

_DEFAULT_POOL = (0, 0)
"""The pool of CUDA memory that belongs to no graph."""


def state_bytes(optimizer: Optimizer) -> int:
    """Return the bytes of what an optimizer keeps: of its states, step counters and own attributes.

    Of tensors that share memory the memory counts once, and all of it. A number that is no tensor
    counts as a float64.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return _bytes(states.of(optimizer, parameters).values())


def own_bytes(workload: Workload) -> int:
    """Return the bytes of parameters, gradients and states of an arm, with training of buffers and batch."""
    gradients = [p.grad for p in workload.parameters if p.grad is not None]
    training = workload.training
    others = [] if training is None else [*training.module.buffers(), *training.batch]
    return _bytes([*workload.parameters, *gradients, *others]) + state_bytes(workload.optimizer)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the distinct storages of these tensors, on whatever device."""
    storages = [part.untyped_storage() for tensor in tensors for part in _parts(tensor)]
    return sum({(s.device, s.data_ptr()): s.nbytes() for s in storages}.values())


def _parts(tensor: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that hold the numbers of a tensor: itself, unless it is made of others.

    Those are indices and values of a sparse tensor, and what a wrapper says it consists of, such as
    the codes and scales of an 8-bit state.
    """
    if tensor.layout == torch.sparse_coo:
        coalesced = tensor.detach().coalesce()
        yield from (coalesced.indices(), coalesced.values())
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _parts(getattr(tensor, name))
    else:
        yield tensor


def peak_bytes(
    workload: Workload, step: Callable[[], None], device: torch.device, *, graphs: bool = False
) -> int | None:
    """Return `own_bytes` and the most temporary memory that a step holds at once.

    Args:
        workload: the arm's objects.
        step: its step, which is warm: its states are there.
        device: where it runs.
        graphs: whether the step replays CUDA graphs.

    Returns:
        bytes; None on a CPU whose system does not tell a peak.
    """
    if device.type == "cuda":
        temporary: int | None = temporary_on_cuda(step, device, graphs=graphs)
    else:
        temporary = temporary_on_cpu(step)
    return None if temporary is None else own_bytes(workload) + temporary


def temporary_on_cuda(
    step: Callable[[], None], device: torch.device, *, graphs: bool, cuda: Any = torch.cuda
) -> int:
    """Return the most CUDA memory that a step allocates beyond what is there before it, in bytes.

    A CUDA graph has its temporary memory, and its copies of inputs, in a pool of its own that stays
    reserved between replays; a replay allocates nothing. So with `graphs` the size of all such pools
    is added. They are reserved in segments of at least 2 MiB, and graphs of other steps of the process
    count too.
    """
    gc.collect()
    cuda.synchronize(device)
    cuda.reset_peak_memory_stats(device)
    before = cuda.memory_allocated(device)
    step()
    cuda.synchronize(device)
    temporary = int(cuda.max_memory_allocated(device) - before)
    return temporary + (_graph_pools(device, cuda) if graphs else 0)


def reserved_bytes(
    workload: Workload,
    step: Callable[[], Any],
    device: torch.device,
    *,
    graphs: bool = False,
    cuda: Any = torch.cuda,
) -> int | None:
    """Return what torch reserves of the GPU's memory for an arm and its step, in bytes; None on a CPU.

    `own_bytes`, and by how much the reserved memory grows in a step that begins with none lying idle; or the
    allocated memory, where that grows more, into what is free in segments that other tensors hold. With
    `graphs`, the pools of CUDA graphs as in `temporary_on_cuda`.
    """
    if device.type != "cuda":
        return None
    gc.collect()
    cuda.synchronize(device)
    cuda.empty_cache()
    cuda.reset_peak_memory_stats(device)
    reserved, allocated = cuda.memory_reserved(device), cuda.memory_allocated(device)
    step()
    cuda.synchronize(device)
    grown = int(
        max(cuda.max_memory_reserved(device) - reserved, cuda.max_memory_allocated(device) - allocated)
    )
    return own_bytes(workload) + grown + (_graph_pools(device, cuda) if graphs else 0)


def _graph_pools(device: torch.device, cuda: Any) -> int:
    index = cuda.current_device() if device.index is None else device.index
    return sum(
        int(segment["total_size"])
        for segment in cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != _DEFAULT_POOL
    )


def temporary_on_cpu(
    step: Callable[[], None],
    proc: Path = _PROC,
    give_back: Callable[[], bool] | None = None,
) -> int | None:
    """Return by how much the resident set of the process grows during a step at most, in bytes.

    Memory that the allocator kept from earlier steps is given back to the system first: taken again
    from there, it would not show as growth. The peak is Linux's VmHWM, reset before the step.

    None where the C library cannot give memory back, or /proc does not reset or tell a peak.

    Args:
        step: a step that is warm.
        proc: /proc of the process.
        give_back: gives free memory back to the system and says whether it can; a test's own.
    """
    gc.collect()
    if not (give_back or heap.give_back)():
        return None
    try:
        (proc / "clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return None
    before = _resident(proc, "VmRSS")
    if before is None:
        return None
    step()
    peak = _resident(proc, "VmHWM")
    return None if peak is None else max(0, peak - before)


def _resident(proc: Path, name: str) -> int | None:
    """Return a line of `status` in bytes, None where there is none; the kernel writes kB for KiB."""
    try:
        lines = (proc / "status").read_text().splitlines()
    except OSError:
        return None
    found = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return next((int(kib) * 1024 for kib in found), None)
