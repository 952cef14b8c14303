"""The path of a step: from operations that really ran."""

import time

import pytest
import torch

from src.bench import arms, path, torch_private, trace
from src.bench.path import Operation, Path
from tests.specs import spec

CPU = torch.device("cpu")

needs_cxx = pytest.mark.usefixtures("cxx_compiler")

FOREACH = (
    *("adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam"),
    *("radam", "rmsprop", "rprop", "sgd", "sgd_momentum"),
)
"""Optimizers with a multi-tensor implementation, by the documentation of torch.optim."""

FUSED = ("adagrad", "adam", "adamw", "sgd")
"""Optimizers with fused kernels on a CPU, by the same."""


@torch.compiler.disable
def halve(parameters):
    """Halve parameters where torch.compile cannot see it."""
    for parameter in parameters:
        parameter.mul_(0.5)


class Partly(torch.optim.Optimizer):
    """Takes a step in two compiled parts with one eager operation a parameter between them."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        """Descend, halve, descend."""
        group = self.param_groups[0]
        parameters = group["params"]
        gradients = [p.grad for p in parameters]
        torch._foreach_add_(parameters, gradients, alpha=-group["lr"])
        halve(parameters)
        torch._foreach_add_(parameters, gradients, alpha=-group["lr"])


def composed(*overrides):
    """Return the spec of a run with two tensors on the CPU."""
    return spec("model=tiny", "device=cpu", *overrides)


def eager(*overrides):
    """Return the path of an eager step, the second of its optimizer."""
    arm = arms.eager(composed(*overrides), CPU, time.perf_counter)
    arm.take_step()
    return path.take(arm.take_step)


def outside(*overrides, steps=3):
    """Return the graphs of a trace, and how many operations a step after it ran outside of them."""
    how = composed(*overrides)
    arm, recorder = arms.compiled(how, CPU, time.perf_counter), trace.Recorder()
    recorder.take(arm.take_step, steps, time.perf_counter)
    graphs = {c.id for c in recorder.trace().graphs}
    taken = path.take(arm.take_step)
    assert torch_private.drain() == []
    return len(graphs), taken.outside_graphs(graphs, how.compile.backend)


class TestImplementation:
    @pytest.mark.parametrize("optimizer", [*FOREACH, "muon", "lbfgs", "sparseadam"])
    def test_on_a_cpu_torch_chooses_the_loop(self, optimizer):
        """As the documentation of torch.optim says."""
        assert eager(f"optimizer={optimizer}").implementation() == "forloop"

    @pytest.mark.parametrize("optimizer", FOREACH)
    def test_foreach_is_seen(self, optimizer):
        """In the multi-tensor operations that ran."""
        assert eager(f"optimizer={optimizer}", "optimizer.foreach=true").implementation() == "foreach"

    @pytest.mark.parametrize("optimizer", FUSED)
    def test_fused_is_seen(self, optimizer):
        """Though it counts its steps with a multi-tensor operation."""
        assert eager(f"optimizer={optimizer}", "optimizer.fused=true").implementation() == "fused"

    def test_a_step_without_operations_is_a_loop(self):
        """Over nothing."""
        assert path.take(lambda: None).implementation() == "forloop"


class TestOutsideOptimizer:
    def test_an_optimizer_alone_has_nothing_outside(self):
        """Every operation is its own."""
        taken = eager("optimizer=adam")
        assert len(taken.operations) > 0
        assert taken.outside_optimizer() == 0

    def test_a_scheduler_of_a_float_has_nothing(self):
        """It calculates in Python."""
        assert eager("optimizer=adam", "scheduler=linear").outside_optimizer() == 0

    def test_a_scheduler_of_a_tensor_calculates_with_torch(self):
        """The new learning rate is filled into the tensor, outside of the optimizer's step."""
        taken = eager("optimizer=adam", "scheduler=linear", "lr_type=cpu_tensor")
        others = [operation.name for operation in taken.operations if not operation.in_optimizer]
        assert "aten::fill_" in others
        assert taken.outside_optimizer() == len(others)

    def test_without_an_optimizers_step_nothing_can_be_told(self):
        """Such as a compiled step: no operation belongs to anyone else."""
        assert path.take(lambda: torch.ones(3) + 1).outside_optimizer() == 0

    def test_a_custom_optimizers_step_is_one_too(self):
        """Torch puts its range around every subclass."""
        taken = eager("optimizer=custom", "optimizer._target_=tests.bench.test_path.Partly")
        assert taken.outside_optimizer() == 0
        assert all(operation.in_optimizer for operation in taken.operations)


class TestOutsideGraphs:
    @pytest.mark.parametrize(
        "overrides",
        [
            ("optimizer=adam",),
            ("optimizer=adam", "optimizer.foreach=true"),
            ("optimizer=muon",),
            ("optimizer=sgd_momentum",),
            # guards on a float run operations too, in some versions: they are no part of the step
            ("optimizer=adam", "scheduler=linear"),
        ],
        ids=" ".join,
    )
    def test_a_compiled_step_has_none(self, overrides):
        """All its operations are in the frame of its graph."""
        graphs, operations = outside("compile=aot_eager", *overrides, steps=6)
        assert graphs > 0
        assert operations == 0

    @needs_cxx
    @pytest.mark.parametrize("optimizer", ["adam", "muon"])
    def test_nor_has_inductors(self, optimizer, cold_cache):
        """Also where it calls kernels of torch's own, as for Muon's products of matrices."""
        assert outside("compile=inductor", f"optimizer={optimizer}") == (1, 0)

    def test_operations_of_a_tensors_scheduler_are_outside(self):
        """As many as it has in an eager step."""
        how = ("optimizer=adam", "scheduler=linear", "lr_type=cpu_tensor")
        assert outside("compile=aot_eager", *how) == (1, eager(*how).outside_optimizer())

    @pytest.mark.parametrize("optimizer", FUSED)
    def test_a_fused_step_is_all_outside(self, optimizer):
        """It has no graph: as many as in an eager step."""
        how = (f"optimizer={optimizer}", "optimizer.fused=true")
        graphs, operations = outside("compile=aot_eager", *how)
        assert (graphs, operations) == (0, len(eager(*how).operations))
        assert operations > 0

    @needs_cxx
    def test_what_runs_between_two_graphs_is_outside(self, cold_cache):
        """Two parameters, an eager operation each."""
        how = ("optimizer=custom", "optimizer._target_=tests.bench.test_path.Partly")
        assert outside("compile=inductor", *how) == (2, 2)

    def test_other_backends_show_only_frames(self):
        """What a frame calls between two graphs is then taken for compiled, as it says."""
        how = ("optimizer=custom", "optimizer._target_=tests.bench.test_path.Partly")
        assert outside("compile=aot_eager", *how) == (2, 0)

    def test_a_frame_counts_only_with_a_graph(self):
        """An operation in a frame without one is eager."""
        inside, elsewhere = (Operation("aten::add", frame, False, False) for frame in ("2/0", "1/0"))
        nowhere = Operation("aten::add", None, False, False)
        taken = Path((inside, elsewhere, nowhere), frozenset({"1/0", "2/0"}))
        assert taken.outside_graphs({"2/0"}, "aot_eager") == 2

    def test_inductor_counts_only_its_calls(self):
        """Whatever frame is around them."""
        operations = (Operation("aten::mm", "2/0", True, False), Operation("aten::mul", "2/0", False, False))
        assert Path(operations, frozenset({"2/0"})).outside_graphs({"2/0"}, "inductor") == 1


class TestRanGraph:
    @pytest.mark.parametrize(
        ("graphs", "expected"), [({"2/0"}, True), ({"2/0", "9/9"}, True), ({"2/1"}, False), (set(), False)]
    )
    def test_a_frame_with_a_graph_ran(self, graphs, expected):
        """By its compile id, frame and attempt."""
        assert Path((), frozenset({"0/0", "2/0"})).ran_graph(graphs) is expected


class TestTake:
    def test_the_step_is_taken_once(self):
        """No step more than the caller counts."""
        taken = []
        path.take(lambda: taken.append(1))
        assert taken == [1]

    def test_an_operation_within_another_is_none_of_the_steps(self):
        """Adding an integer to a float tensor converts it within: one operation was asked for."""
        x = torch.ones(3)
        assert [operation.name for operation in path.take(lambda: x.add_(1)).operations] == ["aten::add_"]

    def test_an_operation_knows_the_innermost_frame(self):
        """After a graph break it is the frame that goes on."""

        def broken(x):
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2

        step, x = torch.compile(broken, backend="eager"), torch.ones(3)
        step(x)
        first, second = (c.id for c in torch_private.drain())
        taken = path.take(lambda: step(x))
        assert [(o.name, o.compile_id) for o in taken.operations] == [
            ("aten::add", first),
            ("aten::mul", second),
        ]
        assert taken.frames == {first, second}
