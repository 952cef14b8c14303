"""When two arms can be compared, and with what."""

import time

import pytest
import torch

from src.bench import arms, comparison
from src.bench.followed import Followed
from tests import planted_errors
from tests.specs import spec

CPU = torch.device("cpu")
STEPS = 3
BYTES = 2 * 64 * 64 * 4
"""Size of the parameters of the tiny model: two square matrices of float32."""

ELEMENTS = 2 * 64 * 64
NESTEROV = ("optimizer=sgd_momentum", "optimizer.nesterov=true", "optimizer.foreach=true")


class Refusing(torch.optim.SGD):
    """An optimizer of a user's own that takes no float64."""

    def step(self, closure=None):
        """Refuse or step."""
        if self.param_groups[0]["params"][0].dtype == torch.float64:
            raise TypeError("no float64 here")
        return super().step(closure)


class Writing(torch.optim.SGD):
    """An optimizer of a user's own that writes into the gradients."""

    def step(self, closure=None):
        """Halve the gradients, then step."""
        torch._foreach_mul_([p.grad for p in self.param_groups[0]["params"]], 0.5)
        return super().step(closure)


def custom(optimizer):
    """Return the overrides that choose a class of this module."""
    return ("optimizer=custom", f"optimizer._target_={__name__}.{optimizer.__name__}", "optimizer.lr=0.001")


def traced(how, steps=STEPS):
    """Return two eager arms after so many steps."""
    made = []
    for _ in range(2):
        arm = arms.eager(how, CPU, time.perf_counter)
        made.append(Followed(arm.workload))
        made[-1].take(arm.take_step, steps)
    return made


def compared(*overrides, draws_random=False, change=lambda _arms: None):
    """Compare two arms that took the same steps, after `change`."""
    how = spec("model=tiny", "compile=none", f"measure.trace_steps={STEPS}", *overrides)
    made = traced(how)
    change(made)
    return comparison.compare(how, CPU, *made, draws_random=draws_random)


def free(monkeypatch, size):
    """Let so many bytes be free."""
    monkeypatch.setattr(comparison.machine, "free_bytes", lambda _device: size)


class TestCompare:
    @pytest.mark.parametrize("optimizer", ["adam", "sgd", "lbfgs", "muon"])
    def test_arms_that_took_the_same_steps_pass(self, optimizer):
        """From the same start, with a reference that took as many."""
        found = compared(f"optimizer={optimizer}", "scheduler=linear")
        assert (found.columns["parity"], found.columns["parity_reason"]) == ("passed", None)
        assert found.columns["parity_max_abs"] == 0
        assert found.reference
        assert not found.gradients_written

    def test_the_reference_took_the_steps_of_the_trace(self):
        """Adam in float32 is near it after as many steps, with the learning rates of the scheduler."""
        found = compared("scheduler=step")
        assert found.columns["parity_eager_error"] < 1e-5

    def test_an_arm_that_went_elsewhere_fails(self):
        """By a thousandth, where a step is a hundredth."""

        def change(made):
            with torch.no_grad():
                made[1].workload.parameters[0].add_(1e-3)

        found = compared(change=change)
        assert found.columns["parity"] == "failed"
        assert "parameter 0" in found.columns["parity_reason"]
        assert found.columns["parity_max_abs"] == pytest.approx(1e-3, rel=1e-3)

    def test_other_learning_rates_fail(self):
        """Whatever the parameters are."""

        def change(made):
            made[1].rates[-1] = (0.02,)

        assert compared(change=change).columns["parity"] == "failed"


class TestWhatCannotBeCompared:
    def test_steps_that_draw_random_numbers(self, monkeypatch):
        """No two arms draw alike; nothing is built for it."""
        monkeypatch.delattr(comparison.parameters, "make")
        how = spec("model=tiny", "compile=none")
        found = comparison.compare(how, CPU, None, None, draws_random=True)
        assert found == comparison.Comparison(
            {"parity_reason": "not compared: the step draws random numbers"},
            gradients_written=False,
            reference=False,
        )

    def test_a_start_that_does_not_fit(self, monkeypatch):
        """Parameters and gradients, to the byte."""
        free(monkeypatch, 2 * BYTES - 1)
        found = compared()
        told = f"not compared: needs {2 * BYTES} bytes, {2 * BYTES - 1} are free"
        assert found.columns == {"parity_reason": told}
        assert not found.reference


class TestReference:
    def test_is_left_out_where_it_does_not_fit(self, monkeypatch):
        """At 64 bytes an element one byte is missing; the arms are compared all the same."""
        free(monkeypatch, 64 * ELEMENTS - 1)
        found = compared()
        assert (found.columns["parity"], found.columns["parity_eager_error"]) == ("passed", None)
        assert not found.reference

    def test_is_made_where_it_just_fits(self, monkeypatch):
        """To the byte."""
        free(monkeypatch, 64 * ELEMENTS)
        found = compared()
        assert found.reference
        assert found.columns["parity_eager_error"] is not None

    def test_is_left_out_where_the_optimizer_takes_no_float64(self):
        """Its exception is no failure of the run."""
        found = compared(*custom(Refusing))
        assert (found.columns["parity"], found.columns["parity_compiled_error"]) == ("passed", None)
        assert not found.reference


class TestGradients:
    def test_a_step_that_writes_into_them_is_noticed(self):
        """They are not those of the start any more."""
        assert compared(*custom(Writing)).gradients_written

    @pytest.mark.parametrize("grads", ["fresh", "static"])
    def test_one_whose_gradients_are_put_back_is_not(self, grads):
        """Multi-tensor Nesterov momentum, which is known to write into them."""
        found = compared(*NESTEROV, f"measure.grads={grads}")
        assert found.columns["parity"] == "passed"
        assert not found.gradients_written


class TestPlantedErrors:
    """Training steps, whose errors grow: `python -m tests.planted_errors` has more of them."""

    HOW = (
        *("workload=train_step", "model=tiny_transformer", "optimizer=sgd_momentum"),
        *("workload.batch_size=4", "workload.sequence_length=16"),
    )

    @pytest.mark.parametrize("plant", planted_errors.PLANTS)
    def test_is_seen(self, plant):
        """One to two percent, or less where it adds up."""
        how = spec(*self.HOW)
        steps = planted_errors.eager(how, CPU, planted_errors.PLANTS[plant])
        assert planted_errors.judged(how, CPU, steps) == "failed"

    def test_is_not_seen_where_there_is_none(self):
        """Other steps of the same kind."""
        how = spec(*self.HOW)
        assert planted_errors.judged(how, CPU, planted_errors.eager(how, CPU)) == "passed"
