"""Which path a step really took, found out from the operations that ran, not from flags.

One step is taken under `torch.profiler`. In its profile a compiled frame, an inductor graph and an
eager optimizer step are ranges; every operation of torch is an event inside of them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile

from src.bench.torch_private import (
    AUTOGRAD_CALL,
    GRADIENT_KEPT,
    GUARDS,
    INDUCTOR_CALL,
    OPTIMIZER_STEP,
    REGION,
)

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
    in_graph: bool = False
    """Whether a graph that autograd calls, forward or backward, called it."""


@dataclass(frozen=True, slots=True)
class Path:
    """What one step did."""

    operations: tuple[Operation, ...]
    frames: frozenset[str]
    """Compile ids of the compiled frames that ran."""
    returned: Any = None
    """What the step returned."""

    def implementation(self) -> str:
        """Return which implementation of torch.optim an eager step ran: one of `vocabulary.EAGER_PATHS`.

        A training step has fused and multi-tensor operations besides its optimizer's.
        """
        own = [operation for operation in self.operations if operation.in_optimizer]
        names = [operation.name for operation in own or self.operations]
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
        """Return how many operations ran outside compiled graphs."""
        return len(self.outside(graphs, backend))

    def outside(self, graphs: Collection[str], backend: str) -> list[Operation]:
        """Return the operations that ran outside compiled graphs.

        Inductor's calls are ranges of their own, and so are graphs that autograd calls. Of other backends
        only the frame is known: what runs between two graphs of one frame is then taken for compiled.
        """
        others = [operation for operation in self.operations if not operation.in_graph]
        if backend == "inductor":
            return [operation for operation in others if not operation.in_inductor]
        return [operation for operation in others if operation.compile_id not in graphs]


def take(step: Callable[[], Any]) -> Path:
    """Take one step and return its path."""
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        returned = step()
    events = profiled.events() or []
    found = (_operation(event) for event in events if _is_outermost_operation(event))
    return Path(
        tuple(operation for operation in found if operation is not None),
        frozenset(e.name.removeprefix(REGION) for e in events if e.name.startswith(REGION)),
        returned,
    )


def _is_outermost_operation(event: Any) -> bool:
    if not event.name.startswith(_OPERATIONS):
        return False
    parent = event.cpu_parent
    return parent is None or not parent.name.startswith(_OPERATIONS)


def _operation(event: Any) -> Operation | None:
    """Return the operation of an event, None for one that is no part of the step, whatever runs it.

    That is one of a guard, or one by which autograd keeps a gradient.
    """
    compile_id, in_inductor, in_graph, in_optimizer = None, False, False, False
    around = event.cpu_parent
    while around is not None:
        if around.name in (GUARDS, GRADIENT_KEPT):
            return None
        if compile_id is None and around.name.startswith(REGION):
            compile_id = around.name.removeprefix(REGION)
        in_inductor |= around.name.startswith(INDUCTOR_CALL)
        in_graph |= around.name in AUTOGRAD_CALL
        in_optimizer |= around.name.startswith(OPTIMIZER_STEP)
        around = around.cpu_parent
    return Operation(event.name, compile_id, in_inductor, in_optimizer, in_graph)
