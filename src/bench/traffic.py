"""Memory that a step's operations read and write, counted operation by operation.

An eager step moves more than its update needs: every operation reads its inputs from memory and
writes its result back, temporary ones included. What is counted is what each operation must move,
every tensor of it once: caches may save some of that between operations, and a product of matrices
reads more. Compiled code, and kernels that are called without an operation of torch, are not seen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from src.bench.torch_private import Call, EachCall

OVERWRITING = (
    *("aten::copy_", "aten::fill_", "aten::zero_", "aten::_foreach_copy_", "aten::_foreach_zero_"),
    *("aten::bernoulli_", "aten::exponential_", "aten::normal_", "aten::random_", "aten::uniform_"),
)
"""Operations that write into `self` without reading it."""

FUSED = "aten::_fused_"
"""Start of the names of fused steps."""

Size = Callable[[torch.Tensor], int]

_Place = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Where a tensor starts, its shape and its strides."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a step moves, in bytes unless counted in something else."""

    read: int
    written: int


def counted_bytes(step: Callable[[], None]) -> int | None:
    """Take one step and return the bytes that its operations read and write, see `counted`."""
    found = counted(step)
    return None if found is None else found.read + found.written


def size_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of memory behind a tensor; what an expanded one repeats counts once."""
    elements = 1
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= length if stride else min(length, 1)
    return elements * tensor.element_size()


def counted(step: Callable[[], None], size: Size = size_bytes) -> Traffic | None:
    """Take one eager step and return what its operations read and write.

    Args:
        step: it is really taken: parameters and states are those of the step after.
        size: of a tensor, in what is counted.

    Returns:
        The sums over all operations; None where a tensor is not laid out in strides (a sparse one).
    """
    read = written = 0
    dense = True

    def seen(call: Call) -> None:
        nonlocal read, written, dense
        dense = dense and all(t.layout == torch.strided for t in _of_call(call))
        if dense:
            moved = _moved(call, size)
            read, written = read + moved.read, written + moved.written

    with EachCall(seen):
        step()
    return Traffic(read, written) if dense else None


def _moved(call: Call, size: Size) -> Traffic:
    """Return what one operation moves: of each tensor that it has to read or write, all of it once."""
    read: dict[_Place, int] = {}
    written: dict[_Place, int] = {}
    for name, argument in call.arguments.items():
        writes = argument.written and not _only_marked(call, name)
        overwrites = argument.out or (writes and call.name in OVERWRITING)
        for tensor in _tensors(argument.value):
            if writes:
                written[_place(tensor)] = size(tensor)
            if not overwrites:
                read[_place(tensor)] = size(tensor)
    fresh = _fresh(call)
    if _shape_alone(call) or _is_view(call, fresh, written):
        read.clear()
    if "empty" not in call.name:
        written |= {_place(tensor): size(tensor) for tensor in fresh}
    return Traffic(sum(read.values()), sum(written.values()))


def _only_marked(call: Call, argument: str) -> bool:
    """Return whether a fused step says that it writes into the gradients but leaves them alone.

    It divides them by the scale of `torch.amp.GradScaler` in place, if there is one.
    """
    scaled = "grad_scale" in call.arguments and call.arguments["grad_scale"].value is not None
    return call.name.startswith(FUSED) and argument == "grads" and not scaled


def _shape_alone(call: Call) -> bool:
    """Return whether the result takes only its shape, or nothing, from the arguments."""
    return call.name.endswith("_like") or call.name.startswith(("aten::new_", "aten::empty"))


def _is_view(call: Call, fresh: Sequence[torch.Tensor], written: Collection[_Place]) -> bool:
    """Return whether all that came of it is another way to look at a tensor that was there."""
    return not fresh and not written and any(True for _ in _tensors(call.result))


def _fresh(call: Call) -> list[torch.Tensor]:
    """Return the results that are in memory of their own."""
    given = {t.untyped_storage().data_ptr() for a in call.arguments.values() for t in _tensors(a.value)}
    return [t for t in _tensors(call.result) if t.untyped_storage().data_ptr() not in given]


def _place(tensor: torch.Tensor) -> _Place:
    """Return what tells tensors apart; a matrix and its transpose are read in two ways, and count twice."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _of_call(call: Call) -> Iterator[torch.Tensor]:
    for argument in call.arguments.values():
        yield from _tensors(argument.value)
    yield from _tensors(call.result)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of an argument or a result, of lists as well."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
