"""Arms: separate objects, one timing code, and only the compiled one is ever compiled."""

import time

import pytest
import torch

from src.bench import arms, torch_private
from tests.specs import spec

CPU = torch.device("cpu")
MAKERS = {
    "eager": arms.eager,
    "compiled": arms.compiled,
    "eager_after_compile": arms.eager_after_compile,
}


class Ticks:
    """A clock that moves on by 1 s whenever it is read."""

    def __init__(self):
        self.readings = 0

    def __call__(self):
        self.readings += 1
        return float(self.readings)


def arm(name, *overrides, now=time.perf_counter):
    """Return an arm of a tiny Adam on the CPU, compiled without generating code."""
    return MAKERS[name](spec("model=tiny", "compile=aot_eager", *overrides), CPU, now)


def steps_of(made):
    """Return how many steps Adam itself has counted."""
    states = made.workload.optimizer.state.values()
    (steps,) = {int(state["step"]) for state in states} or {0}
    return steps


def settled(made):
    """Take steps until the compilations of the first ones are over, and forget these."""
    for _ in range(3):
        made.take_step()
    torch_private.drain()
    return made


class TestEager:
    def test_it_compiles_nothing(self):
        """Neither in single steps nor in a block."""
        made = arm("eager", "scheduler=linear")
        made.take_step()
        made.block(10)
        assert made.step is made.workload.step
        assert torch_private.drain() == []

    def test_nor_after_the_compiled_arm_has_compiled(self):
        """The same code runs in both arms, and only one of them goes through torch.compile."""
        eager, compiled = arm("eager"), arm("compiled")
        compiled.take_step()
        assert torch_private.drain() != []
        eager.take_step()
        eager.block(10)
        assert torch_private.drain() == []

    def test_it_shares_no_object_with_the_compiled_arm(self):
        """No optimizer that was ever compiled is timed as eager."""
        eager, compiled = arm("eager", "scheduler=step"), arm("compiled", "scheduler=step")
        assert eager.workload.optimizer is not compiled.workload.optimizer
        assert eager.workload.scheduler is not compiled.workload.scheduler
        pairs = zip(eager.workload.parameters, compiled.workload.parameters, strict=True)
        assert not any(a is b or a.data_ptr() == b.data_ptr() for a, b in pairs)

    def test_both_arms_end_at_the_same_parameters(self):
        """Twelve steps under a scheduler agree within 2e-6, compiled or not."""
        eager, compiled = arm("eager", "scheduler=linear"), arm("compiled", "scheduler=linear")
        for _ in range(12):
            eager.take_step()
            compiled.take_step()
        for a, b in zip(eager.workload.parameters, compiled.workload.parameters, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=2e-6)


class TestCompiled:
    def test_it_compiles_in_the_first_step_only(self):
        """One graph with operations."""
        made = arm("compiled")
        made.take_step()
        assert sum(c.has_graph for c in torch_private.drain()) == 1
        made.take_step()
        assert torch_private.drain() == []

    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_block_does_not_recompile_it(self, threads):
        """The timer keeps the thread count, which is a guard of every compiled frame."""
        torch.set_num_threads(threads)
        settled(made := arm("compiled"))
        made.block(5)
        assert torch_private.drain() == []
        assert torch.get_num_threads() == threads

    def test_the_timers_own_thread_count_would(self):
        """Left at its default of one thread, it recompiles the step inside the timing."""
        torch.set_num_threads(2)
        settled(made := arm("compiled"))
        torch.utils.benchmark.Timer("step()", globals={"step": made.step}).timeit(1)
        guards = [c.guard for c in torch_private.drain()]
        assert guards
        assert all("num_threads" in guard for guard in guards)

    def test_backend_none_compiles_nothing(self):
        """Two eager arms, whose difference is the noise."""
        made = arm("compiled", "compile=none", "scheduler=linear")
        made.take_step()
        made.block(10)
        assert torch_private.drain() == []

    def test_how_to_compile_is_passed_on(self, monkeypatch):
        """Backend, mode, fullgraph and dynamic as configured; mode default is torch's own."""
        seen = []
        monkeypatch.setattr(torch, "compile", lambda step, **how: seen.append(how) or step)
        arm("compiled", "compile=inductor", "compile.mode=max-autotune", "compile.dynamic=false")
        arm("compiled", "compile.fullgraph=true")
        assert seen == [
            {"backend": "inductor", "mode": "max-autotune", "fullgraph": False, "dynamic": False},
            {"backend": "aot_eager", "mode": None, "fullgraph": True, "dynamic": None},
        ]


class TestEagerAfterCompile:
    def test_its_optimizer_is_compiled_and_called_five_times(self):
        """As PyTorch's tutorial does before it times the eager step."""
        made = arm("eager_after_compile")
        assert sum(c.has_graph for c in torch_private.drain()) == 1
        assert steps_of(made) == made.steps_taken == arms.TUTORIAL_WARM_UPS == 5

    def test_what_is_timed_is_not_compiled(self):
        """The step itself, outside torch.compile."""
        made = arm("eager_after_compile")
        torch_private.drain()
        made.take_step()
        made.block(10)
        assert made.step is made.workload.step
        assert torch_private.drain() == []

    def test_on_a_cpu_compiling_leaves_the_optimizer_as_it_was(self):
        """What it changes for good, it changes on CUDA only."""
        made = arm("eager_after_compile")
        assert [g["capturable"] for g in made.workload.optimizer.param_groups] == [False]


@pytest.mark.parametrize("name", MAKERS)
class TestBlock:
    @pytest.mark.parametrize(("steps", "untimed"), [(1, 2), (250, 2), (1000, 10)])
    def test_all_its_steps_are_counted(self, name, steps, untimed):
        """The timer takes 2 or a hundredth of them more beforehand; Adam counts the same."""
        made = arm(name)
        before = made.steps_taken
        made.block(steps)
        assert made.steps_taken == steps_of(made) == before + steps + untimed

    def test_a_single_step_is_counted(self, name):
        """Steps of trace and warm-up count like those of blocks."""
        made = arm(name)
        before = made.steps_taken
        made.take_step()
        assert made.steps_taken == steps_of(made) == before + 1

    def test_it_is_timed_by_the_given_clock(self, name):
        """From one reading before the steps to one after them, however many steps."""
        clock = Ticks()
        made = arm(name, now=clock)
        assert [made.block(1), made.block(20)] == [1.0, 1.0]

    def test_every_arm_is_timed_by_the_same_code(self, name):
        """Nothing but the step differs."""
        assert arm(name).block.__code__ is arm("eager").block.__code__
