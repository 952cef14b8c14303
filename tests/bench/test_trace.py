"""The trace: what is a recompile, which steps ran eager, what stays known of a step that raises."""

import time

import pytest
import torch
import torch._functorch.config as functorch_config

from src import record
from src.bench import arms, trace
from src.bench.torch_private import Compilation, Counts
from src.bench.trace import Recorder, Trace
from tests.specs import spec

CPU = torch.device("cpu")

needs_cxx = pytest.mark.usefixtures("cxx_compiler")

LR_GUARD = "2/0: self.param_groups[0]['lr'] == 0.003333333333333333"


def compilation(frame="2", *, attempt=0, operations=28, failure=None, guard=None, seconds=0.25):
    """Return one attempt to compile, by default the first of the frame with the graph."""
    return Compilation(frame, attempt, "step", operations, failure, guard, seconds)


def bare(frame, attempt=0):
    """Return a compilation of a frame without operations, as torch.optim puts around `step`."""
    return compilation(frame, attempt=attempt, operations=0, seconds=0.125)


def facts(*steps, counts=None, **others):
    """Return the facts of a trace with these compilations in its steps."""
    return Trace(tuple(tuple(s) for s in steps), counts or Counts({}, 0, 0, 0), 1.5, **others).facts()


def recorded(step, steps, **how):
    """Return the trace of `steps` steps."""
    recorder = Recorder()
    recorder.take(step, steps, how.pop("now", time.perf_counter), **how)
    return recorder.trace()


def broken(x):
    """Return a sum with a graph break in it."""
    torch._dynamo.graph_break()
    return x + 1


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
        assert found["recompile_causes"] == ["lr: value changed"]
        assert found["recompile_summary"] == "1 recompile: 1 x lr: value changed"

    def test_graphs_of_two_frames_are_none(self):
        """A graph break that leaves two frames with operations compiles both once."""
        found = facts([compilation("2"), compilation("5", operations=3)])
        assert (found["graphs"], found["recompiles"]) == (2, 0)
        assert found["graph_operations"] == [28, 3]
        assert found["recompile_summary"] is None

    def test_a_recompile_in_the_first_step_counts_too(self):
        """Whether a compile is the first is a matter of its frame, not of the step."""
        found = facts([compilation(), compilation(attempt=1, guard=LR_GUARD)])
        assert (found["graphs"], found["recompiles"]) == (2, 1)

    def test_wrappers_that_recompile_are_counted_apart(self):
        """A frame without operations adds to the recompiles of all frames only."""
        found = facts(FIRST, [bare("0", 1), bare("1", 1), compilation(attempt=1)])
        assert (found["graphs"], found["recompiles"], found["recompiles_all_frames"]) == (2, 1, 3)

    def test_a_backward_is_compile_time_and_no_recompile(self):
        """The graph of a recompile has one, which torch tells apart."""
        backward = Compilation("2", 1, None, 0, None, None, 0.25, backward=True)
        found = facts(FIRST, [compilation(attempt=1), backward])
        assert (found["graphs"], found["recompiles"], found["recompiles_all_frames"]) == (2, 1, 1)
        assert found["recompile_torch_s"] == 0.25 + 0.25

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
        assert found["failed_frame_reasons"] == [words]

    def test_the_reasons_of_failures_are_named_once_and_without_the_limit(self):
        """In order; the limit has a column of its own."""
        found = facts([compilation(failure="B: two"), compilation("5", failure="A: one")], [REFUSED])
        assert found["failed_frames"] == 2
        assert found["failed_frame_reasons"] == ["A: one", "B: two"]

    def test_the_first_eager_step_is_told(self):
        """Past the limit, or from the start where nothing is ever compiled."""
        limited = facts(FIRST, [REFUSED], (), eager_steps=(1, 2))
        assert (limited["eager_from_step"], limited["eager_trace_steps"]) == (1, 2)
        never = facts((), (), eager_steps=(0, 1))
        assert (never["eager_from_step"], never["eager_trace_steps"]) == (0, 2)

    def test_a_limit_that_every_step_survives_has_no_eager_step(self):
        """A wrapper was refused, the graph still ran."""
        found = facts(FIRST, [REFUSED])
        assert (found["recompile_limit_hit"], found["eager_from_step"]) == (True, None)

    def test_torchs_compile_time_is_split_at_the_end_of_the_first_step(self):
        """Four frames in the first step, two later ones, failed or not."""
        found = facts(FIRST, [compilation(attempt=1)], (), [compilation(attempt=2, failure="X: y")])
        assert found["compile_torch_s"] == 0.25 + 3 * 0.125
        assert found["recompile_torch_s"] == 0.5
        assert found["compile_s"] == 1.5

    def test_counts_are_passed_on(self):
        """Graph breaks are summed and their reasons named once, in order."""
        found = facts(FIRST, counts=Counts({"skipped": 2, "asked for": 1}, 3, 4, 5, 6))
        assert (found["graph_breaks"], found["graph_break_reasons"]) == (3, ["asked for", "skipped"])
        names = ("cudagraph_skips", "cache_hits", "cache_misses", "cache_bypasses")
        assert [found[n] for n in names] == [3, 4, 5, 6]

    def test_reasons_of_skipped_cuda_graphs_are_named_once(self):
        """The first line of each, in order, where torch gives one."""
        skips = ("mutated inputs\nand more", "cpu device (lr)", "mutated inputs", None)
        found = facts([Compilation(str(n), 0, "step", 1, None, None, 0.1, s) for n, s in enumerate(skips)])
        assert found["cudagraph_skip_reasons"] == ["cpu device (lr)", "mutated inputs"]

    @pytest.mark.parametrize(("on", "expected"), [(True, "on"), (False, "off")])
    def test_the_aot_cache_is_told(self, on, expected):
        """Without it, its counts are zero for another reason."""
        with functorch_config.patch(enable_autograd_cache=on):
            assert facts(FIRST)["aot_cache"] == expected

    def test_kernels_have_a_hash(self):
        """The first 12 digits of what `printf 'one\\0two' | sha256sum` prints."""
        found = facts(FIRST, kernels=("one", "two"))
        assert (found["kernels"], found["code_hash"]) == (2, "a0ef70c43442")

    def test_other_backends_have_no_kernels(self):
        """Null, as nothing was looked for."""
        assert facts(FIRST).keys().isdisjoint({"kernels", "code_hash"})

    def test_no_kernel_has_no_hash(self):
        """Inductor wrote none: that is known, but there is nothing to compare."""
        found = facts(FIRST, kernels=())
        assert (found["kernels"], found["code_hash"]) == (0, None)

    def test_a_step_that_is_never_compiled_has_zeros(self):
        """Nothing happened is known, so it is no null."""
        found = facts((), ())
        assert (found["graphs"], found["recompiles"], found["compile_torch_s"]) == (0, 0, 0)

    def test_all_are_columns_of_the_row(self):
        """Names and types fit the schema, and none is null but the first eager step."""
        counts = Counts({"skipped": 2}, 3, 4, 5)
        found = facts(FIRST, [compilation(attempt=1)], counts=counts, kernels=("one",))
        table = record.to_table({"status": "ok"} | found)
        assert [name for name in found if table[name][0].as_py() is None] == ["eager_from_step"]


class TestRecorder:
    def test_compilations_stay_with_their_step(self):
        """The first step compiles, the third with another constant; the second does not."""
        step, lengths = torch.compile(lambda x, how: x + len(how), backend="eager"), iter(("a", "a", "ab"))
        taken = recorded(lambda: step(torch.ones(3), next(lengths)), 3)
        assert [len(s) for s in taken.steps] == [1, 0, 1]
        assert [c.attempt for c in taken.graphs] == [0, 1]
        assert len(taken.compilations()) == 2

    def test_the_first_call_is_timed_alone(self):
        """The clock is read around the first step; the others do not add to it."""
        readings = iter((10.0, 12.5, 100.0, 1000.0, 10000.0))
        assert recorded(lambda: None, 3, now=lambda: next(readings)).first_call_s == 2.5

    def test_what_precedes_a_step_is_outside_its_time(self):
        """Called before each step, before the clock is read."""
        log = []
        readings = iter((1.0, 2.0, 3.0))

        def now():
            log.append("clock")
            return next(readings)

        recorded(lambda: log.append("step"), 2, now=now, before_step=lambda: log.append("before"))
        assert log[:4] == ["before", "clock", "step", "clock"]
        assert [what for what in log if what != "clock"] == ["before", "step"] * 2

    def test_what_was_compiled_before_is_not_in_it(self):
        """Records and counts of earlier compilations are forgotten first."""
        torch.compile(broken, backend="eager")(torch.ones(3))
        found = recorded(lambda: None, 1).facts()
        assert (found["graphs"], found["graph_breaks"]) == (0, 0)

    @needs_cxx
    def test_inductors_code_is_kept(self, cold_cache):
        """One kernel for one addition, with a hash."""
        step, x = torch.compile(lambda x: x + 1), torch.ones(3)
        recorder = Recorder(inductor=True)
        recorder.take(lambda: step(x), 2, time.perf_counter)
        found = recorder.trace().facts()
        assert found["kernels"] == 1
        assert len(found["code_hash"]) == 12


class TestAStepThatRaises:
    def recorder(self, raises_at):
        """Return a recorder after a trace whose step `raises_at` raised after it compiled."""
        step, number = torch.compile(broken, backend="eager"), iter(range(10))
        recorder = Recorder()

        def raising():
            step(torch.ones(3))
            if next(number) == raises_at:
                raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            recorder.take(raising, 5, time.perf_counter)
        return recorder

    def test_in_the_middle_leaves_what_was_seen(self):
        """Compilations, counts and the time of the first step; the step that raised is one of them."""
        found = self.recorder(2).trace().facts()
        assert (found["trace_steps"], found["graphs"], found["graph_breaks"]) == (3, 1, 1)
        assert found["compile_s"] > 0

    def test_at_once_leaves_its_compilations(self):
        """There is no time of a step that was not taken."""
        found = self.recorder(0).trace().facts()
        assert (found["trace_steps"], found["graphs"], found["compile_s"]) == (1, 1, None)

    def test_leaves_a_row(self):
        """Of the right types."""
        record.to_table({"status": "failed"} | self.recorder(0).trace().facts())


class TestEagerSteps:
    def of_sgd(self, rates, backend="aot_eager"):
        """Return the trace of SGD with these learning rates, floats that are set by hand."""
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        optimizer = torch.optim.SGD([parameter], lr=1.0)
        coming = iter(rates)
        step = torch.compile(optimizer.step, backend=backend)
        return recorded(
            step, len(rates), before_step=lambda: optimizer.param_groups[0].update(lr=next(coming))
        )

    def test_a_step_that_stays_compiled_has_none(self):
        """One graph for all steps."""
        assert self.of_sgd([0.1] * 4).eager_steps == ()

    def test_a_step_that_is_never_compiled_has_them_all(self):
        """From the start."""
        assert recorded(lambda: torch.ones(3) + 1, 3).eager_steps == (0, 1, 2)

    def test_past_the_limit_ever_new_values_run_eager(self):
        """Eight values have a graph, the ninth and all that follow have none."""
        assert self.of_sgd([0.1 * n for n in range(1, 13)]).eager_steps == (8, 9, 10, 11)

    def test_past_the_limit_old_values_run_their_graphs(self):
        """Ten values twice: the two that came too late are eager both times, the others never.

        That torch still uses what it compiled before its limit is pytorch#135458.
        """
        taken = self.of_sgd([0.1 * n for n in range(1, 11)] * 2)
        assert taken.eager_steps == (8, 9, 18, 19)
        assert [sum(c.has_graph for c in step) for step in taken.steps] == [1] * 8 + [0] * 12
        found = taken.facts()
        assert (found["recompile_limit_hit"], found["eager_from_step"]) == (True, 8)
        assert found["eager_trace_steps"] == 4


class TestRecompiles:
    def test_they_are_later_graphs_of_a_frame(self):
        """Neither the first, nor one without operations, nor one that failed."""
        again = compilation(attempt=1)
        failed = compilation(attempt=2, failure="X: y")
        assert trace.recompiles([compilation(), bare("0", 1), again, failed]) == [again]


class TestRealTraces:
    """Optimizers compiled without generating code: torch traces and guards as it always does."""

    def facts(self, *overrides, steps=12):
        """Return the facts of a trace on the CPU."""
        arm = arms.compiled(spec("model=tiny", "compile=aot_eager", *overrides), CPU, time.perf_counter)
        return recorded(arm.take_step, steps).facts()

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
