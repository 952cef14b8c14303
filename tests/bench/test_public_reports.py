"""What a row says where others reported trouble with compiled optimizers (docs/known_reports.md)."""

import copy
import time

import pytest
import torch
from torch._dynamo.exc import InternalTorchDynamoError

from src.bench import arms, child, hints, machine, parity, torch_private, trace, workload
from src.bench.followed import Followed
from src.bench.refusal import Unsupported
from tests.specs import spec

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"what is expected here was seen in torch 2.13, this is {torch.__version__}",
)

CPU = torch.device("cpu")
SMALL = ("model=tiny", "model.width=16", "device=cpu", "measure=trace", "compile=aot_eager")
TENSOR = "lr_type=cpu_tensor"
LIMIT = 7
"""Recompiles until torch's recompile limit of 8 graphs is hit."""
TENSOR_HINT = "hold it in a tensor, lr_type=cpu_tensor"


def custom(name, *overrides):
    """Return the overrides that choose one of `third_party`."""
    return ("optimizer=custom", f"optimizer._target_=tests.bench.third_party.{name}", *overrides)


def reported(*overrides):
    """Measure a run without timing it; return its columns, and the stages with what it raised."""
    torch._dynamo.reset()  # a run has a process of its own
    columns, stages = {}, []

    def report(kind, value):
        if kind == "stage":
            stages.append(value)
        elif kind == "facts":
            columns.update(value)

    try:
        child.measure(spec(*SMALL, *overrides), report)
    except Exception as error:  # what the parent process makes a row of
        return columns, stages[-1], error
    return columns, stages[-1], None


def measured(*overrides):
    """Measure a run that succeeds and return its columns."""
    columns, _, error = reported(*overrides)
    if error is not None:
        raise error
    return columns


def recorded(*overrides, before, steps=12):
    """Trace an arm in whose loop `before(step, workload)` precedes each step; return facts and workload."""
    torch._dynamo.reset()
    how = spec(*SMALL, *overrides)
    arm, recorder = arms.compiled(how, CPU, time.perf_counter), trace.Recorder()
    numbers = iter(range(steps))
    recorder.take(arm.take_step, steps, time.perf_counter, lambda: before(next(numbers), arm.workload))
    return recorder.trace().facts(), arm.workload


def counts(columns):
    """Return recompiles, whether the limit was hit, and steps that ran eager."""
    return columns["recompiles"], columns["recompile_limit_hit"], columns["eager_trace_steps"]


def step_counters(made):
    return [int(state["step"]) for state in made.optimizer.state.values()]


def assigning(values, *, tensor=False):
    """Return what assigns a learning rate by hand before each step."""

    def assign(step, made):
        value = values[step % len(values)]
        made.optimizer.param_groups[0]["lr"] = torch.tensor(value) if tensor else value

    return assign


TEN_RATES = [round(0.01 * n, 2) for n in range(1, 11)]


class TestLearningRates:
    @pytest.mark.parametrize(
        ("overrides", "expected"),
        [
            (("optimizer=adamw", "scheduler=lambda"), (1, False, 0)),
            (("optimizer=adamw", "scheduler=lambda", "optimizer.foreach=true"), (LIMIT, True, 4)),
            (("optimizer=adamw", "scheduler=lambda", TENSOR), (0, False, 0)),
            (("scheduler=linear",), (1, False, 0)),
            (("scheduler=linear", TENSOR), (0, False, 0)),
        ],
        ids=str,
    )
    def test_a_float_that_a_scheduler_changes_compiles_again(self, overrides, expected):
        """And the remedy is a tensor, as the row says (pytorch#107076, tutorials#2874, pytorch#131065)."""
        row = measured(*overrides)
        assert counts(row) == expected
        assert set(row["recompile_causes"]) <= {"lr: value changed"}
        assert (TENSOR_HINT in (row["hint"] or "")) is (expected[0] > 0)
        assert row["compiled_path"] == ("eager_fallback" if expected[1] else "compiled")
        assert row["parity"] == "passed"

    def test_a_function_that_returns_a_tensor_compiles_itself(self):
        """Its step number recompiles it, not the optimizer (pytorch#120934)."""
        row = measured("scheduler=lambda", "scheduler.function=tests.bench.third_party.decay_in_a_tensor")
        assert row["recompile_causes"] == ["step: value changed"]
        assert row["lr_trajectory"] == pytest.approx([0.01 * 0.95**n for n in range(12)])
        assert row["parity"] == "passed"

    def test_a_tensor_is_not_compiled_for_again_in_the_second_step(self):
        """The first learning rate was a guard once (pytorch#130467)."""
        row = measured("scheduler=exponential", TENSOR)
        assert (row["graphs"], row["recompiles_all_frames"]) == (1, 0)

    def test_a_plateau_keeps_the_tensor(self):
        """It put a float in its place once (pytorch#163093, pytorch#196286)."""
        row = measured("scheduler=plateau", TENSOR)
        assert counts(row) == (0, False, 0)
        assert row["lr_equal"] is True
        made = workload.build(spec(*SMALL, "scheduler=plateau", TENSOR), CPU)
        for _ in range(3):
            made.step()
        assert isinstance(made.optimizer.param_groups[0]["lr"], torch.Tensor)

    def test_a_tensor_that_becomes_a_float_is_told(self):
        """What a plateau did (pytorch#163093)."""

        def to_float(step, made):
            if step == 4:
                made.optimizer.param_groups[0]["lr"] = 0.01

        facts, _ = recorded(TENSOR, before=to_float)
        assert facts["recompile_causes"] == ["lr: type changed"]

    def test_a_new_tensor_each_step_is_no_new_graph(self):
        """Warm-up loops that replace it instead of filling it (DeepSpeed#7633, FBGEMM#3287)."""
        facts, _ = recorded(TENSOR, before=assigning(TEN_RATES, tensor=True))
        assert counts(facts) == (0, False, 0)

    @pytest.mark.parametrize(("optimizer", "expected"), [("adam", (1, False, 0)), ("sgd", (LIMIT, True, 2))])
    def test_a_float_assigned_by_hand_is_as_one_of_a_scheduler(self, optimizer, expected):
        """Adam makes it dynamic, SGD pins each value; rates 1 and 2 come twice in 12 steps."""
        facts, _ = recorded(f"optimizer={optimizer}", before=assigning(TEN_RATES))
        assert counts(facts) == expected

    def test_groups_do_not_multiply_the_count(self):
        """A group for each of six tensors (torchtitan#2859, rf-detr#1409)."""
        groups = ("model.param_groups=per_tensor", "model.depth=6", "scheduler=exponential")
        assert counts(measured(*groups)) == (1, False, 0)
        assert counts(measured(*groups, TENSOR)) == (0, False, 0)

    @pytest.mark.parametrize(("alpha", "expected"), [("false", (1, False, 0)), ("true", (LIMIT, True, 4))])
    def test_arithmetic_of_numbers_is_not_pinned_but_alpha_is(self, alpha, expected):
        """1 - 0.5 lr became dynamic (pytorch#171320, pytorch#182136); `alpha=lr` did not."""
        row = measured(
            *custom("DescentWithScalars", f"optimizer.arguments.alpha={alpha}", "scheduler=exponential")
        )
        assert counts(row) == expected
        assert set(row["recompile_causes"]) == {"lr: value changed"}

    def test_an_optimizer_that_wants_its_own_tensor_is_a_failure_with_a_stage(self):
        """As torchao's, whose learning rate must not become a float (ao#2574)."""
        assigned = ("scheduler=custom", "scheduler._target_=tests.bench.third_party.Assigned")
        columns, stage, error = reported(
            *custom("FloatRefused", *assigned, "scheduler.arguments.rates=[0.1]")
        )
        assert (stage, str(error)) == (
            "trace of the compiled arm",
            "lr was changed to a non-Tensor object",
        )
        assert columns["graphs"] == 0


class TestTrajectories:
    def test_a_later_scheduler_starts_from_the_first_learning_rate(self):
        """Not from a scaled one, also with a tensor (pytorch#162359, pytorch#195984).

        Five steps of LinearLR from a third, then 0.01 (1 + cos(pi n / 20)) / 2.
        """
        row = measured("scheduler=sequential", "scheduler@scheduler.second=cosine", TENSOR)
        cosine = [1.0, 0.9938442, 0.9755283, 0.9455033, 0.9045085, 0.8535534, 0.7938926]
        expected = [0.01 * (1 + 2 * n / 5) / 3 for n in range(5)] + [0.01 * c for c in cosine]
        assert row["lr_trajectory"] == pytest.approx(expected, rel=1e-5)
        assert (row["lr_equal"], row["parity"]) == (True, "passed")

    @pytest.mark.parametrize(
        ("scheduler", "expected"),
        [
            ("chained", [0.01 * 0.9**n / 3 for n in range(5)] + [0.01 * 0.9**n for n in range(5, 12)]),
            ("plateau", [0.01, *(0.01 * 0.1**n for n in range(6))]),
            ("cosine_restarts", [0.01, 0.008535534, 0.005, 0.001464466] * 3),
        ],
    )
    def test_the_history_does_not_change_afterwards(self, scheduler, expected):
        """torch's own history held the live tensor once (pytorch#163103)."""
        found = measured(f"scheduler={scheduler}", TENSOR)["lr_trajectory"]
        assert found[: len(expected)] == pytest.approx(expected, rel=1e-5)
        assert all(type(rate) is float for rate in found)

    def test_no_two_arms_have_one_tensor(self):
        """Stepping one scheduler would change the other arm's learning rate (tutorials#2874)."""
        first, second = (workload.build(spec(*SMALL, "scheduler=step", TENSOR), CPU) for _ in range(2))
        for _ in range(2):
            first.step()
        assert first.learning_rates()[0] == pytest.approx(0.009)
        assert second.learning_rates()[0] == pytest.approx(0.01)


class TestCycledMomentum:
    def test_betas_recompile_although_the_learning_rate_is_a_tensor(self):
        """Eight graphs, then eager (pytorch#133898); the hint names the key that helps, and it does."""
        cycle = ("optimizer=adamw", "scheduler=onecycle", TENSOR)
        row = measured(*cycle)
        assert counts(row) == (LIMIT, True, 4)
        assert row["eager_from_step"] == 8
        assert set(row["recompile_causes"]) == {"betas: value changed"}
        assert "scheduler.cycle_momentum=false" in row["hint"]
        assert TENSOR_HINT not in row["hint"]
        assert counts(measured(*cycle, "scheduler.cycle_momentum=false")) == (0, False, 0)

    def test_the_cache_is_what_makes_a_cycled_nadam_wrong(self):
        """Without code generation it is right (pytorch#195040); test_parity.py has the wrong graphs."""
        row = measured("optimizer=nadam", "scheduler=onecycle", "scheduler.total_steps=20")
        assert (row["parity"], row["compiled_path"]) == ("passed", "eager_fallback")

    @pytest.mark.parametrize("scheduler", ["cyclic", "onecycle"])
    def test_an_optimizer_without_one_is_unsupported(self, scheduler):
        """A row with a reason (pytorch#113548, pytorch#73910)."""
        _, stage, error = reported("optimizer=adagrad", f"scheduler={scheduler}")
        assert isinstance(error, Unsupported)
        assert "refuses these arguments: optimizer must support momentum or beta1" in str(error)
        assert stage == "build"

    def test_three_betas_are_cycled_in_the_first(self):
        """They were unpacked as two once (pytorch#84485)."""
        made = workload.build(spec(*SMALL, *custom("ThreeBetas"), "scheduler=onecycle"), CPU)
        assert made.optimizer.param_groups[0]["betas"] == (0.95, 0.92, 0.99)

    @pytest.mark.parametrize("overrides", [(), ("optimizer.arguments.foreach=false",)])
    def test_betas_in_tensors(self, overrides):
        """They compile (pytorch#149508)."""
        row = measured(*custom("adam_with_tensor_betas", *overrides))
        assert (row["graphs"], row["recompiles"], row["parity"]) == (1, 0, "passed")

    def test_betas_in_tensors_that_torch_refuses(self):
        """With multi-tensor kernels, told in torch's words (pytorch#149508)."""
        _, _, error = reported(*custom("adam_with_tensor_betas", "optimizer.arguments.foreach=true"))
        assert isinstance(error, ValueError)
        assert "betas[0] as a Tensor is not supported for capturable=False and foreach=True" in str(error)


class TestTheLimit:
    def test_it_turns_steps_eager_by_their_value(self):
        """Ten rates twice: eight were compiled and are still used, two are not (pytorch#135458)."""
        facts, _ = recorded("optimizer=sgd", before=assigning(TEN_RATES), steps=20)
        assert counts(facts) == (LIMIT, True, 4)
        assert facts["eager_from_step"] == 8

    def test_a_row_that_hit_it_is_never_good(self):
        """Invalid, with a warning and the reason in words (pytorch#93457)."""
        row = measured("optimizer=sgd", "scheduler=exponential")
        assert (row["verdict"], row["verdict_reason"]) == ("invalid", "fell_back_to_eager")
        assert row["warnings"] == ["fell_back_to_eager"]
        assert "runs the step eager, after checking every guard" in row["hint"]

    def test_muon_hits_it_with_a_float_alone(self):
        """Its limit was once raised for that (pytorch#194180, KellerJordan/Muon#40)."""
        assert counts(measured("optimizer=muon", "scheduler=exponential")) == (LIMIT, True, 4)
        assert counts(measured("optimizer=muon", "scheduler=exponential", TENSOR)) == (0, False, 0)

    def test_an_arm_is_compiled_once_for_all_its_steps(self, monkeypatch):
        """Compiling in every step looks like endless recompiles (ao#2500)."""
        calls, compile_as_it_is = [], torch.compile
        monkeypatch.setattr(torch, "compile", lambda *a, **k: calls.append(1) or compile_as_it_is(*a, **k))
        measured()
        assert len(calls) == 1

    def test_optimizers_of_one_class_share_it(self):
        """The ninth of ten alike runs eager (pytorch#114511): hence a process for each run."""
        made = [arms.compiled(spec(*SMALL), CPU, time.perf_counter) for _ in range(10)]
        recorder = trace.Recorder()
        steps = iter(made)
        recorder.take(lambda: next(steps).take_step(), 10, time.perf_counter)
        facts = recorder.trace().facts()
        assert (facts["graphs"], facts["eager_from_step"], facts["eager_trace_steps"]) == (8, 8, 2)
        assert set(facts["recompile_causes"]) == {"object: another one"}

    def test_a_scheduler_is_there_before_the_step_is_compiled(self):
        """The other way round it fails (torchtune#2263): torch wants the method, not a function."""
        made = workload.build(spec(*SMALL), CPU)
        made.optimizer.step = torch.compile(made.optimizer.step, backend="eager")
        with pytest.raises(AttributeError, match="__func__"):
            torch.optim.lr_scheduler.LambdaLR(made.optimizer, lambda n: 0.9**n)
        assert counts(measured("scheduler=lambda", TENSOR)) == (0, False, 0)

    def test_graph_breaks_are_counted(self):
        """Before and after the body of `step`, by torch's own wrapper (pytorch#117767)."""
        row = measured()
        assert row["graph_breaks"] == 2
        assert row["graph_break_reasons"] == ["Call to `torch._dynamo.graph_break()`"]


class TestGradients:
    def given(self, made, missing):
        """Take the gradients away from parameters for which `missing(index)` holds, give others theirs."""
        if not hasattr(self, "kept"):
            self.kept = [p.grad for p in made.parameters]
        for index, p in enumerate(made.parameters):
            p.grad = None if missing(index) else self.kept[index]

    def test_one_step_without_any_does_not_freeze_the_optimizer(self):
        """It did once (pytorch#115607, pytorch#121291): the counter stops for that step alone."""
        seen = []

        def before(step, made):
            self.given(made, lambda _: step == 3)
            seen.append(step_counters(made)[:1])

        facts, made = recorded(before=before, steps=8)
        assert seen == [[], [1], [2], [3], [3], [4], [5], [6]]
        assert step_counters(made) == [7, 7]
        assert (facts["graphs"], facts["recompiles_all_frames"]) == (1, 1)

    def test_a_layer_frozen_in_every_other_step_compiles_for_both(self):
        """With momentum three graphs: no buffers yet, one layer without gradient, both (pytorch#139476)."""

        def before(step, made):
            self.given(made, lambda index: index == 0 and step % 2 == 1)
            made.parameters[0].requires_grad_(step % 2 == 0)

        facts, _ = recorded("optimizer=sgd_momentum", before=before)
        assert (facts["graphs"], facts["recompile_limit_hit"]) == (3, False)
        assert facts["recompile_causes"] == ["state: entries added", "grad: there or not"]

    def test_new_gradients_in_every_step_are_no_new_graph(self):
        """As after zero_grad with set_to_none (pytorch#118435, pytorch#107853)."""

        def renew(_step, made):
            for p in made.parameters:
                p.grad = p.grad.clone()

        facts, _ = recorded(before=renew)
        assert counts(facts) == (0, False, 0)

    def test_without_gradients_nothing_is_compiled_and_nothing_moves(self):
        """An infinite speedup: the row would be invalid, for either reason."""
        facts, made = recorded(before=lambda _step, made: self.given(made, lambda _: True))
        assert (facts["graphs"], facts["eager_trace_steps"]) == (0, 12)
        eager = workload.build(spec(*SMALL), CPU)
        found = parity.compare(eager.parameters, *[Followed(made, rates=[(0.01,)])] * 2, None)
        assert found["parity_reason"] == "no parameter moved"

    def test_every_other_set_of_gradients_is_a_graph(self):
        """Sixteen sets of four parameters: eight graphs, then eager (pytorch#121291)."""

        def before(step, made):
            self.given(made, lambda index: index < 4 and bool(step >> index & 1))

        facts, made = recorded("model.depth=5", before=before, steps=16)
        assert counts(facts) == (LIMIT, True, 8)
        assert set(facts["recompile_causes"]) == {"grad: there or not"}
        assert step_counters(made) == [8, 8, 8, 8, 16]

    def test_layers_that_never_have_one_are_one_graph(self):
        """The same set in every step."""
        row = measured("model.depth=5", "model.frozen_layers=2", "model.layers_without_grad=2")
        assert (row["graphs"], row["recompiles"], row["parity"]) == (1, 0, "passed")

    def test_a_closure_moves_the_parameters(self):
        """Under compile it ran without gradients once (pytorch#116494, pytorch#123479)."""
        adam = ("optimizer=custom", "optimizer._target_=torch.optim.Adam", "optimizer.needs_closure=true")
        row = measured(*adam)
        assert (row["parity"], row["graphs"]) == ("passed", 1)


class TestState:
    @pytest.mark.parametrize("optimizer", ["adam", "nadam", "radam", "sgd_momentum"])
    def test_loading_a_state_compiles_once_more(self, optimizer):
        """Guards hold the objects of the state; NAdam raised once (pytorch#117150)."""

        def load(step, made):
            if step == 5:
                made.optimizer.load_state_dict(copy.deepcopy(made.optimizer.state_dict()))

        alone, _ = recorded(f"optimizer={optimizer}", before=lambda *_: None)
        loaded, _ = recorded(f"optimizer={optimizer}", before=load)
        assert loaded["graphs"] - alone["graphs"] == 1
        assert loaded["recompile_causes"][-1] == "state: another object"

    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "nadam", "radam", "adamax"])
    def test_both_arms_count_their_steps_alike(self, optimizer):
        """A compiled one counts in float32 (pytorch#173901): no difference in a trace."""
        row = measured(f"optimizer={optimizer}")
        assert row["parity_state_error"] < 1e-6
        assert row["eager_step_device"] == row["compiled_step_device"] == "cpu"

    def test_an_empty_group_is_no_matter(self):
        """Nor a recompile (pytorch#143828)."""

        def add_one(step, made):
            if step == 0:
                made.optimizer.add_param_group({"params": []})

        facts, _ = recorded(before=add_one)
        assert counts(facts) == (0, False, 0)

    def test_a_group_that_is_added_compiles_once_more(self):
        """Each time."""

        def add(step, made):
            if step in (3, 6):
                late = torch.nn.Parameter(torch.ones(4, 4))
                late.grad = torch.ones(4, 4)
                made.optimizer.add_param_group({"params": [late]})

        facts, made = recorded(before=add)
        assert counts(facts) == (2, False, 0)
        assert step_counters(made) == [12, 12, 9, 6]

    @pytest.mark.parametrize("optimizer", ["adam", "radam", "rprop"])
    def test_bias_correction_in_float32_is_within_the_tolerance(self, optimizer):
        """Eager takes powers in float64 (pytorch#88173, pytorch#176797): 3e-4 for RAdam, 2e-5 for Adam."""
        row = measured(f"optimizer={optimizer}", "measure.trace_steps=200")
        assert (row["parity"], row["trace_steps"]) == ("passed", 200)

    @pytest.mark.parametrize("dtype", ["model.dtype=bfloat16", "model.second_dtype=bfloat16"])
    @pytest.mark.parametrize("optimizer", ["adam", "nadam", "sgd_momentum"])
    def test_low_precision_is_no_failure(self, optimizer, dtype):
        """Alone, or beside float32 (pytorch#168126, pytorch#183761, nanochat#512)."""
        row = measured(f"optimizer={optimizer}", dtype)
        assert (row["parity"], row["parity_tolerance"]) == ("passed", 5e-3)

    def test_an_argument_that_needs_new_state_fails_as_torch_does(self):
        """amsgrad switched on after the start; what was compiled before stays known."""
        how = spec(*SMALL)
        arm, recorder = arms.compiled(how, CPU, time.perf_counter), trace.Recorder()
        recorder.take(arm.take_step, 4, time.perf_counter)
        arm.workload.optimizer.param_groups[0]["amsgrad"] = True
        with pytest.raises(InternalTorchDynamoError, match="max_exp_avg_sq"):
            recorder.take(arm.take_step, 1, time.perf_counter)
        facts = recorder.trace().facts()
        assert facts["graphs"] == 1
        assert "max_exp_avg_sq" in facts["failed_frame_reasons"][0]

    def test_an_argument_that_is_changed_later_compiles_once_more(self):
        """maximize, with its name as the cause."""

        def flip(step, made):
            if step == 4:
                made.optimizer.param_groups[0]["maximize"] = True

        facts, _ = recorded(before=flip)
        assert facts["recompile_causes"] == ["maximize: value changed"]

    def test_capturable_on_a_cpu_is_known_not_to_work(self):
        """The eager step raises, the compiled does not (pytorch#118018); tried again, the arm is named."""
        _, stage, error = reported("optimizer.capturable=true")
        assert (stage, type(error)) == ("prepare", Unsupported)
        columns, stage, error = reported("optimizer.capturable=true", "retest_exclusions=true")
        assert (stage, type(error)) == ("trace of the eager arm", AssertionError)
        assert columns["graphs"] == 1
        assert columns["exclusion"]


class TestWhatDoesNotCompile:
    @pytest.mark.parametrize(
        ("overrides", "hint"),
        [
            (("optimizer=lbfgs",), "torch keeps LBFGS out of torch.compile"),  # pytorch#131398
            (("optimizer=sparseadam",), "torch keeps SparseAdam out of torch.compile"),  # torchdynamo#711
            (("optimizer=adafactor",), "Adafactor calls .item()"),  # torchdynamo#1083
            (("optimizer=adafactor", "scheduler=exponential"), "Adafactor calls .item()"),
            (("optimizer.fused=true",), "A fused step is not compiled at all"),  # pytorch#121857
        ],
        ids=str,
    )
    def test_is_two_eager_arms(self, overrides, hint):
        """Nothing fails, and nothing is compiled: the row says so."""
        row = measured(*overrides)
        assert (row["compiled_path"], row["graphs"]) == ("never_compiled", 0)
        assert (row["verdict"], row["verdict_reason"]) == ("invalid", "never_compiled")
        assert row["eager_trace_steps"] == row["trace_steps"] == 12
        assert hint in row["hint"]
        assert row["parity"] == "passed"

    def test_asgd_compiles(self):
        """It did not once (torchdynamo#711)."""
        row = measured("optimizer=asgd")
        assert (row["graphs"], row["recompiles"], row["compiled_path"]) == (1, 0, "compiled")

    def test_fullgraph_is_known_not_to_work(self):
        """torch.optim breaks its own graph; tried again, torch's error and its stage."""
        _, _, error = reported("compile.fullgraph=true")
        assert isinstance(error, Unsupported)
        _, stage, error = reported("compile.fullgraph=true", "retest_exclusions=true")
        assert stage == "trace of the compiled arm"
        assert "graph_break()" in str(error)

    def test_a_lamb_of_ones_own_takes_its_second_step(self):
        """It raised once (pytorch#94392)."""
        row = measured(*custom("Lamb"))
        assert (row["graphs"], row["parity"], row["compiled_path"]) == (2, "passed", "compiled")

    def test_a_counter_in_python_is_a_cause_of_recompiles(self):
        """First state, first value, then dynamic: no recompile in every step (Advanced_Optimizers#6)."""
        row = measured(*custom("CountingDescent"))
        assert counts(row) == (2, False, 0)
        assert row["recompile_causes"][-1] == "step: value changed"

    def test_item_in_the_step_ends_the_graph(self):
        """Without code generation the numbers are right, but little is compiled (pytorch#185382)."""
        row = measured(*custom("AdamWithItem"))
        assert row["parity"] == "passed"
        assert "Tensor.item()" in row["failed_frame_reasons"][0]
        assert (row["compiled_path"], row["verdict"]) == ("eager_fallback", "invalid")


class TestTheMachine:
    def test_another_number_of_threads_compiles_again(self):
        """It is a guard (pytorch#58585, pytorch#167463): the row names it, the hint the key."""

        def threads(step, _made):
            torch.set_num_threads(1 if step < 4 else 2)

        facts, _ = recorded(before=threads)
        assert facts["recompile_causes"] == ["num_threads: changed"]
        assert "threads=N" in hints.hint(spec(*SMALL), facts)

    def test_the_first_call_is_told_apart_from_the_others(self):
        """It compiles (torchdynamo#2008, pytorch#93634): its time is that of the first call alone."""
        clock = iter(range(100))
        arm, recorder = arms.compiled(spec(*SMALL), CPU, time.perf_counter), trace.Recorder()
        recorder.take(arm.take_step, 5, lambda: float(next(clock)))
        facts = recorder.trace().facts()
        assert facts["compile_s"] == 1.0
        assert facts["compile_torch_s"] > 0
        assert facts["recompile_torch_s"] == 0

    def test_a_copied_optimizer_would_lose_its_scheduler(self):
        """So each arm is built anew: after deepcopy the scheduler still steps the first one."""
        made = workload.build(spec(*SMALL, "scheduler=step"), CPU)
        copied = copy.deepcopy(made.optimizer)
        for _ in range(2):
            made.step()
        assert copied.param_groups[0]["lr"] == 0.01
        again = workload.build(spec(*SMALL, "scheduler=step"), CPU)
        assert again.scheduler.optimizer is again.optimizer

    @pytest.mark.usefixtures("cxx_compiler")
    @pytest.mark.usefixtures("cold_cache")
    def test_cuda_graphs_are_skipped_on_a_cpu(self):
        """The mode promises what does not happen (pytorch#117281, pytorch#124506): counted, and said."""
        row = measured("compile=inductor", "compile.mode=reduce-overhead", "model.depth=1")
        assert row["cudagraph_skips"] == 1
        assert row["warnings"] == ["cpu_modes_same_code"]

    @pytest.mark.usefixtures("cxx_compiler")
    @pytest.mark.usefixtures("cold_cache")
    def test_a_stale_constant_makes_the_row_invalid(self):
        """With the issue and the switch in the hint (pytorch#195040, pytorch#194976, pytorch#197889)."""
        cycle = ("optimizer=nadam", "scheduler=onecycle", "scheduler.total_steps=20", TENSOR)
        row = measured("compile=inductor", "model.depth=1", *cycle)
        assert (row["parity"], row["verdict_reason"]) == ("failed", "parity_failed")
        assert (row["aot_cache"], "parity_failed" in row["warnings"]) == ("on", True)
        assert "TORCHINDUCTOR_AUTOGRAD_CACHE=0" in row["hint"]

    def test_a_machine_without_a_cxx_compiler_is_told_before_it_fails(self, monkeypatch):
        """In `prepare` (pytorch#92745)."""
        monkeypatch.setattr(torch_private, "cxx_compiler", lambda: None)
        monkeypatch.setattr(machine, "_compiler_version", lambda: None)  # it remembers
        _, stage, error = reported("compile=inductor")
        assert (stage, type(error)) == ("prepare", Unsupported)
        assert "set CXX or install g++" in str(error)
