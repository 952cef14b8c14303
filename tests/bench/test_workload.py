"""What an arm steps: parameters, optimizer and scheduler put together, shared with no other arm."""

import time

import pytest
import torch

from src.bench import arms, trace, workload
from tests.specs import spec

CPU = torch.device("cpu")
NESTEROV = ("optimizer=sgd_momentum", "optimizer.nesterov=true", "optimizer.foreach=true")
LOOPS = ("foreach=true", "foreach=false", "fused=true")


def built(*overrides, reference=False):
    return workload.build(spec("model=tiny", "model.width=8", *overrides), CPU, reference=reference)


def copies(made):
    return [p.detach().clone() for p in made.parameters]


def gradients(made):
    return [p.grad for p in made.parameters]


class TestBuild:
    def test_arms_are_alike_and_share_nothing(self):
        """A step of one moves its own parameters alone."""
        first, second, untouched = built(), built(), built()
        assert all(map(torch.equal, first.parameters, second.parameters))
        first.step()
        assert not any(map(torch.equal, first.parameters, untouched.parameters))
        assert all(map(torch.equal, second.parameters, untouched.parameters))

    def test_a_scheduler_of_one_arm_leaves_the_other_arms_learning_rate(self):
        """A tensor shared by both would be changed in both."""
        first, second = (built("scheduler=step", "lr_type=cpu_tensor") for _ in range(2))
        for _ in range(4):
            first.step()
        assert first.learning_rates()[0] == pytest.approx(0.0081)
        assert second.learning_rates()[0] == pytest.approx(0.01)

    def test_a_step_is_torchs_own(self):
        """Ten steps end where torch.optim.AdamW ends from the same start."""
        made, reference = built("optimizer=adamw"), built("optimizer=adamw")
        theirs = torch.optim.AdamW(reference.parameters, lr=0.01)
        for _ in range(10):
            made.step()
            theirs.step()
        assert all(map(torch.equal, made.parameters, reference.parameters))

    def test_the_scheduler_steps_after_the_optimizer(self):
        """The first step has the first learning rate: SGD moves by lr x grad, then by half of it."""
        made = built(
            "optimizer=sgd", "scheduler=lambda", "scheduler.function=tests.bench.third_party.halving"
        )
        start = copies(made)
        made.step()
        made.step()
        for before, p in zip(start, made.parameters, strict=True):
            torch.testing.assert_close(p.detach(), before - 0.015 * p.grad)

    @pytest.mark.parametrize("scheduler", ["none", "linear", "plateau"])
    def test_a_closure_is_handed_to_the_step(self, scheduler):
        """LBFGS evaluates its loss; without one it raises."""
        made = built("optimizer=lbfgs", f"scheduler={scheduler}")
        start = copies(made)
        made.step()
        assert not any(map(torch.equal, start, made.parameters))
        with pytest.raises(TypeError, match="closure"):
            made.optimizer.step()

    def test_a_class_of_the_users_own_may_ask_for_it(self):
        """It is called as LBFGS is."""
        sign = ("optimizer=custom", "optimizer._target_=torch.optim.Adam")
        with_closure, plain = built(*sign, "optimizer.needs_closure=true"), built()
        for made in (with_closure, plain):
            made.step()
        assert all(map(torch.equal, with_closure.parameters, plain.parameters))

    def test_compiling_keeps_the_scheduler(self):
        """It was attached before: the wrapper it puts around `step` is compiled, and only once."""
        how = spec("model=tiny", "compile=aot_eager", "scheduler=linear")
        arm, recorder = arms.compiled(how, CPU, time.perf_counter), trace.Recorder()
        recorder.take(arm.take_step, 3, time.perf_counter)
        assert arm.workload.scheduler.last_epoch == 3
        again = [c for c in recorder.trace().compilations() if c.attempt > 0 and not c.has_graph]
        assert again == []


class TestReference:
    def test_starts_as_the_arms_do(self):
        """The same numbers in float64, and a learning rate that no float32 rounds."""
        arm, reference = built("lr_type=cpu_tensor"), built("lr_type=cpu_tensor", reference=True)
        assert {p.dtype for p in reference.parameters} == {torch.float64}
        assert all(
            torch.equal(a.double(), b) for a, b in zip(arm.parameters, reference.parameters, strict=True)
        )
        assert reference.learning_rates()[0] == 0.01

    def test_ends_near_them(self):
        """Five steps of Adam in float32 and float64 agree within float32."""
        arm, reference = built("scheduler=linear"), built("scheduler=linear", reference=True)
        for _ in range(5):
            arm.step()
            reference.step()
        for a, b in zip(arm.parameters, reference.parameters, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-6)


class TestLayersWithoutGradient:
    @pytest.mark.parametrize("optimizer", ["adamw", "sgd_momentum", "muon", "lbfgs", "sparseadam"])
    def test_a_step_leaves_them_alone(self, optimizer):
        """Frozen or merely without a gradient; weight decay does not touch them either."""
        made = built(
            f"optimizer={optimizer}", "model.depth=3", "model.frozen_layers=1", "model.layers_without_grad=1"
        )
        start = copies(made)
        for _ in range(3):
            made.step()
        moved = [not torch.equal(s, p.detach()) for s, p in zip(start, made.parameters, strict=True)]
        assert moved == [False, False, True]

    def test_vectors_in_a_group_of_their_own_do_not_decay(self):
        """Gradients of zero: AdamW moves a weight by lr x decay x weight, and no bias."""
        made = built("optimizer=adamw", "model.bias=true", "model.param_groups=decay")
        for gradient in gradients(made):
            gradient.zero_()
        start = copies(made)
        made.step()
        for before, p in zip(start, made.parameters, strict=True):
            expected = before * (1 - 0.01 * 0.01) if p.dim() == 2 else before
            torch.testing.assert_close(p.detach(), expected, rtol=1e-6, atol=0)


class TestNesterov:
    """Multi-tensor SGD with Nesterov momentum adds into the gradients."""

    @pytest.mark.parametrize(("steps", "expected"), [(1, 1.9e-3), (10, 5.3), (100, 2.7e35)])
    def test_left_alone_the_gradients_grow(self, steps, expected):
        """A gradient of 1e-3, seen to grow to these values by an independent program."""
        made = self.with_gradients_of(1e-3)
        for _ in range(steps):
            made.step()
        assert gradients(made)[0].flatten()[0].item() == pytest.approx(expected, rel=0.02)

    @pytest.mark.parametrize("loop", LOOPS)
    def test_refilled_before_each_step_they_give_nesterov_momentum(self, loop):
        """Twelve steps by the formula: v = 0.9 v + g, p = p - lr (g + 0.9 v), in float64."""
        made = built(*NESTEROV[:2], f"optimizer.{loop}")
        expected = [(p.detach().double(), p.grad.double()) for p in made.parameters]
        for _ in range(12):
            made.refill()
            made.step()
        for p, (start, gradient) in zip(made.parameters, expected, strict=True):
            momentum, moved = torch.zeros_like(gradient), torch.zeros_like(gradient)
            for _ in range(12):
                momentum = 0.9 * momentum + gradient
                moved += 0.01 * (gradient + 0.9 * momentum)
            torch.testing.assert_close(p.detach().double(), start - moved, rtol=0, atol=2e-6)

    def test_settled_it_stays_where_it_is(self):
        """500 steps without refilling: zeros stay zeros, and the parameters what they were."""
        made = built(*NESTEROV)
        for _ in range(3):
            made.refill()
            made.step()
        made.settle()
        start = copies(made)
        for _ in range(500):
            made.step()
        assert all(torch.all(g == 0) for g in gradients(made))
        assert all(map(torch.equal, start, made.parameters))

    def with_gradients_of(self, value):
        made = built(*NESTEROV)
        for gradient in gradients(made):
            gradient.fill_(value)
        return made


class TestWhereGradientsLie:
    def test_renewed_ones_are_copies_elsewhere(self):
        """The parameters stay; the step that follows is the same to the last bit."""
        made, other = built(), built()
        before = gradients(made)
        made.renew_gradients()
        for old, new in zip(before, gradients(made), strict=True):
            assert new is not old
            assert new.data_ptr() != old.data_ptr()
            assert torch.equal(old, new)
        made.step()
        other.step()
        assert all(map(torch.equal, made.parameters, other.parameters))

    def test_what_has_no_gradient_gets_none(self):
        """A frozen layer, and one that has merely none."""
        made = built("model.depth=3", "model.frozen_layers=1", "model.layers_without_grad=1")
        made.renew_gradients()
        made.fix_gradients()
        assert [g is None for g in gradients(made)] == [True, True, False]

    def test_sparse_ones_stay_sparse(self):
        """With their rows and values."""
        made = built("optimizer=sparseadam")
        before = [g.to_dense() for g in gradients(made)]
        made.renew_gradients()
        made.fix_gradients()
        assert all(g.is_sparse for g in gradients(made))
        assert all(torch.equal(a, b.to_dense()) for a, b in zip(before, gradients(made), strict=True))
        made.step()

    @pytest.mark.parametrize("optimizer", ["lbfgs", "muon", "adam"])
    def test_a_step_uses_the_new_ones(self, optimizer):
        """Also one whose closure computes a loss from them: as if the old ones had had their values."""
        renewed, changed, other = (built(f"optimizer={optimizer}") for _ in range(3))
        renewed.renew_gradients()
        for arm in (renewed, changed):
            for gradient in gradients(arm):
                gradient.neg_()
        for arm in (renewed, changed, other):
            arm.step()
        assert all(map(torch.equal, renewed.parameters, changed.parameters))
        assert not any(map(torch.equal, renewed.parameters, other.parameters))

    def test_fixing_marks_each_gradient(self, monkeypatch):
        """Once, in their order."""
        marked = []
        monkeypatch.setattr(workload.torch_private, "mark_static", marked.append)
        made = built()
        made.fix_gradients()
        assert list(map(id, marked)) == list(map(id, gradients(made)))

    def test_refilling_fills_the_new_ones(self):
        """Nesterov momentum writes into the gradients that it finds."""
        made = built(*NESTEROV)
        start = [g.clone() for g in gradients(made)]
        made.step()
        made.renew_gradients()
        assert not any(map(torch.equal, start, gradients(made)))
        made.refill()
        assert all(map(torch.equal, start, gradients(made)))


class TestOtherGradients:
    @pytest.mark.parametrize("loop", LOOPS)
    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "adagrad", "sgd", "sgd_momentum"])
    def test_no_other_step_writes_into_them(self, optimizer, loop):
        """Why Nesterov momentum alone is refilled."""
        made = built(f"optimizer={optimizer}", f"optimizer.{loop}")
        before = [g.clone() for g in gradients(made)]
        for _ in range(3):
            made.step()
        assert all(map(torch.equal, before, gradients(made)))

    def test_settling_changes_nothing_there(self):
        """Gradients and state stay: a later step does the same work as an earlier one."""
        made, other = built(), built()
        for arm in (made, other):
            arm.step()
        made.settle()
        for arm in (made, other):
            arm.step()
        assert all(map(torch.equal, gradients(made), gradients(other)))
        assert all(map(torch.equal, made.parameters, other.parameters))


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
