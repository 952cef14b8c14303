"""The memory that a run needs at least, by formula, before anything is allocated.

    needed = arms * (P + c * G + s * G)

P: bytes of all parameters. G: bytes of those with a gradient. c: 1, or 2 where the step writes into the
gradients, of which each arm then keeps a copy. s: `OptimizerSpec.full_size_states`, 0 where it is not known.
arms: as many as there are at one time, see `arms_at_once`.

It is what cannot be done without: temporary tensors, what the layers of a training step keep for backward,
step counters and what a CUDA context takes come on top.
The float64 reference, and the parameters as they were before the trace, are left out: a run that has no room
for them goes without (`comparison`).
"""

from src.bench import shapes, workload
from src.bench.refusal import Unsupported
from src.spec import RunSpec


def check(spec: RunSpec, available: int) -> None:
    """Check that a run fits into so many bytes.

    Raises:
        Unsupported: it does not.
    """
    needed = needed_bytes(spec)
    if needed > available:
        raise Unsupported(
            f"model={spec.model.name}: parameters, gradients and states of {arms_at_once(spec)} arms need "
            f"{_told(needed)}, {_told(available)} are available"
        )


def _told(size: int) -> str:
    return f"{size:,} bytes ({size / 2**30:.1f} GiB)"


def needed_bytes(spec: RunSpec) -> int:
    """Return the least memory that a run needs, in bytes."""
    return arms_at_once(spec) * _arm_bytes(spec)


def arms_at_once(spec: RunSpec) -> int:
    """Return the largest number of arms that there are at one time.

    A run without times has an eager and a compiled arm. One with times has two eager arms while it
    compares: the one that it timed before it compiled, and one that took the steps of the trace. It lets
    go of the latter before it makes the arms that are only timed.
    """
    return max(3, len(spec.measure.arms)) if spec.measure.timed else 2


def _arm_bytes(spec: RunSpec) -> int:
    every = stepped = 0
    for one in shapes.of(spec.model):
        every += one.bytes
        stepped += one.bytes if one.has_grad else 0
    copies = 2 if spec.training is None and workload.writes_into_gradients(spec) else 1
    return every + (copies + (spec.optimizer.full_size_states() or 0)) * stepped
