"""The trace: the first steps of the compiled arm, with everything that torch compiles in them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from src.bench import torch_private
from src.bench.torch_private import Compilation


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened in the trace, step by step."""

    steps: tuple[tuple[Compilation, ...], ...]
    """Compilations of each step."""
    counts: torch_private.Counts
    first_call_s: float

    def compilations(self) -> list[Compilation]:
        """Return all compilations in their order."""
        return [c for step in self.steps for c in step]

    @property
    def graphs(self) -> int:
        """Number of compiled graphs with operations."""
        return sum(c.has_graph for c in self.compilations())

    def facts(self) -> dict[str, Any]:
        """Return the compile columns of the row that the trace decides.

        A recompile is a compilation after the first of a frame that has a graph with operations.
        Frames without operations (wrappers that torch.optim puts around `step`) compile as well;
        counting them too gives `recompiles_all_frames`.
        """
        compiled = self.compilations()
        graphs = [c for c in compiled if c.has_graph]
        later = [c for step in self.steps[1:] for c in step]
        return {
            "trace_steps": len(self.steps),
            "graphs": self.graphs,
            "recompiles": len(recompiles(graphs)),
            "recompile_reasons": [reason(c.guard) for c in recompiles(graphs)],
            "recompiles_all_frames": sum(c.attempt > 0 and c.failure is None for c in compiled),
            "recompile_limit_hit": any(c.hit_limit for c in compiled),
            "failed_frames": sum(c.failure is not None and not c.hit_limit for c in compiled),
            "graph_breaks": sum(self.counts.graph_breaks.values()),
            "graph_break_reasons": sorted(self.counts.graph_breaks),
            "cudagraph_skips": self.counts.cudagraph_skips,
            "cache_hits": self.counts.cache_hits,
            "cache_misses": self.counts.cache_misses,
            "compile_s": self.first_call_s,
            "compile_torch_s": sum(c.seconds for c in self.steps[0]),
            "recompile_torch_s": sum(c.seconds for c in later),
        }


def recompiles(compilations: list[Compilation]) -> list[Compilation]:
    """Return the compilations with a graph that are not the first of their frame."""
    return [c for c in compilations if c.has_graph and c.attempt > 0]


def reason(guard: str | None) -> str:
    """Return the failed guard on one line, without the comment that quotes torch's source."""
    if guard is None:
        return "unknown"
    first = guard.strip().splitlines()[0]
    return " ".join(first.partition("  #")[0].split())


def take(step: Callable[[], None], steps: int, now: Callable[[], float]) -> Trace:
    """Take `steps` steps and record what is compiled in each; `now` is a clock in s."""
    torch_private.clear()
    drained: list[tuple[Compilation, ...]] = []
    first_call_s = 0.0
    for number in range(steps):
        start = now()
        step()
        if number == 0:
            first_call_s = now() - start
        drained.append(tuple(torch_private.drain()))
    return Trace(tuple(drained), torch_private.counts(), first_call_s)
