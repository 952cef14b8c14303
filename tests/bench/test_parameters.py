"""The tensors of an arm: their shapes, their numbers, who has a gradient, and their groups."""

import pytest
import torch

from src.bench import parameters
from src.models import DTYPES
from tests.specs import spec

CPU = torch.device("cpu")


def made(*overrides, dtype=None):
    return parameters.make(spec("model=tiny", "model.width=8", *overrides), CPU, dtype)


def tensors(*overrides):
    return [t for p in made(*overrides) for t in (p.detach(), p.grad)]


class TestSize:
    def test_the_model_of_the_tutorial(self):
        """10 x 1024 x 1024: 10,485,760 parameters in 10 tensors."""
        expected = {"parameters": 10_485_760, "tensors": 10}
        assert parameters.counts(spec("model=tutorial").model) == expected

    def test_more_than_a_row_can_hold_is_null(self):
        """Of layers of almost 2**62 elements, one fits into 64 bits, four do not."""
        for depth, tensors in ((1, 1), (4, 4)):
            model = spec("model=tiny", f"model.width={2**31 - 1}", f"model.depth={depth}").model
            elements = (2**31 - 1) ** 2 * depth
            expected = elements if elements < 2**63 else None
            assert parameters.counts(model) == {"parameters": expected, "tensors": tensors}

    def test_the_size_counts_each_dtype(self):
        """(64 + 8) x 4 bytes and (64 + 8) x 2 bytes."""
        overrides = ("model.width=8", "model.bias=true", "model.second_dtype=float16")
        assert parameters.size_bytes(spec("model=tiny", *overrides).model) == 288 + 144


class TestNumbers:
    def test_are_the_same_to_the_last_bit_for_the_same_spec(self):
        """Parameters and gradients; none shares memory with another."""
        first, second = tensors("model.bias=true"), tensors("model.bias=true")
        assert len(first) == 8
        assert all(map(torch.equal, first, second))
        assert len({t.untyped_storage().data_ptr() for t in first + second}) == 16

    def test_depend_on_the_seed(self):
        """Another seed gives other numbers everywhere."""
        assert not any(map(torch.equal, tensors("seed=0"), tensors("seed=1")))

    def test_leave_the_global_generator_alone(self):
        """What else draws random numbers changes nothing, and is not changed."""
        torch.manual_seed(1)
        first, drawn = tensors(), torch.rand(1)
        torch.manual_seed(2)
        second = tensors()
        torch.manual_seed(1)
        assert all(map(torch.equal, first, second))
        assert torch.equal(torch.rand(1), drawn)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_have_the_dtype(self, dtype):
        """Parameters and gradients alike."""
        assert {t.dtype for t in tensors(f"model.dtype={dtype}")} == {getattr(torch, dtype)}

    @pytest.mark.parametrize("second", ["null", "bfloat16"])
    def test_of_the_reference_are_the_same_in_float64(self, second):
        """Converted, not drawn anew: a float32 or bfloat16 fits into a float64 exactly."""
        own, wide = (made(f"model.second_dtype={second}", dtype=d) for d in (None, torch.float64))
        assert {p.dtype for p in wide} == {p.grad.dtype for p in wide} == {torch.float64}
        assert all(torch.equal(a.detach().double(), b.detach()) for a, b in zip(own, wide, strict=True))
        assert all(torch.equal(a.grad.double(), b.grad) for a, b in zip(own, wide, strict=True))

    def test_of_a_weight_have_the_variance_of_a_linear_layer(self):
        """1 / width, so that no model overflows; gradients have variance 1."""
        (weight,) = made("model.width=256", "model.depth=1")
        assert weight.std().item() == pytest.approx(1 / 16, rel=0.02)
        assert weight.grad.std().item() == pytest.approx(1, rel=0.02)

    def test_of_a_stack_are_those_that_rows_were_measured_with(self):
        """Drawn one after the other, divided by the root of the width: earlier rows stay comparable."""
        generator = torch.Generator().manual_seed(0)
        expected = []
        for shape in [(8, 8), (8,), (8, 8), (8,)]:
            values, gradient = (torch.randn(shape, generator=generator) for _ in range(2))
            expected += [values * 8**-0.5, gradient]
        assert all(map(torch.equal, tensors("model.bias=true"), expected))

    def test_of_a_convolution_have_its_variance(self):
        """1 / (64 x 3 x 3) of 64 channels and a kernel of 3 x 3."""
        how = spec("model=resnet18")
        found = {tuple(p.shape): p for p in parameters.make(how, CPU)}
        assert found[64, 64, 3, 3].std().item() == pytest.approx(1 / 24, rel=0.02)
        assert found[512, 512, 3, 3].grad.std().item() == pytest.approx(1, rel=0.02)

    def test_are_made_of_one_element_where_only_their_number_counts(self):
        """As many tensors of as many dimensions, with gradients."""
        found = parameters.make(spec("model=resnet18"), CPU, single=True)
        assert len(found) == 62
        assert {p.numel() for p in found} == {p.grad.numel() for p in found} == {1}
        assert [p.dim() for p in found[:3]] == [4, 1, 1]


class TestGradients:
    OVERRIDES = ("model.depth=4", "model.bias=true", "model.frozen_layers=1", "model.layers_without_grad=2")

    def test_a_frozen_layer_asks_for_none(self):
        """The layers after it ask for one that is not there, the last has one."""
        found = [(p.requires_grad, p.grad is not None) for p in made(*self.OVERRIDES)]
        assert found == [(False, False)] * 2 + [(True, False)] * 4 + [(True, True)] * 2

    def test_which_layers_have_one_changes_no_number(self):
        """Frozen or not, a run starts from the same parameters and gradients."""
        some, every = made(*self.OVERRIDES), made("model.depth=4", "model.bias=true")
        assert all(map(torch.equal, some, every))
        assert torch.equal(some[-1].grad, every[-1].grad)

    def test_are_sparse_as_those_of_an_embedding(self):
        """In rows, where the optimizer takes no others; the numbers are those of dense ones."""
        embedding = torch.nn.Embedding(8, 8, sparse=True)
        embedding(torch.arange(8)).sum().backward()
        theirs, sparse, dense = embedding.weight.grad, made("optimizer=sparseadam")[0].grad, made()[0].grad
        found = (sparse.layout, sparse.sparse_dim(), sparse.dense_dim())
        assert found == (theirs.layout, theirs.sparse_dim(), theirs.dense_dim())
        assert torch.equal(sparse.to_dense(), dense)


class TestGroups:
    def groups(self, *overrides):
        how = spec("model=tiny", *overrides)
        tensors = parameters.make(how, CPU)
        return tensors, parameters.groups(how.model, tensors)

    def test_one_group_is_the_parameters_themselves(self):
        """As `model.parameters()` is handed over."""
        tensors, found = self.groups("model.bias=true")
        assert found is tensors

    def test_vectors_do_not_decay(self):
        """Weights in a group with the optimizer's weight decay, biases in one with none."""
        tensors, found = self.groups("model.bias=true", "model.param_groups=decay", "optimizer=adamw")
        expected = [{"params": tensors[0::2]}, {"params": tensors[1::2], "weight_decay": 0.0}]
        assert found == expected
        decays = [g["weight_decay"] for g in torch.optim.AdamW(found).param_groups]
        assert decays == [0.01, 0.0]

    def test_no_group_is_empty(self):
        """Without biases all parameters decay."""
        tensors, found = self.groups("model.param_groups=decay", "optimizer=adamw")
        assert found == [{"params": tensors}]

    def test_of_vectors_alone_none_decays(self):
        """There is no empty group of those that do."""
        vectors = [torch.nn.Parameter(torch.ones(2))]
        found = parameters.groups(spec("model.param_groups=decay", "optimizer=adamw").model, vectors)
        assert found == [{"params": vectors, "weight_decay": 0.0}]

    def test_of_a_published_model_biases_and_norms_do_not_decay(self):
        """ResNet-18: 20 convolutions and the last layer decay, 40 of norms and a bias do not."""
        how = spec("model=resnet18", "model.param_groups=decay", "optimizer=adamw")
        decaying, others = parameters.groups(how.model, parameters.make(how, CPU, single=True))
        assert (len(decaying["params"]), len(others["params"])) == (21, 41)

    def test_a_group_for_every_tensor(self):
        """In their order."""
        tensors, found = self.groups("model.bias=true", "model.param_groups=per_tensor")
        assert found == [{"params": [t]} for t in tensors]
        assert len(found) == 4
