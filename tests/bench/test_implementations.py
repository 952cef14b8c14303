"""The eager implementations: which there are, which run, and which is the fastest."""

import itertools
import time
import weakref
from dataclasses import asdict

import pytest
import torch

from src import vocabulary
from src.bench import arms, implementations, path
from src.optimizers import OPTIMIZERS
from tests.specs import spec

CPU = torch.device("cpu")
ALL = ("forloop", "foreach", "fused")
BY_DOCUMENTATION = {
    **dict.fromkeys(("adam", "adamw", "sgd", "sgd_momentum", "adagrad"), ALL),
    **dict.fromkeys(("adadelta", "adafactor", "adamax", "asgd", "nadam"), ALL[:2]),
    **dict.fromkeys(("radam", "rmsprop", "rprop"), ALL[:2]),
    **dict.fromkeys(("muon", "lbfgs", "sparseadam", "custom"), ()),
}
"""Implementations of each optimizer by the documentation of torch.optim."""


def composed(*overrides):
    """Return the spec of a run with two small tensors on the CPU."""
    return spec("model=tiny", "model.width=8", "device=cpu", "compile=none", "threads=1", *overrides)


def chosen(optimizer, *overrides):
    """Return the spec with an optimizer, of which a custom one is a class of torch."""
    own = ("optimizer._target_=torch.optim.Adam",) if optimizer == "custom" else ()
    return composed(f"optimizer={optimizer}", *own, *overrides)


def tried(how):
    """Try the implementations by the real clock."""
    return implementations.trial(how, CPU, time.perf_counter)


def fake_times(monkeypatch, *us):
    """Let the trials find these times, one after the other."""
    found = iter(us)
    monkeypatch.setattr(implementations, "brief_us", lambda *_: next(found))


class TestChoices:
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_they_are_those_of_the_documentation(self, optimizer):
        """Every optimizer is listed here."""
        assert implementations.choices(chosen(optimizer)) == BY_DOCUMENTATION[optimizer]

    @pytest.mark.parametrize("flag", ["foreach=true", "foreach=false", "fused=true"])
    def test_what_is_configured_does_not_change_them(self, flag):
        """The best may be another."""
        assert implementations.choices(composed(f"optimizer.{flag}")) == ALL

    def test_their_names_are_those_of_the_record(self):
        """What a row calls the path of a step."""
        assert set(ALL) == set(vocabulary.EAGER_PATHS)


class TestVariant:
    @pytest.mark.parametrize(
        ("optimizer", "name"),
        [(optimizer, name) for optimizer, names in BY_DOCUMENTATION.items() for name in names],
    )
    def test_it_runs_what_it_is_called(self, optimizer, name):
        """Whatever was configured before, by the operations of a real step."""
        for flags in (("optimizer.foreach=true",), ("optimizer.foreach=false",)):
            made = arms.eager(
                implementations.variant(chosen(optimizer, *flags), name), CPU, time.perf_counter
            )
            made.take_step()
            assert path.take(made.take_step).implementation() == name

    def test_it_differs_in_nothing_else(self):
        """Arguments, scheduler, model, seed: all as configured; and the original stays as it is."""
        how = composed(
            *("optimizer.lr=0.3", "optimizer.betas=[0.8,0.9]", "optimizer.amsgrad=true", "scheduler=step"),
            *("lr_type=cpu_tensor", "optimizer.capturable=true", "optimizer.foreach=true", "seed=7"),
        )
        before = asdict(how)
        changed = asdict(implementations.variant(how, "fused"))
        assert asdict(how) == before
        expected = before | {"lr_type": "float"}
        expected["optimizer"] |= {"foreach": False, "fused": True, "capturable": False}
        assert changed == expected

    def test_a_baseline_does_not_change_it(self):
        """Each is tried as itself, also where the eager arm was told what to run."""
        changed = implementations.variant(composed("measure.baseline=forloop"), "fused")
        assert changed.for_eager() == implementations.variant(composed(), "fused")

    @pytest.mark.parametrize("optimizer", ["muon", "lbfgs", "sparseadam", "custom"])
    def test_an_optimizer_without_flags_gets_none(self, optimizer):
        """Only its learning rate is a number again."""
        how = chosen(optimizer, "lr_type=cpu_tensor")
        changed = implementations.variant(how, "forloop")
        assert asdict(changed) == asdict(how) | {"lr_type": "float"}


class TestIsPlain:
    @pytest.mark.parametrize(
        ("overrides", "expected"),
        [
            ((), True),
            (("optimizer.foreach=true",), True),
            (("optimizer=muon",), True),
            (("lr_type=cpu_tensor",), False),
            (("optimizer.capturable=true",), False),
            (("optimizer=lbfgs", "lr_type=cpu_tensor"), False),
        ],
    )
    def test_a_float_learning_rate_and_not_capturable(self, overrides, expected):
        """Then the configured step may be one of the implementations itself."""
        assert implementations.is_plain(composed(*overrides)) is expected


class TestTrial:
    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "adagrad", "adafactor", "rprop"])
    def test_all_that_work_here_have_a_time(self, optimizer):
        """In a fixed order; torch has fused kernels for a CPU too."""
        found = tried(chosen(optimizer))
        assert tuple(found.us) == BY_DOCUMENTATION[optimizer]
        assert all(us > 0 for us in found.us.values())

    @pytest.mark.parametrize("times", list(itertools.permutations((1.0, 2.0, 3.0))))
    def test_the_fastest_is_that_of_the_least_time(self, monkeypatch, times):
        """Each of them may be."""
        fake_times(monkeypatch, *times)
        found = tried(composed())
        assert found.us == dict(zip(ALL, times, strict=True))
        assert found.fastest == ALL[times.index(1.0)]

    @pytest.mark.parametrize("optimizer", ["muon", "lbfgs", "sparseadam", "custom"])
    def test_without_a_choice_there_is_nothing_to_try(self, optimizer):
        """No arm is made, and none is the fastest."""
        found = tried(chosen(optimizer))
        assert (found.us, found.fastest) == ({}, None)

    def test_what_torch_refuses_is_left_out(self, monkeypatch):
        """A constructor that raises, as that of fused steps does on some devices."""

        class Adam(torch.optim.Adam):
            def __init__(self, params, *, fused=None, **arguments):
                if fused:
                    raise RuntimeError("`fused=True` requires all the params to be floating point Tensors")
                super().__init__(params, **arguments)

        monkeypatch.setattr(torch.optim, "Adam", Adam)
        fake_times(monkeypatch, 2.0, 1.0)
        assert tried(composed()).us == {"forloop": 2.0, "foreach": 1.0}

    def test_so_is_one_whose_step_raises(self, monkeypatch):
        """For want of memory, say: a multi-tensor step needs more of it."""
        step = torch.optim.Adam.step

        def raising(optimizer, closure=None):
            if optimizer.param_groups[0]["foreach"]:
                raise torch.OutOfMemoryError("out of memory")
            return step(optimizer, closure)

        monkeypatch.setattr(torch.optim.Adam, "step", raising)
        fake_times(monkeypatch, 2.0, 1.0)
        assert tried(composed()).us == {"forloop": 2.0, "fused": 1.0}

    def test_where_all_are_refused_there_is_no_fastest(self):
        """A differentiable step updates no leaves, whatever the implementation."""
        found = tried(composed("optimizer.differentiable=true"))
        assert (found.us, found.fastest) == ({}, None)

    def test_one_that_runs_something_else_is_left_out(self, monkeypatch):
        """Its name would be a lie: all three variants run the loop here."""
        variant = implementations.variant
        monkeypatch.setattr(implementations, "variant", lambda how, _name: variant(how, "forloop"))
        fake_times(monkeypatch, 2.0)
        assert tried(composed()).us == {"forloop": 2.0}

    def test_a_tensor_learning_rate_is_not_tried(self, monkeypatch):
        """Each arm that is made has a float, and is not capturable."""
        rates, make = [], arms.eager

        def making(*given):
            arm = make(*given)
            group = arm.workload.optimizer.param_groups[0]
            rates.append((type(group["lr"]), group["capturable"]))
            return arm

        monkeypatch.setattr(arms, "eager", making)
        tried(composed("lr_type=cpu_tensor", "optimizer.capturable=true"))
        assert rates == [(float, False)] * 3

    def test_there_is_one_at_a_time(self, monkeypatch):
        """Of each, nothing is left when the next is made: a large model need not fit twice."""
        alive, made, make = [], [], arms.eager

        def making(*given):
            alive.append(sum(ref() is not None for ref in made))
            arm = make(*given)
            made.append(weakref.ref(arm.workload.parameters[0]))
            return arm

        monkeypatch.setattr(arms, "eager", making)
        tried(composed("scheduler=step"))
        assert alive == [0, 0, 0]
        assert [ref() for ref in made] == [None] * 3

    def test_nesterov_momentum_stays_finite(self, monkeypatch):
        """Multi-tensor steps add into the gradients: settled, they are zero when they are timed."""
        seen = []

        def timed(block, _seconds):
            for _ in range(5):
                block(100)
            return 1.0

        monkeypatch.setattr(implementations, "brief_us", timed)
        make = arms.eager
        monkeypatch.setattr(arms, "eager", lambda *given: seen.append(make(*given)) or seen[-1])
        tried(composed("optimizer=sgd_momentum", "optimizer.nesterov=true"))
        assert len(seen) == 3
        assert all(bool(torch.isfinite(p).all()) for arm in seen for p in arm.workload.parameters)


class TestBriefUs:
    def test_it_is_the_fastest_of_five_blocks_long_enough(self):
        """A step of 1 ms, and blocks of 5 ms at least, found by trying; four of the five are disturbed."""
        log, factors = [], iter([1.0, 1.0, 1.0, 1.2, 3.0, 1.0, 9.0, 1.1])

        def block(steps):
            log.append(steps)
            return steps * 1e-3 * next(factors)

        assert implementations.brief_us(block) == pytest.approx(1000.0)
        tried, enough, again, *timed = log
        assert tried == 1
        assert enough == again >= 5
        assert timed == [enough] * 5
