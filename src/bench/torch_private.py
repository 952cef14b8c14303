"""Every private torch API that stepsweep uses, and what each returns.

Checked by running on torch 2.13.0 (CPU) and 2.11.0 (CUDA), by reading the source of 2.9.1.
`tests/bench/test_torch_private.py` fails when one of them changes.

* `torch._dynamo.utils.get_compilation_metrics()`: list of `CompilationMetrics`, one per attempt to
  compile a frame, newest 64 only, so it must be drained every step. `compile_id` is
  `<frame>/<attempt>`; `graph_op_count` None or 0 for a frame without operations; `fail_type` is
  "Unsupported" for the attempt that the recompile limit refused, whose `co_name` is None; records
  of `is_runtime` True are not compilations. A graph with a backward has a second record of the same id,
  with `is_forward` False, from when `backward` first wants it: of its fields only
  `backward_cumulative_compile_time_us` counts here. Fields were added from 2.9 to 2.13, none removed.
  `cudagraph_skip_reason` is None or text, also when `inductor.cudagraph_skips` counts (on a CPU).
* `torch._dynamo.utils.counters`: nested counters; `graph_break[reason]`,
  `inductor.cudagraph_skips`, `aot_autograd.autograd_cache_hit|miss|bypass`.
* `torch._dynamo.utils.graph_break_reasons`: list of `GraphCompileReason`, one for each graph that ended in a
  break. Three kinds are there alone and not in `counters`, with a `reason` that begins with `generic_jump` (a
  branch on a tensor's value, `if x.mean() > 0`), `step_unsupported` (a break after which torch cannot go on,
  as in a `try`) and, from Python 3.12 on, `comprehension_graph_break` (torch/_dynamo/symbolic_convert.py).
* `torch._functorch.config.enable_autograd_cache`: bool, False with TORCHINDUCTOR_AUTOGRAD_CACHE=0.
* `torch._inductor.graph.GraphLowering.save_output_code`: None, or a function that receives the
  Python source of every graph's wrapper, generated or found in the cache; its kernels are the
  strings given to `async_compile.cpp_pybinding(...)`, `async_compile.triton(...)` and their like.
* `torch._dynamo.mark_static_address(tensor)`: the tensor's memory is taken to stay in its place, so that
  CUDA graphs read it there; without it they copy each input that is not a parameter or a state.
* `torch._logging._internal.set_logs(recompiles=, graph_breaks=, output_code=)`: logs to stderr, and to the
  file that TORCH_LOGS_OUT names at that moment.
* Names of events in a `torch.profiler` profile: `TorchDynamo Cache Lookup` around the guards that
  choose a compiled frame; `Torch-Compiled Region: <compile_id>` around its run, what it calls
  included; within that `Pregraph bytecode` around what prepares the graph's inputs and
  `## Call CompiledFxGraph <hash> ##` around an inductor graph; `Optimizer.step#<class>.step` around
  an eager step; `CompiledFunction` and `CompiledFunctionBackward` around the graphs of a model and of its
  backward pass, `torch::autograd::AccumulateGrad` around what puts a gradient into `grad`. Operations are
  `aten::*` (and `prims::*` with aot_eager).
* `torch._inductor.cpp_builder.get_cpp_compiler()`: path or name of the C++ compiler, raises
  `InvalidCxxCompiler` when there is none. It looks the compiler up by running it.
* `torch.utils._triton.has_triton()`: bool, whether inductor can compile for the GPU.
* `torch.utils._python_dispatch.TorchDispatchMode`: while entered, its `__torch_dispatch__` gets every
  operation that Python or a composite operation asks for, as an `OpOverload` with its arguments; what
  that calls within is not seen. `OpOverload._schema`: `name` (`aten::mul_`), `arguments` in their order,
  each with `name`, `alias_info` (None, or with `is_write`) and `is_out`; a list of tensors has one
  `alias_info` for all. `_fused_*` say that they write into `grads`, which they do only to unscale them.
* Folders `fxgraph` and `aotautograd` of the inductor cache hold compiled graphs; all others hold
  what belongs to the machine (probes, precompiled headers) or is found through those two.
"""

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils as dynamo_utils
import torch._functorch.config as functorch_config
from torch._inductor import cpp_builder
from torch._inductor.exc import InvalidCxxCompiler
from torch._inductor.graph import GraphLowering
from torch._logging import _internal
from torch.utils import _triton
from torch.utils._python_dispatch import TorchDispatchMode

REGION = "Torch-Compiled Region: "
"""Name of a profiled run of a compiled frame, before its compile id."""

GUARDS = "TorchDynamo Cache Lookup"
"""Name of a profiled search for the compiled frame whose guards hold; in 2.11 guards on a float run
operations of their own."""

INDUCTOR_CALL = ("## Call CompiledFxGraph", "Pregraph bytecode")
"""Starts of the names of a profiled call of an inductor graph and of what prepares its inputs."""

AUTOGRAD_CALL = ("CompiledFunction", "CompiledFunctionBackward")
"""Names of a profiled call of a graph that autograd calls, of the model and of its backward pass."""

GRADIENT_KEPT = "torch::autograd::AccumulateGrad"
"""Name of a profiled call by which autograd puts a gradient into `grad`, whoever computed it."""

OPTIMIZER_STEP = "Optimizer.step#"
"""Start of the name of a profiled eager step."""


UNCOUNTED = {
    "generic_jump": "Data-dependent branching",
    "step_unsupported": "Encountered graph break that we cannot resume from",
    "comprehension_graph_break": "Graph break in a comprehension",
}
"""Graph breaks that torch leaves out of its counters: how the reason of their graph begins, and what to call
them, in torch's own words where it has some."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One attempt of Dynamo to compile one frame."""

    frame: str
    """Frame number, unique in the process."""
    attempt: int
    """0 for the first compilation of the frame, then counting recompilations."""
    function: str | None
    """Name of the frame's function."""
    operations: int
    """Operations in its graph; 0 when the frame has none."""
    failure: str | None
    """First line of why it failed; None when it did not."""
    guard: str | None
    """Guard whose failure caused the recompilation, as torch words it."""
    seconds: float
    """Compile time of the frame by torch's own count, in s."""
    cudagraph_skip: str | None = None
    """Why torch made no CUDA graph of it, where it says so."""
    backward: bool = False
    """Whether it is the backward of a graph, compiled on its own when it is first called for."""

    @property
    def id(self) -> str:
        """Return torch's own name of the compilation, `<frame>/<attempt>`."""
        return f"{self.frame}/{self.attempt}"

    @property
    def has_graph(self) -> bool:
        """Whether a graph with operations was compiled."""
        return self.failure is None and self.operations > 0

    @property
    def hit_limit(self) -> bool:
        """Whether torch refused the attempt because of its recompile limit."""
        return self.failure is not None and "recompile limit" in self.failure.lower()


@dataclass(frozen=True, slots=True)
class Counts:
    """What torch counted since the last `clear`."""

    graph_breaks: dict[str, int]
    """Number of graph breaks by the first line of their reason."""
    cudagraph_skips: int
    cache_hits: int
    cache_misses: int
    cache_bypasses: int = 0


def clear() -> None:
    """Forget all compilations and counts so far."""
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()
    dynamo_utils.graph_break_reasons.clear()


def drain() -> list[Compilation]:
    """Return the compilations since the last `drain` or `clear`, and forget them."""
    records = [r for r in dynamo_utils.get_compilation_metrics() if not r.is_runtime]
    dynamo_utils.clear_compilation_metrics()
    return [_compilation(record) for record in records if record.compile_id is not None]


def _compilation(record: dynamo_utils.CompilationMetrics) -> Compilation:
    frame, _, attempt = str(record.compile_id).rpartition("/")
    failure, backward = None, record.is_forward is False
    if record.fail_type is not None:
        failure = f"{record.fail_type}: {record.fail_reason or ''}".splitlines()[0]
    return Compilation(
        frame=frame,
        attempt=int(attempt),
        function=record.co_name,
        operations=record.graph_op_count or 0,
        failure=failure,
        guard=record.recompile_reason,
        seconds=record.entire_frame_compile_time_s or (_backward_seconds(record) if backward else 0.0),
        cudagraph_skip=record.cudagraph_skip_reason,
        backward=backward,
    )


def _backward_seconds(record: dynamo_utils.CompilationMetrics) -> float:
    return (record.backward_cumulative_compile_time_us or 0) / 1e6


def counts() -> Counts:
    """Return what torch counted since the last `clear`."""
    counters = dynamo_utils.counters
    breaks: dict[str, int] = {}
    for reason, number in counters["graph_break"].items():
        first = str(reason).splitlines()[0]
        breaks[first] = breaks.get(first, 0) + number
    for one in dynamo_utils.graph_break_reasons:
        for start, name in UNCOUNTED.items():
            if one.reason.startswith(start):
                breaks[name] = breaks.get(name, 0) + 1
    return Counts(
        graph_breaks=breaks,
        cudagraph_skips=counters["inductor"]["cudagraph_skips"],
        cache_hits=counters["aot_autograd"]["autograd_cache_hit"],
        cache_misses=counters["aot_autograd"]["autograd_cache_miss"],
        cache_bypasses=counters["aot_autograd"]["autograd_cache_bypass"],
    )


def aot_cache_is_on() -> bool:
    """Return whether torch may take a whole compiled graph from its AOTAutograd cache."""
    return bool(functorch_config.enable_autograd_cache)


@contextlib.contextmanager
def generated_code() -> Iterator[list[str]]:
    """Collect the source of every inductor graph that is compiled or found in the cache meanwhile."""
    sources: list[str] = []
    before = GraphLowering.save_output_code
    GraphLowering.save_output_code = sources.append
    try:
        yield sources
    finally:
        GraphLowering.save_output_code = before


def kernels_in(source: str) -> list[str]:
    """Return the source of each kernel in the wrapper that inductor wrote for a graph.

    The wrapper around them differs from mode to mode, and says nothing about the device's work.
    """
    return [
        argument.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "async_compile"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and "\n" in argument.value
    ]


def mark_static(tensor: torch.Tensor) -> None:
    """Tell torch's compiler that a tensor stays at its address."""
    torch._dynamo.mark_static_address(tensor)


def start_log(which: Sequence[str]) -> None:
    """Let torch log these of `spec.LOGS`, to stderr and to the file named by TORCH_LOGS_OUT."""
    switches: Any = dict.fromkeys(which, True)
    _internal.set_logs(**switches)


def cxx_compiler() -> str | None:
    """Return the C++ compiler that inductor uses, None when there is none."""
    try:
        return cpp_builder.get_cpp_compiler()
    except InvalidCxxCompiler:
        return None


def has_triton() -> bool:
    """Return whether inductor can compile for the GPU."""
    return _triton.has_triton()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation, as given."""

    value: Any
    written: bool
    """Whether the operation's schema says that it writes into it."""
    out: bool
    """Whether it is there for the result alone, as `out=` is."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation of torch."""

    name: str
    """Such as `aten::mul_`, without the overload."""
    arguments: dict[str, Argument]
    """Those that were given, by the names of the schema."""
    result: Any


class EachCall(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """While entered, hands every call of an operation to `seen`, once it is done.

    Left out are operations that change no memory but what a tensor says of itself (`resize_`, `t_`).
    """

    def __init__(self, seen: Callable[[Call], None]) -> None:
        """Take the function that gets every call."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and tell."""
        given = kwargs or {}
        result = func(*args, **given)
        if torch.Tag.inplace_view not in func.tags:
            self._seen(_call(func._schema, args, given, result))
        return result


def _call(schema: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Call:
    values = {a.name: value for a, value in zip(schema.arguments, args, strict=False)} | kwargs
    return Call(
        schema.name,
        {
            a.name: Argument(
                values[a.name], a.alias_info is not None and a.alias_info.is_write, bool(a.is_out)
            )
            for a in schema.arguments
            if a.name in values
        },
        result,
    )
