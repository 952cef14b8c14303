"""The optimizer of an arm: torch's own, with the arguments of the configuration, or a user's class."""

import pytest
import torch

from src.bench import optimizer, parameters, workload
from src.bench.refusal import Unsupported
from src.optimizers import OPTIMIZERS
from src.rules import SpecError
from tests.bench import third_party
from tests.needed import needed_module
from tests.specs import spec

CPU = torch.device("cpu")
TORCHS = [name for name in OPTIMIZERS if name != "custom"]
SIGN = ("optimizer=custom", "optimizer._target_=tests.bench.third_party.SignDescent")


def made(*overrides, reference=False):
    how = spec("model=tiny", "model.width=8", *overrides)
    return optimizer.make(how, parameters.make(how, CPU), reference=reference)


class TestEveryOptimizer:
    @pytest.mark.parametrize("lr_type", ["float", "cpu_tensor"])
    @pytest.mark.parametrize("name", TORCHS)
    def test_steps(self, name, lr_type):
        """Three steps as configured by default move every parameter and keep it finite."""
        built = workload.build(
            spec("model=tiny", "model.width=8", f"optimizer={name}", f"lr_type={lr_type}"), CPU
        )
        before = [p.detach().clone() for p in built.parameters]
        for _ in range(3):
            built.step()
        assert type(built.optimizer).__name__ == OPTIMIZERS[name].torch_class
        assert not any(map(torch.equal, before, built.parameters))
        assert workload.all_finite(built.parameters)

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    @pytest.mark.parametrize("name", ["adam", "sgd_momentum", "muon", "adafactor"])
    def test_steps_in_low_precision(self, name, dtype):
        """State and parameters stay what they are; only eps of Adam is too small for float16."""
        eps = ("optimizer.eps=1e-4",) if name == "adam" else ()
        how = ("model=tiny", "model.width=8", f"optimizer={name}", f"model.dtype={dtype}", *eps)
        built = workload.build(spec(*how, "optimizer.lr=0.1"), CPU)
        before = [p.detach().clone() for p in built.parameters]
        for _ in range(3):
            built.step()
        assert {p.dtype for p in built.parameters} == {getattr(torch, dtype)}
        assert not any(map(torch.equal, before, built.parameters))
        assert workload.all_finite(built.parameters)

    def test_steps_parameters_of_two_dtypes(self):
        """Float32 and bfloat16 side by side."""
        built = workload.build(spec("model=tiny", "model.width=8", "model.second_dtype=bfloat16"), CPU)
        before = [p.detach().clone() for p in built.parameters]
        built.step()
        assert [p.dtype for p in built.parameters] == [torch.float32, torch.bfloat16]
        assert not any(map(torch.equal, before, built.parameters))


class TestArguments:
    def test_reach_the_optimizer(self):
        """Those of the configuration; what is null is left to torch."""
        found = made("optimizer.betas=[0.8,0.99]", "optimizer.eps=1e-6", "optimizer.amsgrad=true")
        group = found.param_groups[0]
        assert type(found) is torch.optim.Adam
        assert (group["betas"], group["eps"], group["amsgrad"]) == ((0.8, 0.99), 1e-6, True)
        assert (group["foreach"], group["fused"]) == (None, None)

    def test_each_arm_has_its_own_learning_rate_tensor(self):
        """Of no dimension: one arm's scheduler must not change the other arm's learning rate."""
        first, second = (made("lr_type=cpu_tensor").param_groups[0]["lr"] for _ in range(2))
        assert (first.shape, first.device.type) == ((), "cpu")
        assert first.item() == pytest.approx(0.01)
        assert first is not second
        assert first.data_ptr() != second.data_ptr()

    @pytest.mark.parametrize("lr", ["1", "1.0"])
    def test_a_learning_rate_without_a_point_is_a_float_too(self, lr):
        """An int would compile otherwise: torch makes another graph for it."""
        assert type(made(f"optimizer.lr={lr}").param_groups[0]["lr"]) is float

    def test_what_torch_refuses_is_unsupported(self):
        """In its own words, on one line."""
        expected = "^Adam refuses these arguments: lr as a Tensor is not supported for capturable=False and"
        with pytest.raises(Unsupported, match=expected) as raised:
            made("lr_type=cpu_tensor", "optimizer.foreach=true")
        assert "\n" not in str(raised.value)


class TestReference:
    @pytest.mark.parametrize(
        "overrides",
        [("optimizer.foreach=true",), ("optimizer.fused=true",), ("optimizer.capturable=true",), ()],
        ids=str,
    )
    def test_is_the_plain_loop(self, overrides):
        """Whatever implementation the arms use."""
        group = made(*overrides, reference=True).param_groups[0]
        assert (group["foreach"], group["fused"], group["capturable"]) == (False, None, False)

    def test_has_a_number_as_learning_rate(self):
        """A tensor of float32 would round it."""
        found = made("lr_type=cpu_tensor", "optimizer.foreach=true", "optimizer.lr=0.3", reference=True)
        assert found.param_groups[0]["lr"] == 0.3

    def test_keeps_every_other_argument(self):
        """It is the same optimizer."""
        group = made("optimizer.betas=[0.8,0.99]", "optimizer.maximize=true", reference=True).param_groups[0]
        assert (group["betas"], group["maximize"]) == ((0.8, 0.99), True)


class TestCustom:
    def test_a_class_of_the_users_own(self):
        """Two steps by hand: 1 x 0.95 - 0.1 = 0.85, and 0.85 x 0.95 - 0.1 = 0.7075."""
        how = spec(*SIGN, "optimizer.lr=0.1", "optimizer.arguments.weight_decay=0.5")
        parameter = torch.nn.Parameter(torch.ones(2, 2))
        parameter.grad = torch.full((2, 2), 0.25)
        found = optimizer.make(how, [parameter])
        assert type(found) is third_party.SignDescent
        found.step()
        found.step()
        assert parameter.flatten().tolist() == pytest.approx([0.7075] * 4)

    def test_it_gets_the_learning_rate_as_asked_for(self):
        """A tensor of its own, or a float; the reference has a float."""
        assert isinstance(made(*SIGN, "lr_type=cpu_tensor").param_groups[0]["lr"], torch.Tensor)
        assert made(*SIGN, "lr_type=cpu_tensor", reference=True).param_groups[0]["lr"] == 0.01

    def test_a_function_that_returns_an_optimizer(self):
        """Anything that is called with the parameters and `lr`."""
        target = "optimizer._target_=tests.bench.third_party.adam_with_tensor_betas"
        found = made("optimizer=custom", target, "optimizer.arguments.eps=0.5")
        assert type(found) is torch.optim.Adam
        assert found.param_groups[0]["eps"] == 0.5

    def test_an_argument_that_the_class_lacks_is_its_own_error(self):
        """A mistake of the user, told with the traceback of the class."""
        with pytest.raises(TypeError, match="beta"):
            made(*SIGN, "optimizer.arguments.beta=0.5")

    def test_a_class_that_is_not_there(self):
        """The dotted key is told."""
        with pytest.raises(SpecError, match=r"^optimizer\._target_ must name what is in its module: "):
            made("optimizer=custom", "optimizer._target_=tests.bench.third_party.Adan")

    def test_a_package_of_the_index(self):
        """Lion as it is published: a first step by hand, p x (1 - lr x wd) - lr x sign(grad)."""
        needed_module("lion_pytorch")
        how = spec(
            "optimizer=custom",
            "optimizer._target_=lion_pytorch.Lion",
            "optimizer.lr=0.1",
            "optimizer.arguments={betas:[0.9,0.99],weight_decay:0.5}",
        )
        parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        parameter.grad = torch.tensor([0.3, 0.4])
        optimizer.make(how, [parameter]).step()
        assert parameter.tolist() == pytest.approx([0.85, -2.0])


class TestClosure:
    def test_its_loss_has_the_given_gradients(self):
        """The slope along any direction is the gradient's; a linear loss has it at any distance."""
        torch.manual_seed(0)
        tensors = [torch.nn.Parameter(torch.randn(3, 3, dtype=torch.float64)) for _ in range(2)]
        given = [torch.randn(3, 3, dtype=torch.float64) for _ in tensors]
        for p, g in zip(tensors, given, strict=True):
            p.grad = g.clone()
        loss = optimizer.closure(tensors)
        for tensor, gradient in zip(tensors, given, strict=True):
            for element in range(9):
                start = loss()
                with torch.no_grad():
                    tensor.view(-1)[element] += 0.5
                assert ((loss() - start) / 0.5).item() == pytest.approx(gradient.view(-1)[element].item())

    def test_it_is_the_loss_that_autograd_derives_them_from(self):
        """A backward of the sum of p x g gives g, and the closure leaves the gradients there."""
        p, g = torch.nn.Parameter(torch.tensor([1.0, 2.0])), torch.tensor([3.0, -4.0])
        by_hand = (p * g).sum()
        by_hand.backward()
        assert optimizer.closure([p])().item() == by_hand.item() == -5.0
        assert p.grad.tolist() == [3.0, -4.0]

    def test_a_parameter_without_gradient_is_no_part_of_it(self):
        """As a frozen layer is not."""
        with_one, without = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        with_one.grad = torch.full((2,), 2.0)
        assert optimizer.closure([without, with_one])().item() == 4.0

    def test_lbfgs_goes_down_it(self):
        """A first step of LBFGS is lr x min(1, 1 / sum of |g|) x g: 0.5 / 4 = 0.125 of it."""
        p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        p.grad = torch.tensor([3.0, -1.0])
        found = optimizer.make(spec("optimizer=lbfgs", "optimizer.max_iter=1", "optimizer.lr=0.5"), [p])
        found.step(optimizer.closure([p]))
        assert p.tolist() == pytest.approx([1 - 0.125 * 3, 2 + 0.125 * 1])


class TestState:
    @pytest.mark.parametrize(
        ("name", "capturable", "device"),
        [
            ("adam", False, "cpu"),
            ("nadam", False, "cpu"),
            ("sgd", None, None),
            ("sgd_momentum", None, None),
            ("adagrad", None, "cpu"),
            ("sparseadam", None, None),  # counts in a Python int
        ],
    )
    def test_what_compiling_could_change(self, name, capturable, device):
        """`capturable` and the device of the step counters, where the optimizer has them."""
        built = workload.build(spec("model=tiny", "model.width=8", f"optimizer={name}"), CPU)
        built.step()
        assert optimizer.capturable(built.optimizer) is capturable
        assert optimizer.step_device(built.optimizer) == device

    def test_before_the_first_step_there_are_no_counters(self):
        """Adam makes them then."""
        assert optimizer.step_device(made()) is None


class TestCheck:
    @pytest.mark.parametrize(
        ("model", "told"),
        [
            ("resnet18", "61 of the 62 tensors of model=resnet18 are none, the first of shape 64x3x7x7"),
            ("gpt2", "98 of the 148 tensors of model=gpt2 are none, the first of shape 768"),
            ("tiny model.bias=true", "2 of the 4 tensors of model=tiny are none, the first of shape 64"),
        ],
    )
    def test_an_optimizer_of_matrices_refuses_other_shapes(self, model, told):
        """By the shapes alone; how many there are follows from the architecture.

        ResNet-18 has one matrix, its last layer's. GPT-2 has two embeddings, and four matrices in each of 12
        blocks, so that 98 of 148 are vectors.
        """
        with pytest.raises(Unsupported, match=f"^Muon takes matrices alone: {told}$"):
            optimizer.check(spec("optimizer=muon", *f"model={model}".split()))

    def test_torch_refuses_them_too(self):
        """When it takes them one day, the check is wrong."""
        with pytest.raises(Unsupported, match="Muon only supports 2D parameters"):
            made("optimizer=muon", "model.bias=true")

    @pytest.mark.parametrize("how", [("optimizer=muon",), ("optimizer=adam", "model=resnet18")])
    def test_others_pass(self, how):
        """Matrices alone, or an optimizer that takes every shape."""
        optimizer.check(spec(*how))
