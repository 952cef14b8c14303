"""The scheduler of an arm: the learning rates are those of torch's own, made by hand."""

import pytest
import torch
from torch.optim import lr_scheduler as torchs
from torch.optim.swa_utils import SWALR

from src.bench import workload
from src.bench.refusal import Unsupported
from src.rules import SpecError
from src.schedulers import SCHEDULERS
from tests.bench.third_party import WarmUp
from tests.specs import spec

CPU = torch.device("cpu")
STEPS = 8
LR = 0.01
WARM_UP = ("_target_=tests.bench.third_party.WarmUp", "arguments.steps=4")


def linear(optimizer):
    return torchs.LinearLR(optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5)


def constant(optimizer):
    return torchs.ConstantLR(optimizer, factor=1 / 3, total_iters=5)


def exponential(optimizer):
    return torchs.ExponentialLR(optimizer, gamma=0.9)


BY_HAND = {
    ("constant",): constant,
    ("linear",): linear,
    ("step",): lambda o: torchs.StepLR(o, step_size=2, gamma=0.9),
    ("multistep",): lambda o: torchs.MultiStepLR(o, milestones=[2, 4, 6], gamma=0.1),
    ("exponential",): exponential,
    ("polynomial",): lambda o: torchs.PolynomialLR(o, total_iters=20, power=1.0),
    ("polynomial", "total_iters=6", "power=2"): lambda o: torchs.PolynomialLR(o, total_iters=6, power=2.0),
    ("cosine",): lambda o: torchs.CosineAnnealingLR(o, T_max=20),
    ("cosine_restarts",): lambda o: torchs.CosineAnnealingWarmRestarts(o, T_0=4),
    ("cosine_restarts", "T_0=2", "T_mult=2"): lambda o: torchs.CosineAnnealingWarmRestarts(o, 2, T_mult=2),
    ("onecycle", "total_steps=20"): lambda o: torchs.OneCycleLR(o, max_lr=0.1, total_steps=20),
    ("onecycle", "total_steps=9", "three_phase=true"): lambda o: torchs.OneCycleLR(
        o, max_lr=0.1, total_steps=9, three_phase=True
    ),
    ("cyclic",): lambda o: torchs.CyclicLR(o, base_lr=0.001, max_lr=0.1, step_size_up=4),
    ("cyclic", "mode=exp_range", "gamma=0.5"): lambda o: torchs.CyclicLR(
        o, 0.001, 0.1, step_size_up=4, mode="exp_range", gamma=0.5
    ),
    ("lambda",): lambda o: torchs.LambdaLR(o, lambda n: 0.95**n),
    ("lambda", "function=tests.bench.third_party.halving"): lambda o: torchs.LambdaLR(o, lambda n: 0.5**n),
    ("multiplicative",): lambda o: torchs.MultiplicativeLR(o, lambda _: 0.95),
    ("plateau",): lambda o: torchs.ReduceLROnPlateau(o, patience=0),
    ("sequential",): lambda o: torchs.SequentialLR(o, [linear(o), exponential(o)], milestones=[5]),
    ("sequential", "milestone=2", "@second=cosine"): lambda o: torchs.SequentialLR(
        o, [linear(o), torchs.CosineAnnealingLR(o, T_max=20)], milestones=[2]
    ),
    ("chained", "@first=sequential", "first.milestone=3"): lambda o: torchs.ChainedScheduler(
        [torchs.SequentialLR(o, [linear(o), exponential(o)], milestones=[3]), exponential(o)], optimizer=o
    ),
    ("chained",): lambda o: torchs.ChainedScheduler([constant(o), exponential(o)], optimizer=o),
    ("chained", "@first=lambda", "@second=step"): lambda o: torchs.ChainedScheduler(
        [torchs.LambdaLR(o, lambda n: 0.95**n), torchs.StepLR(o, step_size=2, gamma=0.9)], optimizer=o
    ),
    ("chained", "@first=custom", *(f"first.{o}" for o in WARM_UP)): lambda o: torchs.ChainedScheduler(
        [WarmUp(o, steps=4), exponential(o)], optimizer=o
    ),
    ("swa",): lambda o: SWALR(o, swa_lr=0.05, anneal_epochs=10, anneal_strategy="cos"),
    ("swa", "anneal_strategy=linear", "anneal_epochs=4"): lambda o: SWALR(o, 0.05, 4, "linear"),
    ("custom", *WARM_UP): lambda o: WarmUp(o, steps=4),
}
"""Overrides of a choice, and the same scheduler made by hand."""


def overrides(name, *changes):
    """Return the command line of a choice and its changes; `@` before a part chooses it."""
    return (
        f"scheduler={name}",
        *(f"scheduler@scheduler.{c[1:]}" if c.startswith("@") else f"scheduler.{c}" for c in changes),
    )


def built(*changes):
    return workload.build(spec("model=tiny", "model.width=8", *changes), CPU)


def by_hand(choice, make):
    """Return the learning rate of each step, by torch's classes alone."""
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer = torch.optim.Adam([parameter], lr=LR)
    scheduler = make(optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(*([1.0] if choice == "plateau" else []))
    return rates


def taken(*changes):
    """Return the learning rate of each step of a workload, and its learning rate object."""
    made = built(*changes)
    held, rates = made.optimizer.param_groups[0]["lr"], []
    for _ in range(STEPS):
        rates.append(made.learning_rates()[0])
        made.step()
    return rates, held is made.optimizer.param_groups[0]["lr"]


class TestLearningRates:
    def test_every_choice_is_here(self):
        """A new one asks for its own line."""
        assert {choice for choice, *_ in BY_HAND} | {"none"} == set(SCHEDULERS)

    @pytest.mark.parametrize("choice", BY_HAND, ids="-".join)
    def test_are_torchs(self, choice):
        """The same sequence to the last bit, over eight steps."""
        assert taken(*overrides(*choice))[0] == by_hand(choice[0], BY_HAND[choice])

    @pytest.mark.parametrize("choice", BY_HAND, ids="-".join)
    def test_are_the_same_in_a_tensor(self, choice):
        """Within float32; the tensor stays the same object, so that a compiled step sees the change."""
        rates, same = taken(*overrides(*choice), "lr_type=cpu_tensor")
        assert rates == pytest.approx(by_hand(choice[0], BY_HAND[choice]), rel=1e-5, abs=1e-9)
        assert same

    def test_none_leaves_them_alone(self):
        """Nothing is attached."""
        assert built().scheduler is None
        assert taken()[0] == [LR] * STEPS

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            (("linear",), [0.0033, 0.0047, 0.0060, 0.0073, 0.0087, 0.0100]),  # PyTorch's recipe prints these
            (("plateau",), [0.01, 0.01, 0.001, 0.0001, 0.00001, 0.000001]),  # the second is no better
            (("custom", *WARM_UP), [0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01]),
            (("lambda", "function=tests.bench.third_party.halving"), [0.01, 0.005, 0.0025, 0.00125]),
        ],
        ids=str,
    )
    def test_are_these(self, choice, expected):
        """Worked out without torch."""
        found = taken(*overrides(*choice))[0][: len(expected)]
        assert found == pytest.approx(expected, abs=5e-5 if choice == ("linear",) else 1e-12)


class TestMake:
    def test_it_wraps_the_step_of_its_optimizer(self):
        """Attached before anything is compiled: the compiled step goes through that wrapper."""
        assert "step" in vars(built("scheduler=linear").optimizer)
        assert "step" not in vars(built().optimizer)

    @pytest.mark.parametrize("optimizer", ["adagrad", "adadelta", "asgd", "rprop", "adafactor", "lbfgs"])
    @pytest.mark.parametrize("scheduler", ["onecycle", "cyclic"])
    def test_torch_refuses_to_cycle_a_momentum_that_is_not_there(self, optimizer, scheduler):
        """Unsupported, in torch's words."""
        expected = "LR refuses these arguments: optimizer must support momentum or beta1"
        with pytest.raises(Unsupported, match=expected):
            built(f"optimizer={optimizer}", f"scheduler={scheduler}")

    def test_a_part_that_torch_refuses_is_named(self):
        """By its own class, not by the composite's."""
        with pytest.raises(Unsupported, match=r"^CyclicLR refuses these arguments: "):
            built("optimizer=adagrad", *overrides("chained", "@second=cyclic"))

    @pytest.mark.parametrize(
        ("choice", "key"),
        [
            (("lambda", "function=no_such_module.decay"), "scheduler.function"),
            (("custom", "_target_=no_such_module.WarmUp"), "scheduler._target_"),
        ],
    )
    def test_what_is_not_there_is_named_by_its_key(self, choice, key):
        """A mistake of the user."""
        with pytest.raises(SpecError, match=f"^{key} must name what can be imported: got 'no_such_module"):
            built(*overrides(*choice))
