"""A whole run in this process: stages, facts as they become known, and the verdict."""

import pytest
import torch

from src import record
from src.bench import child, torch_private
from src.bench.machine import Unsupported
from tests.specs import spec

QUICK = (
    "model=tiny",
    "compile=aot_eager",
    "device=cpu",
    "measure=quick",
    "measure.warm_up_steps=20",
    "measure.warm_up_seconds=60",
    "measure.min_block_seconds=0.001",
    "measure.min_rounds=6",
    "measure.max_seconds=60",
    "measure.target_relative_width=1000",
)
"""Six rounds of short blocks: any interval is narrow enough."""

STAGES = ["prepare", "build", "trace", "warm-up", "time"]
COMPILE_COLUMNS = [column.name for column in record._COMPILE]


class Reported:
    """Takes what a run reports, as the parent process does."""

    def __init__(self):
        self.stages = []
        self.facts = {}

    def __call__(self, kind, value):
        """Take a stage or facts."""
        if kind == "stage":
            self.stages.append(value)
        else:
            assert kind == "facts"
            self.facts |= value

    def row(self):
        """Return the columns as the row would have them, nulls as None."""
        (row,) = record.to_table({"status": "ok"} | self.facts).to_pylist()
        return row


def measured(*overrides):
    """Measure a run and return what it reported."""
    reported = Reported()
    child.measure(spec(*QUICK, *overrides), reported)
    return reported


@pytest.fixture(scope="module")
def run():
    """Measure one run for all tests that only look at it."""
    torch._dynamo.reset()
    return measured()


class TestARun:
    def test_its_stages_come_in_order(self, run):
        """Each is named before it begins."""
        assert run.stages == STAGES

    def test_its_facts_fit_the_row(self, run):
        """Every column exists and has the right type."""
        row = run.row()
        assert (row["device"], row["parameters"], row["tensors"]) == ("cpu", 8192, 2)

    def test_both_arms_have_their_times(self, run):
        """One block a round, and medians of them."""
        row = run.row()
        assert row["rounds"] == 6
        assert len(row["eager_block_us"]) == len(row["compiled_block_us"]) == row["rounds"]
        assert row["eager_us_low"] <= row["eager_us"] <= row["eager_us_high"]
        assert row["compiled_us_low"] <= row["compiled_us"] <= row["compiled_us_high"]
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
        assert row["eager_after_compile_us"] is None

    def test_it_compiled_once_and_not_again(self, run):
        """Adam without a scheduler: one graph, in the trace."""
        row = run.row()
        names = ("graphs", "recompiles", "recompiles_warm_up", "recompiles_timing", "recompile_limit_hit")
        assert [row[n] for n in names] == [1, 0, 0, 0, False]
        assert row["trace_steps"] == 12
        assert row["compile_s"] >= row["compile_torch_s"] > 0

    def test_its_verdict_stands(self, run):
        """Whatever the machine was up to, there is a compiled step to compare."""
        row = run.row()
        assert row["verdict"] in record.VERDICTS
        assert row["verdict_reason"] is None
        assert set(row["warnings"]) <= {"noisy", "drift", "foreign_load"}
        assert row["gate"] is None

    def test_its_arms_were_warm(self, run):
        """The trace and 20 steps at least before the first block."""
        assert run.row()["timed_from_step"] >= 32


class TestFailures:
    def test_what_was_known_before_a_failure_stays(self, monkeypatch):
        """A run that dies while it is timed has its compile facts and its machine."""

        def die(*_args):
            raise RuntimeError("boom")

        monkeypatch.setattr(child, "time_arms", die)
        reported = Reported()
        with pytest.raises(RuntimeError, match="boom"):
            child.measure(spec(*QUICK), reported)
        row = reported.row()
        assert reported.stages == STAGES
        assert (row["graphs"], row["recompiles_warm_up"], row["parameters"]) == (1, 0, 8192)
        assert row["torch_version"] == str(torch.__version__)
        assert (row["recompiles_timing"], row["verdict"], row["eager_us"]) == (None, None, None)

    def test_what_torch_raises_in_the_first_step_is_passed_on(self, monkeypatch):
        """The run ends in the trace; the machine is known, and nothing is said about compiling."""

        def step(_optimizer):
            raise AssertionError("no step today")

        monkeypatch.setattr(torch.optim.Adam, "step", step)
        reported = Reported()
        with pytest.raises(AssertionError, match="no step today"):
            child.measure(spec(*QUICK, "compile=none"), reported)
        assert reported.stages[-1] == "trace"
        assert reported.row()["parameters"] == 8192
        assert reported.row()["graphs"] is None

    def test_an_unsupported_run_knows_its_machine(self):
        """It ends before anything is built."""
        reported = Reported()
        overrides = ("model.width=1000000000", "model.depth=1000000")
        with pytest.raises(Unsupported, match="parameters and gradients of 2 arms need"):
            child.measure(spec(*QUICK, *overrides), reported)
        assert reported.stages == ["prepare"]
        assert reported.row()["cpu"]
        assert reported.row()["parameters"] is None

    def test_what_torch_refuses_is_unsupported(self):
        """Multi-tensor Adam with a tensor as learning rate, on the CPU."""
        reported = Reported()
        with pytest.raises(Unsupported, match="torch refuses these arguments of Adam"):
            child.measure(spec(*QUICK, "optimizer.foreach=true", "lr_as_tensor=true"), reported)
        assert reported.stages == ["prepare", "build"]


class TestArms:
    def test_the_published_order_is_an_arm_of_its_own(self):
        """With times of its own, in the same rounds; its compilations are nobody else's."""
        run = measured("measure.arms=[eager,compiled,eager_after_compile]")
        row = run.row()
        assert len(row["eager_after_compile_block_us"]) == row["rounds"]
        assert row["eager_after_compile_us"] > 0
        names = ("graphs", "recompiles", "recompiles_warm_up", "recompiles_timing", "verdict_reason")
        assert [row[n] for n in names] == [1, 0, 0, 0, None]

    def test_the_order_of_the_arms_is_the_users(self):
        """And does not change which one is the baseline."""
        row = measured("measure.arms=[compiled,eager]").row()
        ratio = [e / c for e, c in zip(row["eager_block_us"], row["compiled_block_us"], strict=True)]
        assert min(ratio) <= row["speedup"] <= max(ratio)

    def test_without_compiling_there_are_no_compile_columns(self):
        """Two eager arms: null, not 0, and no verdict about compiling."""
        run = measured("compile=none")
        assert [name for name in COMPILE_COLUMNS if run.row()[name] is not None] == []
        assert run.row()["verdict_reason"] is None
        assert torch_private.drain() == []


class TestVerdict:
    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
    def test_a_fused_optimizer_is_never_compiled(self, optimizer):
        """Two eager arms in disguise: invalid, however fast."""
        row = measured(f"optimizer={optimizer}", "optimizer.fused=true").row()
        assert (row["verdict"], row["verdict_reason"]) == ("invalid", "never_compiled")
        assert (row["graphs"], row["recompiles"]) == (0, 0)
        assert "never_compiled" in row["warnings"]
        assert row["speedup"] > 0

    def test_too_many_learning_rates_fall_back_to_eager(self):
        """SGD pins a float, a cosine has a new one every step: eight graphs, then eager steps."""
        row = measured("optimizer=sgd", "scheduler=cosine").row()
        assert (row["verdict"], row["verdict_reason"]) == ("invalid", "fell_back_to_eager")
        assert (row["graphs"], row["recompiles"], row["recompile_limit_hit"]) == (8, 7, True)

    def test_the_same_learning_rates_in_a_tensor_do_not(self):
        """The remedy that torch's documentation gives."""
        row = measured("optimizer=sgd", "scheduler=cosine", "lr_as_tensor=true").row()
        assert row["verdict_reason"] is None
        assert (row["graphs"], row["recompiles"], row["recompile_limit_hit"]) == (1, 0, False)

    def test_the_limit_is_seen_after_the_trace_too(self):
        """Five steps of trace see five graphs; the warm-up goes over the limit."""
        row = measured("optimizer=sgd", "scheduler=cosine", "measure.trace_steps=5").row()
        assert (row["graphs"], row["recompiles"], row["recompiles_warm_up"]) == (5, 4, 3)
        assert (row["recompile_limit_hit"], row["verdict_reason"]) == (True, "fell_back_to_eager")

    def test_an_arm_that_still_compiles_is_recompiling(self):
        """One compiling block is all that is allowed, and momentum compiles in the second step."""
        how = ("optimizer=sgd", "optimizer.momentum=0.9", "measure.trace_steps=1")
        row = measured(*how, "measure.max_compiling_blocks=1").row()
        assert (row["verdict"], row["verdict_reason"]) == ("invalid", "recompiling")
        assert row["recompiles_warm_up"] == 1

    def test_a_compilation_while_timing_is_told(self, monkeypatch):
        """Something compiles behind the timing's back: the number stands, with a warning."""
        time_arms = child.time_arms

        def meanwhile(*args):
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
            return time_arms(*args)

        monkeypatch.setattr(child, "time_arms", meanwhile)
        row = measured().row()
        assert row["recompiles_timing"] == 1
        assert "recompiled_while_timing" in row["warnings"]
        assert row["verdict_reason"] is None

    def test_parameters_that_overflow_are_told(self):
        """A learning rate beyond reason."""
        assert "non_finite_parameters" in measured("optimizer=sgd", "optimizer.lr=1e38").row()["warnings"]

    def test_one_arm_that_overflows_is_enough(self, monkeypatch):
        """The first is finite, the second is not."""
        answers = iter([True, False])
        monkeypatch.setattr(child.workload, "all_finite", lambda _parameters: next(answers))
        assert "non_finite_parameters" in measured().row()["warnings"]

    def test_too_little_time_to_warm_up_is_told(self):
        """A million steps asked for, a hundredth of a second given."""
        row = measured("measure.warm_up_steps=1000000", "measure.warm_up_seconds=0.01").row()
        assert "early_steps" in row["warnings"]

    @pytest.mark.parametrize(("min_speedup", "gate"), [(1e-6, "passed"), (1e6, "failed")])
    def test_the_gate_is_answered(self, min_speedup, gate):
        """A demand that any step meets, and one that none does."""
        assert measured(f"gate.min_speedup={min_speedup}").row()["gate"] == gate


class TestThreads:
    @pytest.mark.parametrize("threads", [1, 2])
    def test_they_are_set_for_the_whole_run(self, threads):
        """Known to the row, and no guard of a compiled frame fails because of them."""
        row = measured(f"threads={threads}").row()
        assert row["threads"] == threads == torch.get_num_threads()
        assert (row["recompiles_warm_up"], row["recompiles_timing"]) == (0, 0)
