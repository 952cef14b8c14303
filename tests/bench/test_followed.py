"""What is noted of steps that are compared, and steps that are taken again."""

from functools import partial

import pytest
import torch

from src.bench import workload
from src.bench.followed import Followed
from tests.specs import spec

CPU = torch.device("cpu")
SMALL = (
    "workload=train_step",
    "model=tiny_transformer",
    "workload.batch_size=2",
    "workload.sequence_length=8",
)


def followed(*overrides, reference=False):
    return Followed(workload.build(spec(*SMALL, *overrides), CPU, reference=reference))


def counters(steps):
    """Return how many steps the optimizer says it took, of each parameter."""
    return {int(state["step"]) for state in steps.workload.optimizer.state.values()}


class TestTake:
    def test_rates_and_losses_of_every_step_are_noted(self):
        """The rates as they were before the step."""
        steps = followed("optimizer.lr=0.5", "scheduler=step", "scheduler.step_size=1", "scheduler.gamma=0.5")
        steps.take(steps.workload.step, 3)
        assert steps.rates == [(0.5,), (0.25,), (0.125,)]
        assert len(steps.losses) == 3
        assert (steps.scales, steps.skipped()) == ([], [False] * 3)

    def test_an_optimizer_step_has_no_loss(self):
        """Its gradients are given, and found in other memory by each step if asked for."""
        made = workload.build(spec("model=tiny"), CPU)
        places = [made.parameters[0].grad.data_ptr()]
        steps = Followed(made, renews=True)
        for _ in range(2):
            steps.before_step()
            places.append(made.parameters[0].grad.data_ptr())
            steps.after_step(made.step())
        assert steps.losses == []
        assert places[0] != places[1]

    def test_a_scale_that_falls_is_a_step_that_was_left_out(self):
        """It grows after many good ones."""
        steps = Followed(workload.build(spec("model=tiny"), CPU), scales=[8.0, 4.0, 4.0, 8.0, 4.0])
        assert steps.skipped() == [True, False, False, True]


class TestRetrace:
    @pytest.mark.parametrize("overrides", [(), ("workload.amp=bf16", "scheduler=cosine")])
    def test_gives_what_the_steps_gave(self, overrides):
        """To the last bit."""
        one, other = followed(*overrides), followed(*overrides)
        one.take(one.workload.step, 3)
        other.retrace([False] * 3)
        assert one.losses == other.losses
        assert one.rates == other.rates
        for p, q in zip(one.workload.parameters, other.workload.parameters, strict=True):
            assert torch.equal(p, q)

    @pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # the first step is left out
    def test_leaves_out_what_a_gradient_scaler_left_out(self, monkeypatch):
        """Too large a scale overflows fp16 until it was halved often enough; the scheduler goes on."""
        monkeypatch.setattr(torch.amp, "GradScaler", partial(torch.amp.GradScaler, init_scale=2.0**24))
        eager = followed("workload.amp=fp16", "scheduler=step", "scheduler.step_size=1")
        eager.take(eager.workload.step, 12)
        skipped = eager.skipped()
        assert skipped[0]
        assert not skipped[-1]
        again = followed("workload.amp=fp16", "scheduler=step", "scheduler.step_size=1", reference=True)
        again.retrace(skipped)
        assert counters(again) == counters(eager) == {skipped.count(False)}
        assert again.rates == eager.rates

    def test_gradients_may_be_changed_before_the_update(self):
        """Zeros leave a step of plain SGD nothing to do."""

        def zero(made):
            for p in made.parameters:
                p.grad.zero_()

        steps = followed("optimizer=sgd")
        before = [p.detach().clone() for p in steps.workload.parameters]
        steps.retrace([False, False], zero)
        assert all(torch.equal(p, q) for p, q in zip(before, steps.workload.parameters, strict=True))
