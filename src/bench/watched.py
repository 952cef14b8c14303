"""A step of an arm under the profiler, as far as it is what is compiled.

Of a training step whose model alone is compiled, loss and optimizer run eager because nobody asked for
anything else: they are not watched. Of a whole step that is compiled, backward is called outside of every
graph, and its own operation that begins it (a gradient of one) is nobody's fault either.
"""

from collections.abc import Collection
from dataclasses import dataclass

from src.bench import path
from src.bench.arms import Arm
from src.bench.path import Path
from src.spec import RunSpec

_SEED = "aten::ones_like"
"""By which `backward` makes the gradient of the loss (torch/autograd/__init__.py, `_make_grads`)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of one step."""

    paths: tuple[Path, ...]
    """Of the parts of the step that may be compiled."""
    optimizer: Path
    """Of the part that has the optimizer's step."""
    begins_backward: bool = False
    """Whether one of the paths has the call of backward in it."""

    @property
    def implementation(self) -> str:
        """Which implementation of torch.optim an eager step ran: one of `vocabulary.EAGER_PATHS`."""
        return self.optimizer.implementation()

    @property
    def compiled(self) -> bool:
        """Whether a compiled frame ran."""
        return any(p.frames for p in (*self.paths, self.optimizer))

    @property
    def not_in_graphs(self) -> int:
        """How many operations of an eager step no graph of it would have: its scheduler's."""
        return self.optimizer.outside_optimizer() if self.optimizer in self.paths else 0

    def outside_graphs(self, graphs: Collection[str], backend: str) -> int:
        """Return how many operations of those parts ran outside compiled graphs."""
        outside = [operation.name for p in self.paths for operation in p.outside(graphs, backend)]
        return len(outside) - (self.begins_backward and _SEED in outside)


def take(arm: Arm, spec: RunSpec, *, compiled: bool = False) -> Watched:
    """Take one step of an arm and return what it did.

    Args:
        arm: the arm.
        spec: what was asked for.
        compiled: whether it is the compiled arm, whose whole step has no pieces if that is the target.
    """
    target = spec.compile.target
    if arm.pieces is None or (compiled and target == "step"):
        whole = path.take(arm.take_step)
        return Watched((whole,), whole, begins_backward=arm.pieces is not None)
    forward = path.take(arm.pieces.forward)
    arm.pieces.backward(arm.pieces.loss(forward.returned))
    update = path.take(arm.pieces.update)
    arm.pieces.clear()
    arm.steps_taken += 1
    paths = {"model": (forward,), "optimizer": (update,)}.get(str(target), (forward, update))
    return Watched(paths, update)
