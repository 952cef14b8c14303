"""The learning rate scheduler of an arm."""

from typing import Any

from torch.optim import Optimizer, lr_scheduler, swa_utils

from src.bench import target
from src.bench.refusal import made
from src.schedulers import SchedulerSpec


def make(spec: SchedulerSpec, optimizer: Optimizer) -> Any | None:
    """Return the scheduler, attached to `optimizer`; None when there is none.

    Raises:
        Unsupported: torch refuses the arguments.
        SpecError: a dotted path names nothing that can be used.
    """
    dotted = getattr(spec, "_target_", None)
    if spec.torch_class is None and dotted is None:
        return None
    keywords = spec.keywords()
    function = getattr(spec, "function", None)
    if function is not None:
        keywords["lr_lambda"] = target.load("scheduler.function", function)
    if dotted is not None:
        own = target.load("scheduler._target_", dotted)(optimizer, **keywords)
        return target.having(own, "scheduler._target_", dotted, "step")
    assert spec.torch_class is not None  # noqa: S101  # for the type checker
    parts = [make(part, optimizer) for part in (getattr(spec, n, None) for n in ("first", "second")) if part]
    torch_class = getattr(lr_scheduler, spec.torch_class, None) or getattr(swa_utils, spec.torch_class)
    if spec.torch_class == "ChainedScheduler":
        return made(spec.torch_class, torch_class, parts, optimizer=optimizer)
    if parts:
        keywords["schedulers"] = parts
    return made(spec.torch_class, torch_class, optimizer, **keywords)
