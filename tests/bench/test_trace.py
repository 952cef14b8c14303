"""The trace: what counts as a recompile, and why torch says it recompiled."""

import time

import pytest
import torch

from src import record
from src.bench import arms, trace
from src.bench.torch_private import Compilation, Counts
from src.bench.trace import Trace
from tests.specs import spec

CPU = torch.device("cpu")
LR_GUARD = "2/0: self.param_groups[0]['lr'] == 0.003333333333333333"


def compilation(frame="2", *, attempt=0, operations=28, failure=None, guard=None, seconds=0.25):
    """Return one attempt to compile, by default the first of the frame with the graph."""
    return Compilation(frame, attempt, "step", operations, failure, guard, seconds)


def bare(frame, attempt=0):
    """Return a compilation of a frame without operations, as torch.optim puts around `step`."""
    return compilation(frame, attempt=attempt, operations=0, seconds=0.125)


def facts(*steps, counts=None):
    """Return the facts of a trace with these compilations in its steps."""
    return Trace(tuple(tuple(s) for s in steps), counts or Counts({}, 0, 0, 0), 1.5).facts()


FIRST = (bare("0"), bare("1"), compilation(), bare("3"))
"""What the first step of a compiled optimizer compiles: one graph between three wrappers."""

REFUSED = Compilation("2", 8, None, 0, "Unsupported: Dynamo recompile limit exceeded", LR_GUARD, 0.0)
"""The attempt that torch's recompile limit turns away."""


class TestFacts:
    def test_the_first_compile_of_a_frame_is_no_recompile(self):
        """One graph, four frames, nothing compiled twice."""
        found = facts(FIRST, (), ())
        names = ("trace_steps", "graphs", "recompiles", "recompiles_all_frames", "failed_frames")
        assert [found[n] for n in names] == [3, 1, 0, 0, 0]
        assert found["recompile_reasons"] == []
        assert found["recompile_limit_hit"] is False

    def test_a_later_compile_of_the_frame_is_one(self):
        """Two graphs of one frame are one recompile, with its guard."""
        found = facts(FIRST, [compilation(attempt=1, guard=LR_GUARD)])
        assert (found["graphs"], found["recompiles"], found["recompiles_all_frames"]) == (2, 1, 1)
        assert found["recompile_reasons"] == [LR_GUARD]

    def test_graphs_of_two_frames_are_none(self):
        """A graph break that leaves two frames with operations compiles both once."""
        found = facts([compilation("2"), compilation("5")])
        assert (found["graphs"], found["recompiles"]) == (2, 0)

    def test_a_recompile_in_the_first_step_counts_too(self):
        """Whether a compile is the first is a matter of its frame, not of the step."""
        found = facts([compilation(), compilation(attempt=1, guard=LR_GUARD)])
        assert (found["graphs"], found["recompiles"]) == (2, 1)

    def test_wrappers_that_recompile_are_counted_apart(self):
        """A frame without operations adds to the recompiles of all frames only."""
        found = facts(FIRST, [bare("0", 1), bare("1", 1), compilation(attempt=1)])
        assert (found["graphs"], found["recompiles"], found["recompiles_all_frames"]) == (2, 1, 3)

    def test_a_refused_attempt_is_the_limit_and_nothing_else(self):
        """Eight graphs are seven recompiles; the ninth attempt was turned away."""
        later = [[compilation(attempt=n, guard=LR_GUARD)] for n in range(1, 8)]
        found = facts(FIRST, *later, [REFUSED], ())
        assert (found["graphs"], found["recompiles"], found["recompiles_all_frames"]) == (8, 7, 7)
        assert found["recompile_limit_hit"] is True
        assert found["failed_frames"] == 0

    def test_a_failed_frame_has_no_graph_and_is_no_recompile(self):
        """What torch could not compile runs eager, whichever attempt it was."""
        words = "Unsupported: Skip calling `torch.compiler.disable()`d function"
        found = facts([compilation(failure=words), compilation(attempt=1, failure=words)])
        names = ("graphs", "recompiles", "recompiles_all_frames", "failed_frames", "recompile_limit_hit")
        assert [found[n] for n in names] == [0, 0, 0, 2, False]

    def test_torchs_compile_time_is_split_at_the_end_of_the_first_step(self):
        """Four frames in the first step, two later ones, failed or not."""
        found = facts(FIRST, [compilation(attempt=1)], (), [compilation(attempt=2, failure="X: y")])
        assert found["compile_torch_s"] == 0.25 + 3 * 0.125
        assert found["recompile_torch_s"] == 0.5
        assert found["compile_s"] == 1.5

    def test_counts_are_passed_on(self):
        """Graph breaks are summed and their reasons named once, in order."""
        found = facts(FIRST, counts=Counts({"skipped": 2, "asked for": 1}, 3, 4, 5))
        names = ("graph_breaks", "graph_break_reasons", "cudagraph_skips", "cache_hits", "cache_misses")
        assert [found[n] for n in names] == [3, ["asked for", "skipped"], 3, 4, 5]

    def test_a_step_that_is_never_compiled_has_zeros(self):
        """Nothing happened is known, so it is no null."""
        found = facts((), ())
        assert (found["graphs"], found["recompiles"], found["compile_torch_s"]) == (0, 0, 0)

    def test_all_are_columns_of_the_row(self):
        """Names and types fit the schema, and none is null."""
        found = facts(FIRST, [compilation(attempt=1)], counts=Counts({"skipped": 2}, 3, 4, 5))
        table = record.to_table({"status": "ok"} | found)
        assert [name for name in found if table[name][0].as_py() is None] == []


class TestReason:
    @pytest.mark.parametrize(
        ("guard", "expected"),
        [
            (None, "unknown"),
            (LR_GUARD, LR_GUARD),
            (
                LR_GUARD + "       # for group in self.param_groups:  # optim/adam.py:229 in step\n"
                'User stack trace:\n  File "torch/optim/adam.py", line 229, in step\n'
                "    for group in self.param_groups:",
                LR_GUARD,
            ),
            (
                "2/1: self.param_groups[0]['lr'] == 0.004666666666666667"
                "  # (_dynamo/output_graph.py:3375 in remove_tensorify_specialized_graphargs)",
                "2/1: self.param_groups[0]['lr'] == 0.004666666666666667",
            ),
            (
                "2/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.004666666666666667"
                "  # (unknown source ___as_tensor(self.param_groups[0]['lr']).item(), please file a bug)",
                "2/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.004666666666666667",
            ),
            (
                "2/0: len(self.state[list(dict.keys(self.state))[0]]) != 0",
                "2/0: len(self.state[list(dict.keys(self.state))[0]]) != 0",
            ),
            (
                "2/1: Cache line invalidated because L['self'] got deallocated",
                "2/1: Cache line invalidated because L['self'] got deallocated",
            ),
            ("0/0: GLOBAL_STATE changed: num_threads ", "0/0: GLOBAL_STATE changed: num_threads"),
            ("\n  3/0: d['a # b'] ==  1  # x = d['a # b']", "3/0: d['a # b'] == 1"),
        ],
        ids=[
            "no guard",
            "guard alone",
            "2.13, source and stack",
            "2.13, specialized",
            "2.11",
            "state",
            "object",
            "threads",
            "spaces",
        ],
    )
    def test_the_guard_without_what_torch_adds(self, guard, expected):
        """One line, without the comment that quotes the source and the stack below it."""
        assert trace.reason(guard) == expected


class TestTake:
    def test_compilations_stay_with_their_step(self):
        """The first step compiles, the third with another constant; the second does not."""
        step, lengths = torch.compile(lambda x, how: x + len(how), backend="eager"), iter(("a", "a", "ab"))
        taken = trace.take(lambda: step(torch.ones(3), next(lengths)), 3, time.perf_counter)
        assert [len(s) for s in taken.steps] == [1, 0, 1]
        assert taken.graphs == 2
        assert len(taken.compilations()) == 2

    def test_the_first_call_is_timed_alone(self):
        """The clock is read around the first step; the others do not add to it."""
        readings = iter((10.0, 12.5, 100.0, 1000.0, 10000.0))
        assert trace.take(lambda: None, 3, lambda: next(readings)).first_call_s == 2.5

    def test_what_was_compiled_before_is_not_in_it(self):
        """Records and counts of earlier compilations are forgotten first."""

        def broken(x):
            torch._dynamo.graph_break()
            return x + 1

        torch.compile(broken, backend="eager")(torch.ones(3))
        found = trace.take(lambda: None, 1, time.perf_counter).facts()
        assert (found["graphs"], found["graph_breaks"]) == (0, 0)


class TestRealTraces:
    """Optimizers compiled without generating code: torch traces and guards as it always does."""

    def facts(self, *overrides, steps=12):
        """Return the facts of a trace on the CPU."""
        arm = arms.compiled(spec("model=tiny", "compile=aot_eager", *overrides), CPU, time.perf_counter)
        return trace.take(arm.take_step, steps, time.perf_counter).facts()

    def test_adam_compiles_once(self):
        """One graph, around it the two breaks that torch.optim asks for."""
        found = self.facts("optimizer=adam")
        assert (found["graphs"], found["recompiles"], found["graph_breaks"]) == (1, 0, 2)
        assert found["recompile_limit_hit"] is False
        assert found["compile_s"] >= found["compile_torch_s"] > 0
        assert found["recompile_torch_s"] == 0

    def test_momentum_compiles_again_when_its_buffer_is_there(self):
        """The buffer is made in the first step, which changes the length of the state."""
        found = self.facts("optimizer=sgd", "optimizer.momentum=0.9", steps=3)
        assert (found["graphs"], found["recompiles"]) == (2, 1)
        (reason,) = found["recompile_reasons"]
        assert "len(" in reason
        assert "state" in reason

    def test_a_changing_float_lr_is_the_reason(self):
        """SGD pins the learning rate in its graph; the reason names it and its value."""
        found = self.facts("optimizer=sgd", "scheduler=step", steps=4)
        (reason,) = found["recompile_reasons"]
        assert "['lr']" in reason
        assert "== 0.01" in reason
        assert "#" not in reason

    def test_more_values_than_the_limit_are_seen(self):
        """A cosine has a new value every step: eight graphs, then torch gives up."""
        found = self.facts("optimizer=sgd", "scheduler=cosine")
        assert (found["graphs"], found["recompiles"], found["recompile_limit_hit"]) == (8, 7, True)

    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
    def test_a_fused_optimizer_never_compiles(self, optimizer):
        """Torch leaves fused steps to their own kernels: no graph, and no exception either."""
        found = self.facts(f"optimizer={optimizer}", "optimizer.fused=true", steps=3)
        assert (found["graphs"], found["recompiles"], found["recompile_limit_hit"]) == (0, 0, False)
