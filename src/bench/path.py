"""Which path a step really took, found out from the operations that ran, not from flags.

One step is taken under `torch.profiler`. In its profile a compiled frame, an inductor graph and an
eager optimizer step are ranges; every operation of torch is an event inside of them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile

from src.bench.torch_private import GUARDS, INDUCTOR_CALL, OPTIMIZER_STEP, REGION

_OPERATIONS = ("aten::", "prims::")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that Python, or compiled code, asked torch for."""

    name: str
    compile_id: str | None
    """The innermost compiled frame around it; None when there is none."""
    in_inductor: bool
    """Whether an inductor graph called it."""
    in_optimizer: bool
    """Whether an eager optimizer step called it."""


@dataclass(frozen=True, slots=True)
class Path:
    """What one step did."""

    operations: tuple[Operation, ...]
    frames: frozenset[str]
    """Compile ids of the compiled frames that ran."""

    def implementation(self) -> str:
        """Return which implementation of torch.optim an eager step ran: one of `vocabulary.EAGER_PATHS`."""
        names = [operation.name for operation in self.operations]
        if any(name.startswith("aten::_fused_") for name in names):
            return "fused"
        return "foreach" if any(name.startswith("aten::_foreach_") for name in names) else "forloop"

    def outside_optimizer(self) -> int:
        """Return how many operations of an eager step were not the optimizer's: its scheduler's."""
        in_step = [operation.in_optimizer for operation in self.operations]
        return in_step.count(False) if any(in_step) else 0

    def ran_graph(self, graphs: Collection[str]) -> bool:
        """Return whether a compiled frame ran whose id is one of `graphs`."""
        return not self.frames.isdisjoint(graphs)

    def outside_graphs(self, graphs: Collection[str], backend: str) -> int:
        """Return how many operations ran outside compiled graphs.

        Inductor's calls are ranges of their own. Of other backends only the frame is known: what
        runs between two graphs of one frame is then taken for compiled.
        """
        if backend == "inductor":
            return sum(not operation.in_inductor for operation in self.operations)
        return sum(operation.compile_id not in graphs for operation in self.operations)


def take(step: Callable[[], None]) -> Path:
    """Take one step and return its path."""
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        step()
    events = profiled.events() or []
    found = (_operation(event) for event in events if _is_outermost_operation(event))
    return Path(
        tuple(operation for operation in found if operation is not None),
        frozenset(e.name.removeprefix(REGION) for e in events if e.name.startswith(REGION)),
    )


def _is_outermost_operation(event: Any) -> bool:
    if not event.name.startswith(_OPERATIONS):
        return False
    parent = event.cpu_parent
    return parent is None or not parent.name.startswith(_OPERATIONS)


def _operation(event: Any) -> Operation | None:
    """Return the operation of an event, None for one of a guard, which is no part of the step."""
    compile_id, in_inductor, in_optimizer = None, False, False
    around = event.cpu_parent
    while around is not None:
        if around.name == GUARDS:
            return None
        if compile_id is None and around.name.startswith(REGION):
            compile_id = around.name.removeprefix(REGION)
        in_inductor |= around.name.startswith(INDUCTOR_CALL)
        in_optimizer |= around.name.startswith(OPTIMIZER_STEP)
        around = around.cpu_parent
    return Operation(event.name, compile_id, in_inductor, in_optimizer)
