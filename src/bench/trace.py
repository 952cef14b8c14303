"""The trace: the first steps of the compiled arm, with everything that torch compiles in them."""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from src.bench import path, reasons, torch_private
from src.bench.torch_private import Compilation


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened in the trace, step by step."""

    steps: tuple[tuple[Compilation, ...], ...]
    """Compilations of each step."""
    counts: torch_private.Counts
    first_call_s: float | None
    """Wall time of the first step in s, None when it raised."""
    eager_steps: tuple[int, ...] = ()
    """Steps, from 0, in which no compiled graph ran."""
    kernels: tuple[str, ...] | None = None
    """Code that inductor generated; None with another backend."""

    def compilations(self) -> list[Compilation]:
        """Return all compilations in their order."""
        return [c for step in self.steps for c in step]

    @property
    def graphs(self) -> list[Compilation]:
        """The compilations that gave a graph with operations."""
        return [c for c in self.compilations() if c.has_graph]

    def facts(self) -> dict[str, Any]:
        """Return the compile columns of the row that the trace decides.

        A recompile is a compilation after the first of a frame that has a graph with operations.
        Frames without operations (wrappers that torch.optim puts around `step`) compile as well;
        counting them too gives `recompiles_all_frames`.
        """
        compiled = self.compilations()
        failed = [c.failure for c in compiled if c.failure is not None and not c.hit_limit]
        later = [c for step in self.steps[1:] for c in step]
        return {
            "trace_steps": len(self.steps),
            "graphs": len(self.graphs),
            "graph_operations": [c.operations for c in self.graphs],
            "recompiles_all_frames": sum(
                c.attempt > 0 and c.failure is None and not c.backward for c in compiled
            ),
            "recompile_limit_hit": any(c.hit_limit for c in compiled),
            "eager_from_step": min(self.eager_steps, default=None),
            "eager_trace_steps": len(self.eager_steps),
            "failed_frames": len(failed),
            "failed_frame_reasons": sorted(set(failed)),
            "compile_s": self.first_call_s,
            "compile_torch_s": sum(c.seconds for step in self.steps[:1] for c in step),
            "recompile_torch_s": sum(c.seconds for c in later),
        } | (self._recompiles() | self._counts() | self._code())

    def _recompiles(self) -> dict[str, Any]:
        guards = [reasons.guard(c.guard) for c in recompiles(self.graphs)]
        causes = [reasons.cause(guard) for guard in guards]
        return {
            "recompiles": len(guards),
            "recompile_reasons": guards,
            "recompile_causes": causes,
            "recompile_summary": reasons.summary(causes),
        }

    def _counts(self) -> dict[str, Any]:
        skips = {c.cudagraph_skip.splitlines()[0] for c in self.compilations() if c.cudagraph_skip}
        return {
            "graph_breaks": sum(self.counts.graph_breaks.values()),
            "graph_break_reasons": sorted(self.counts.graph_breaks),
            "cudagraph_skips": self.counts.cudagraph_skips,
            "cudagraph_skip_reasons": sorted(skips),
            "cache_hits": self.counts.cache_hits,
            "cache_misses": self.counts.cache_misses,
            "cache_bypasses": self.counts.cache_bypasses,
            "aot_cache": "on" if torch_private.aot_cache_is_on() else "off",
        }

    def _code(self) -> dict[str, Any]:
        if self.kernels is None:
            return {}
        code = "\0".join(self.kernels).encode()
        return {
            "kernels": len(self.kernels),
            "code_hash": hashlib.sha256(code).hexdigest()[:12] if self.kernels else None,
        }


def recompiles(compilations: Collection[Compilation]) -> list[Compilation]:
    """Return the compilations with a graph that are not the first of their frame."""
    return [c for c in compilations if c.has_graph and c.attempt > 0]


class Recorder:
    """Takes the steps of a trace; what it has seen stays known when a step raises."""

    def __init__(self, *, inductor: bool = False) -> None:
        """Start; `inductor` says whether the backend is inductor, whose code is kept."""
        self._steps: list[tuple[Compilation, ...]] = []
        self._eager: list[int] = []
        self._first_call_s: float | None = None
        self._sources: list[str] = []
        self._inductor = inductor

    def take(
        self,
        step: Callable[[], Any],
        steps: int,
        now: Callable[[], float],
        before_step: Callable[[], None] = lambda: None,
        after_step: Callable[[Any], None] = lambda returned: None,
    ) -> None:
        """Take `steps` steps and record what is compiled in each.

        Args:
            step: the compiled step.
            steps: how many of them.
            now: clock in s.
            before_step: called before each step, outside its time.
            after_step: called after each step with what it returned, outside its time.

        A step past the recompile limit runs what was compiled for its values, or eager: which of
        the two does not show in what torch counts, so those steps are watched (`path`).
        """
        torch_private.clear()
        graphs: set[str] = set()
        limited = False
        with torch_private.generated_code() as self._sources:
            for number in range(steps):
                before_step()
                start = now()
                ran, returned = None, None
                try:
                    if limited:
                        ran = path.take(step)
                    else:
                        returned = step()
                    if number == 0:
                        self._first_call_s = now() - start
                finally:
                    new = tuple(torch_private.drain())
                    self._steps.append(new)
                graphs |= {c.id for c in new if c.has_graph}
                limited |= any(c.hit_limit for c in new)
                if not _ran_graph(new, graphs, ran):
                    self._eager.append(number)
                after_step(returned if ran is None else ran.returned)

    def trace(self) -> Trace:
        """Return what was recorded."""
        kernels = tuple(k for source in self._sources for k in torch_private.kernels_in(source))
        return Trace(
            tuple(self._steps),
            torch_private.counts(),
            self._first_call_s,
            tuple(self._eager),
            kernels if self._inductor else None,
        )


def _ran_graph(new: Collection[Compilation], graphs: Collection[str], ran: path.Path | None) -> bool:
    """Return whether a compiled graph ran in a step: what was compiled in it runs in it too."""
    if any(c.has_graph for c in new):
        return True
    if ran is not None:
        return ran.ran_graph(graphs)
    return bool(graphs) and not any(c.hit_limit for c in new)
