"""Parameters, gradients, optimizer and scheduler of an arm: alike in all arms, shared by none."""

import time

import pytest
import torch

from src.bench import arms, trace, workload
from src.bench.machine import Unsupported
from src.spec import DTYPES
from tests.specs import spec

CPU = torch.device("cpu")
NESTEROV = ("optimizer=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true")


def built(*overrides):
    """Return a small workload on the CPU."""
    return workload.build(spec("model=tiny", *overrides), CPU)


def tensors(made):
    """Return every parameter and gradient of a workload."""
    return [t for p in made.parameters for t in (p.detach(), p.grad)]


def lr_of(made):
    """Return the learning rate of the only parameter group, tensor or float."""
    return made.optimizer.param_groups[0]["lr"]


class TestShapes:
    def test_square_weights_layer_by_layer(self):
        """Three layers of width 8 are three matrices."""
        model = spec("model.width=8", "model.depth=3").model
        assert workload.shapes(model) == [(8, 8)] * 3

    def test_a_bias_follows_its_weight(self):
        """As in a stack of torch.nn.Linear."""
        model = spec("model.width=8", "model.depth=2", "model.bias=true").model
        layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
        assert workload.shapes(model) == [tuple(p.shape) for p in layers.parameters()]

    def test_the_model_of_the_tutorial(self):
        """10 x 1024 x 1024: 10,485,760 parameters in 10 tensors."""
        shapes = workload.shapes(spec("model=tutorial").model)
        assert (len(shapes), sum(a * b for a, b in shapes)) == (10, 10_485_760)


class TestBuild:
    def test_two_arms_are_equal_to_the_last_bit(self):
        """Same seed, same parameters and gradients."""
        first, second = built("model.bias=true"), built("model.bias=true")
        assert len(tensors(first)) == 8
        assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))

    def test_two_arms_share_no_memory(self):
        """Nor does an arm's parameter share any with another parameter or a gradient."""
        first, second = built("model.bias=true"), built("model.bias=true")
        pointers = [t.untyped_storage().data_ptr() for t in tensors(first) + tensors(second)]
        assert len(set(pointers)) == len(pointers)

    def test_a_step_of_one_arm_leaves_the_other_alone(self):
        """Parameters move in the arm that steps, and only there."""
        first, second, untouched = built(), built(), built()
        first.step()
        assert not any(map(torch.equal, first.parameters, untouched.parameters))
        assert all(map(torch.equal, second.parameters, untouched.parameters))

    def test_the_seed_decides(self):
        """Another seed gives other numbers everywhere."""
        pairs = zip(tensors(built("seed=0")), tensors(built("seed=1")), strict=True)
        assert not any(torch.equal(a, b) for a, b in pairs)

    def test_the_global_generator_is_not_used(self):
        """What else draws random numbers changes nothing, and is not changed."""
        torch.manual_seed(1)
        first, drawn = built(), torch.rand(1)
        torch.manual_seed(2)
        second = built()
        torch.manual_seed(1)
        assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))
        assert torch.equal(torch.rand(1), drawn)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_parameters_and_gradients_have_the_dtype(self, dtype):
        """And a step in it moves the parameters and keeps them finite."""
        made = built("optimizer=sgd", f"model.dtype={dtype}")
        before = [p.detach().clone() for p in made.parameters]
        assert {t.dtype for t in tensors(made)} == {getattr(torch, dtype)}
        made.step()
        assert not any(map(torch.equal, before, made.parameters))
        assert workload.all_finite(made.parameters)

    def test_arguments_reach_the_optimizer(self):
        """Those of the configuration; what is null is left to torch."""
        made = built("optimizer.betas=[0.8,0.99]", "optimizer.eps=1e-6", "optimizer.amsgrad=true")
        group = made.optimizer.param_groups[0]
        assert type(made.optimizer) is torch.optim.Adam
        assert (group["lr"], group["betas"], group["eps"], group["amsgrad"]) == (
            0.01,
            (0.8, 0.99),
            1e-6,
            True,
        )
        assert (group["foreach"], group["fused"]) == (None, None)

    def test_a_step_is_torchs_own(self):
        """Ten steps end where torch.optim.AdamW ends from the same start."""
        made, reference = built("optimizer=adamw"), built("optimizer=adamw")
        theirs = torch.optim.AdamW(reference.parameters, lr=0.01)
        for _ in range(10):
            made.step()
            theirs.step()
        assert all(map(torch.equal, made.parameters, reference.parameters))


class TestRefusals:
    def test_a_tensor_lr_with_multi_tensor_adam(self):
        """Torch's first line is the reason."""
        expected = "lr as a Tensor is not supported for capturable=False and foreach=True"
        with pytest.raises(Unsupported, match=f"these arguments of Adam: {expected}") as raised:
            built("lr_as_tensor=true", "optimizer.foreach=true")
        assert "\n" not in str(raised.value)

    def test_a_fused_step_of_a_dtype_that_has_none(self, monkeypatch):
        """A RuntimeError of the constructor is passed on with torch's words."""

        def refuse(*_args, **_arguments):
            raise RuntimeError("`fused=True` requires all the params to be floating point\nmore")

        monkeypatch.setattr(torch.optim, "Adam", refuse)
        with pytest.raises(Unsupported, match=r"of Adam: `fused=True` requires .* floating point$"):
            built()

    def test_a_scheduler_that_refuses(self, monkeypatch):
        """Its arguments are named as the optimizer's are."""

        def refuse(*_args, **_arguments):
            raise ValueError("Starting multiplicative factor expected to be less than 1")

        monkeypatch.setattr(torch.optim.lr_scheduler, "LinearLR", refuse)
        with pytest.raises(Unsupported, match="of LinearLR: Starting multiplicative factor"):
            built("scheduler=linear")

    def test_a_start_factor_above_one_is_refused_by_torch(self):
        """Nothing here repeats torch's own rules."""
        with pytest.raises(Unsupported, match="of LinearLR: "):
            built("scheduler=linear", "scheduler.start_factor=2.0")

    def test_running_out_of_memory_is_not_a_refusal(self, monkeypatch):
        """It is a RuntimeError to Python, but the next run with the same arguments may succeed."""

        def exhausted(*_args, **_arguments):
            raise torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(torch.optim, "Adam", exhausted)
        with pytest.raises(torch.OutOfMemoryError):
            built()


class TestLearningRate:
    def test_a_float_stays_a_float(self):
        """As in the configuration."""
        assert lr_of(built("optimizer.lr=0.5")) == 0.5
        assert type(lr_of(built())) is float

    def test_a_tensor_is_zero_dimensional_and_each_arm_has_its_own(self):
        """One arm's scheduler must not change the other arm's learning rate."""
        first, second = lr_of(built("lr_as_tensor=true")), lr_of(built("lr_as_tensor=true"))
        assert first.shape == ()
        assert first.device.type == "cpu"
        assert float(first) == pytest.approx(0.01)
        assert first is not second
        assert first.data_ptr() != second.data_ptr()

    @pytest.mark.parametrize("scheduler", ["linear", "step", "cosine"])
    def test_a_scheduler_changes_the_tensor_in_place(self, scheduler):
        """The object stays the same, its value follows the float's."""
        tensor, number = built(f"scheduler={scheduler}", "lr_as_tensor=true"), built(f"scheduler={scheduler}")
        held, values = lr_of(tensor), []
        for _ in range(8):
            tensor.step()
            number.step()
            assert lr_of(tensor) is held
            values.append((float(held), lr_of(number)))
        assert [a for a, _ in values] == pytest.approx([b for _, b in values], rel=1e-5)
        assert len(set(values)) > 3


class TestScheduler:
    def test_the_values_of_the_tutorial(self):
        """PyTorch's scheduler recipe prints these learning rates for five calls."""
        made, values = built("scheduler=linear"), []
        for _ in range(5):
            made.step()
            values.append(round(lr_of(made), 4))
        assert values == [0.0047, 0.0060, 0.0073, 0.0087, 0.0100]

    def test_without_one_the_learning_rate_stays(self):
        """Nothing is attached and nothing changes."""
        made = built()
        made.step()
        assert made.scheduler is None
        assert lr_of(made) == 0.01

    def test_it_is_attached_before_anything_is_compiled(self):
        """A scheduler wraps `step` of its optimizer; the compiled step goes through that wrapper.

        Attached afterwards, the wrapper would be a new function to torch, and every frame around
        it would compile again.
        """
        made = built("scheduler=linear")
        assert "step" in vars(made.optimizer)
        arm = arms.compiled(
            spec("model=tiny", "compile=aot_eager", "scheduler=linear"), CPU, time.perf_counter
        )
        taken = trace.take(arm.take_step, 3, time.perf_counter)
        assert "step" in vars(arm.workload.optimizer)
        assert [c.function for c in taken.compilations() if c.attempt > 0 and not c.has_graph] == []
        assert arm.workload.scheduler.last_epoch == 3


class TestNesterov:
    """Multi-tensor SGD with Nesterov momentum adds into the gradients."""

    @pytest.mark.parametrize(("steps", "expected"), [(1, 1.9e-3), (10, 5.3), (100, 2.7e35)])
    def test_left_alone_the_gradients_grow(self, steps, expected):
        """A gradient of 1e-3, seen to grow to these values by an independent program."""
        made = self.with_gradients_of(1e-3, "optimizer.foreach=true")
        for _ in range(steps):
            made.step()
        assert made.parameters[0].grad.flatten()[0].item() == pytest.approx(expected, rel=0.02)

    @pytest.mark.parametrize("implementation", ["optimizer.foreach=false", "optimizer.fused=true"])
    def test_other_implementations_leave_them(self, implementation):
        """They are what they were after ten steps."""
        made = self.with_gradients_of(1e-3, implementation)
        for _ in range(10):
            made.step()
        assert all(torch.all(p.grad == 1e-3) for p in made.parameters)

    @pytest.mark.parametrize("implementation", ["foreach=true", "foreach=false", "fused=true"])
    def test_gradients_of_zero_keep_every_value_finite_and_equal(self, implementation):
        """Built as zeros, they are zeros after 500 steps; the parameters are what they were."""
        made = built(*NESTEROV, f"optimizer.{implementation}")
        first = [p.detach().clone() for p in made.parameters]
        for _ in range(500):
            made.step()
        assert all(torch.all(p.grad == 0) for p in made.parameters)
        assert all(map(torch.equal, first, made.parameters))

    def test_other_optimizers_have_gradients(self):
        """Only a step that writes into its gradients has none to speak of."""
        made = built("optimizer=sgd", "optimizer.momentum=0.9")
        assert all(torch.all(p.grad != 0) for p in made.parameters)

    def with_gradients_of(self, value, *overrides):
        """Return a Nesterov workload whose gradients are all `value`."""
        made = built(*NESTEROV, *overrides)
        for p in made.parameters:
            p.grad.fill_(value)
        return made


class TestOtherGradients:
    @pytest.mark.parametrize("implementation", ["foreach=true", "foreach=false", "fused=true"])
    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
    def test_no_other_step_writes_into_them(self, optimizer, implementation):
        """Why only Nesterov momentum has gradients of zero."""
        momentum = ("optimizer.momentum=0.9",) if optimizer == "sgd" else ()
        made = built(f"optimizer={optimizer}", f"optimizer.{implementation}", *momentum)
        before = [p.grad.clone() for p in made.parameters]
        for _ in range(3):
            made.step()
        assert all(map(torch.equal, before, (p.grad for p in made.parameters)))


class TestAllFinite:
    @pytest.mark.parametrize(
        ("value", "expected"), [(1e30, True), (float("inf"), False), (float("nan"), False)]
    )
    def test_one_bad_element_is_enough(self, value, expected):
        """Infinite or not a number, in any parameter."""
        made = built()
        with torch.no_grad():
            made.parameters[-1][3, 5] = value
        assert workload.all_finite(made.parameters) is expected
