"""Arms: separate objects, one timing code, and only the compiled one is ever compiled."""

import gc
import itertools
import time

import pytest
import torch

from src.bench import arms, path, torch_private
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


class Written:
    """What happened, in its order, written down by a clock, a flush and a step."""

    def __init__(self):
        self.events = []

    def now(self):
        """Read the clock: its time is the number of things that happened."""
        self.events.append("clock")
        return float(len(self.events))

    def flush(self):
        """Empty the caches."""
        self.events.append("flush")

    def step(self, *_hook_arguments):
        """Take a step."""
        self.events.append("step")


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


class TestBaseline:
    """`measure.baseline` chooses what the eager arm runs, whatever the optimizer's flags say."""

    @pytest.mark.parametrize("name", ["forloop", "foreach", "fused"])
    @pytest.mark.parametrize("flags", [(), ("optimizer.foreach=true",), ("optimizer.foreach=false",)])
    def test_the_eager_arm_runs_it(self, name, flags):
        """By the operations of a step."""
        made = arm("eager", f"measure.baseline={name}", *flags)
        made.take_step()
        assert path.take(made.take_step).implementation() == name

    def test_the_compiled_arm_does_not(self):
        """A fused step would not be compiled at all."""
        made = arm("compiled", "measure.baseline=fused")
        made.take_step()
        assert sum(c.has_graph for c in torch_private.drain()) == 1
        assert {(g["foreach"], g["fused"]) for g in made.workload.optimizer.param_groups} == {(None, None)}

    def test_its_learning_rate_stays_in_its_tensor(self):
        """What holds the learning rate is another question."""
        made = arm("eager", "optimizer=sgd", "measure.baseline=foreach", "lr_type=cpu_tensor")
        assert isinstance(made.workload.optimizer.param_groups[0]["lr"], torch.Tensor)


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


def found_by_blocks(made, blocks=4):
    """Return the gradients as they are after each of some blocks, and their values at the start."""
    parameters = made.workload.parameters
    start = [p.grad.clone() for p in parameters]
    found = [[p.grad for p in parameters]]
    for _ in range(blocks):
        made.block(3)
        found.append([p.grad for p in parameters])
    return start, found


@pytest.mark.parametrize("name", MAKERS)
class TestGradients:
    def test_fresh_ones_lie_elsewhere_in_each_block(self, name):
        """Other tensors in other memory than those of the block before, with the same values."""
        start, found = found_by_blocks(arm(name, "measure.grads=fresh"))
        for before, after in itertools.pairwise(found):
            for one, other in zip(before, after, strict=True):
                assert one is not other
                assert one.data_ptr() != other.data_ptr()
        assert all(torch.equal(a, b) for step in found for a, b in zip(start, step, strict=True))

    def test_static_ones_stay_where_they_are(self, name):
        """The very tensors that the arm was built with, however many blocks."""
        start, found = found_by_blocks(arm(name, "measure.grads=static"))
        assert {tuple(map(id, step)) for step in found} == {tuple(map(id, found[0]))}
        assert all(map(torch.equal, start, found[0]))

    def test_torch_is_told_of_static_ones_alone(self, name, monkeypatch):
        """Each gradient is marked, and no other tensor."""
        marked = []
        monkeypatch.setattr(torch_private, "mark_static", marked.append)
        arm(name, "measure.grads=fresh")
        assert marked == []
        made = arm(name, "measure.grads=static")
        assert list(map(id, marked)) == [id(p.grad) for p in made.workload.parameters]

    @pytest.mark.parametrize("grads", ["fresh", "static"])
    def test_neither_makes_a_step_compile_again(self, name, grads):
        """Whatever block finds them where."""
        settled(made := arm(name, f"measure.grads={grads}"))
        for _ in range(3):
            made.block(2)
        assert torch_private.drain() == []


class TestFlush:
    """With `measure.flush_cache` a block times each step by itself, the caches emptied before it."""

    @pytest.fixture
    def written(self, monkeypatch):
        """Return what a clock, the flush of each arm, and hooks of its optimizer write down."""
        written = Written()
        monkeypatch.setattr(arms.flush, "of", lambda _device: written.flush)
        return written

    @pytest.mark.parametrize(("steps", "untimed"), [(1, 2), (3, 2), (300, 3)])
    def test_a_flush_precedes_each_timed_step_and_is_not_timed(self, written, steps, untimed):
        """The clock is read right before and right after each step; the block's time is their sum.

        Each thing that happens takes 1 s here, so a step takes 2: itself, and the second reading.
        """
        made = arm("eager", "measure.flush_cache=true", now=written.now)
        made.workload.optimizer.register_step_pre_hook(written.step)
        seconds = made.block(steps)
        assert written.events == ["step"] * untimed + ["flush", "clock", "step", "clock"] * steps
        assert seconds == 2.0 * steps

    @pytest.mark.parametrize("name", MAKERS)
    def test_its_steps_are_counted_like_others(self, written, name):
        """By the arm and by Adam."""
        made = arm(name, "measure.flush_cache=true", now=written.now)
        before = made.steps_taken
        made.block(5)
        assert made.steps_taken == steps_of(made) == before + 5 + 2
        assert written.events.count("flush") == 5

    @pytest.mark.parametrize("name", MAKERS)
    def test_it_does_not_recompile_the_step(self, written, name):
        """A flush is no part of what is compiled."""
        settled(made := arm(name, "measure.flush_cache=true"))
        made.block(5)
        assert torch_private.drain() == []

    @pytest.mark.parametrize("collecting", [True, False])
    def test_no_garbage_is_collected_meanwhile(self, written, monkeypatch, collecting):
        """As in the blocks of `Timer`; afterwards it is as it was, even after a step that raises."""
        seen, was = [], gc.isenabled()
        made = arm("eager", "measure.flush_cache=true", now=written.now)

        def hook(*_arguments):
            seen.append(gc.isenabled())
            if len(seen) > 4:
                raise RuntimeError("boom")

        made.workload.optimizer.register_step_pre_hook(hook)
        try:
            (gc.enable if collecting else gc.disable)()
            made.block(2)
            after = gc.isenabled()
            with pytest.raises(RuntimeError, match="boom"):
                made.block(2)
            assert (after, gc.isenabled()) == (collecting, collecting)
        finally:
            (gc.enable if was else gc.disable)()
        assert seen == [False] * 5

    def test_without_it_there_is_no_buffer(self, monkeypatch):
        """It may be as large as some caches."""
        monkeypatch.delattr(arms.flush, "of")
        assert arm("eager").block(2) > 0


class TestSequential:
    def test_it_is_the_mean_of_the_timer_in_us(self):
        """Torch's `blocked_autorange` by a clock of 1 s a reading: one step of 1 s is block enough."""
        made = arm("eager")
        assert arms.sequential_us(made.step, Ticks()) == 1e6

    def test_it_does_not_recompile_the_step(self):
        """As the tutorial's own thread count would."""
        torch.set_num_threads(2)
        settled(made := arm("compiled"))
        arms.sequential_us(made.step, time.perf_counter)
        assert torch_private.drain() == []
