"""What a reader can do about a row, in plain words, where the cause is known.

Pure: what was asked for and the columns found so far come in, sentences go out.
"""

from collections.abc import Mapping
from typing import Any

from src.spec import RunSpec

_NEVER = {
    "LBFGS": "torch keeps LBFGS out of torch.compile, unless a scheduler was made before the first compile",
    "SparseAdam": "torch keeps SparseAdam out of torch.compile",
    "Adafactor": "Adafactor calls .item(), which ends its graph before the first operation",
}
"""Optimizers that compile to nothing (TorchPatcher in torch/_dynamo/eval_frame.py;
torch/optim/_adafactor.py)."""

_CYCLED = ("betas: value changed", "momentum: value changed")


def hint(spec: RunSpec, columns: Mapping[str, Any]) -> str | None:
    """Return the sentences that fit a row, None when there are none.

    Args:
        spec: what was asked for.
        columns: the row so far; columns that are not there count as null.
    """
    told = [
        *_of_parity(spec, columns),
        *_of_what_ran(spec, columns),
        *_of_recompiles(spec, columns),
    ]
    return " ".join(told) or None


_OF_REASONS = {
    "wrote into its gradients": (
        "A buffer that a compiled step makes, multiplies and adds the gradient to can become the "
        "gradient's own memory (seen with inductor in torch 2.13): make it before the first step."
    ),
    "no parameter moved": (
        "The step changes nothing, or less than the parameters' rounding: is optimizer.lr large enough?"
    ),
}
"""Hints by words of a `parity_reason`."""


def _of_parity(spec: RunSpec, columns: Mapping[str, Any]) -> list[str]:
    if columns.get("parity") != "failed":
        return []
    reason = columns.get("parity_reason") or ""
    told = [words for part, words in _OF_REASONS.items() if part in reason]
    if "eager arm became infinite or NaN" in reason and spec.model.dtype == "float16":
        told.append("In float16 a small optimizer.eps is zero: raise it, or use bfloat16.")
    if "differs by" in reason and spec.compile.backend == "inductor" and _may_be_a_stale_constant(columns):
        told.append(
            "torch's AOTAutograd cache may have returned a graph with an old constant "
            "(pytorch#195040, #197889): set TORCHINDUCTOR_AUTOGRAD_CACHE=0 and compare."
        )
    return told


def _may_be_a_stale_constant(columns: Mapping[str, Any]) -> bool:
    """Return whether a number that changes is part of the step: as a guard, or read by `.item()`."""
    breaks = columns.get("graph_break_reasons") or ()
    causes = columns.get("recompile_causes") or ()
    changes = any(cause.endswith("value changed") for cause in causes)
    return columns.get("aot_cache") == "on" and (changes or any("item()" in text for text in breaks))


def _of_what_ran(spec: RunSpec, columns: Mapping[str, Any]) -> list[str]:
    told = []
    if columns.get("compiled_path") == "never_compiled":
        told += _of_never_compiled(spec, columns)
    if "eager_left_foreach" in (columns.get("warnings") or ()):
        told.append(
            "A tensor learning rate moves the eager step from multi-tensor to a loop: "
            "compare with lr_type=float, or set optimizer.capturable=true."
        )
    if columns.get("cudagraph_skips") and columns.get("device") == "cuda" and spec.lr_device == "cpu":
        told.append("CUDA graphs take no CPU tensor: use lr_type=cuda_tensor.")
    return told


def _of_never_compiled(spec: RunSpec, columns: Mapping[str, Any]) -> list[str]:
    if getattr(spec.optimizer, "fused", None):
        return ["A fused step is not compiled at all: leave optimizer.fused=null in a compiled arm."]
    known = _NEVER.get(spec.optimizer.torch_class or "")
    if known is not None:
        return [f"{known}: both arms are eager."]
    if any("item()" in reason for reason in columns.get("failed_frame_reasons") or ()):
        return ["The step calls .item(), which ends its graph: keep its numbers in tensors."]
    return []


def _of_recompiles(spec: RunSpec, columns: Mapping[str, Any]) -> list[str]:
    causes = columns.get("recompile_causes") or ()
    told = []
    if "lr: value changed" in causes and not spec.lr_as_tensor:
        told.append("The learning rate changes as a float: hold it in a tensor, lr_type=cpu_tensor.")
    if any(cause in causes for cause in _CYCLED) and hasattr(spec.scheduler, "cycle_momentum"):
        told.append(
            "The scheduler changes momentum or betas, which are floats whatever the learning rate is: "
            "scheduler.cycle_momentum=false."
        )
    if "num_threads: changed" in causes:
        told.append("The number of CPU threads is a guard: set it once, threads=N.")
    if "state: entries added" in causes:
        told.append("The optimizer makes state in its first step, so that the second compiles once more.")
    if "object: another one" in causes:
        told.append("A compiled step belongs to its objects: another optimizer or parameter compiles again.")
    if columns.get("recompile_limit_hit"):
        told.append(
            "At its recompile limit torch runs the step eager, after checking every guard: slower than eager."
        )
    return told
