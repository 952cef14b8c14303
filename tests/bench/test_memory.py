"""Memory of a step: bytes worked out by hand, fake systems, and real steps on this machine."""

import gc

import pytest
import torch

from src.bench import memory, workload
from src.bench.workload import Workload
from tests.specs import spec

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
MIB = 2**20


def parameter(*shape):
    """Return a float32 parameter with a gradient."""
    made = torch.nn.Parameter(torch.randn(shape))
    made.grad = torch.randn(shape)
    return made


def built(optimizer):
    """Return the workload of an optimizer of plain parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return Workload(parameters, optimizer, None, optimizer.step)


class Keeping(torch.optim.Optimizer):
    """An optimizer whose state a test fills."""

    def __init__(self, *parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        """Do nothing."""


class EightBit(torch.Tensor):
    """A tensor that says it is float32 and keeps codes and scales, as low-bit states do."""

    @staticmethod
    def __new__(cls, codes, scales):
        """Return one of the shape of the codes."""
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)

    def __init__(self, codes, scales):
        self.codes, self.scales = codes, scales

    def __tensor_flatten__(self):
        """Return the names of its parts."""
        return ["codes", "scales"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Detach by itself; nothing else is asked of it."""
        return cls(args[0].codes, args[0].scales)


class TestStateBytes:
    def test_moments_and_step_counters_count(self):
        """Adam, 12 and 5 elements: two moments of 4 bytes an element, a counter of 4 bytes each."""
        optimizer = torch.optim.Adam([parameter(3, 4), parameter(5)])
        assert memory.state_bytes(optimizer) == 0
        optimizer.step()
        assert memory.state_bytes(optimizer) == 2 * (12 + 5) * 4 + 2 * 4

    def test_a_dtype_counts_as_it_is(self):
        """3 elements of 2 bytes."""
        p = parameter(3)
        optimizer = Keeping(p)
        optimizer.state[p]["m"] = torch.ones(3, dtype=torch.bfloat16)
        assert memory.state_bytes(optimizer) == 6

    def test_what_is_nested_counts(self):
        """A history as LBFGS keeps one: 3 times 5 elements."""
        p = parameter(5)
        optimizer = Keeping(p)
        optimizer.state[p]["history"] = [torch.ones(5), {"deeper": (torch.ones(5), torch.ones(5))}]
        assert memory.state_bytes(optimizer) == 3 * 5 * 4

    def test_shared_memory_counts_once_and_whole(self):
        """Two views of a buffer of 100 elements, one of them in two places."""
        p = parameter(5)
        buffer = torch.ones(100)
        optimizer = Keeping(p)
        optimizer.state[p] |= {"m": buffer[:5], "v": buffer[5:10], "again": buffer[:5]}
        assert memory.state_bytes(optimizer) == 400

    def test_tensors_of_the_optimizer_itself_count(self):
        """7 elements in an attribute."""
        optimizer = Keeping(parameter(5))
        optimizer.buffer = torch.ones(7)
        assert memory.state_bytes(optimizer) == 28

    def test_parameters_and_gradients_are_no_state(self):
        """Though the optimizer keeps them."""
        p = parameter(5)
        optimizer = Keeping(p)
        optimizer.state[p] |= {"parameter": p, "gradient": p.grad}
        assert memory.state_bytes(optimizer) == 0

    def test_a_tensor_made_of_others_is_as_large_as_they_are(self):
        """64 codes of one byte and 2 scales of 4, not 64 elements of 4."""
        p = parameter(64)
        optimizer = Keeping(p)
        optimizer.state[p]["m"] = EightBit(torch.zeros(64, dtype=torch.uint8), torch.ones(2))
        assert memory.state_bytes(optimizer) == 64 + 8


class TestOwnBytes:
    def test_parameters_gradients_and_states_are_added(self):
        """Momentum SGD, 12 elements: three times 48 bytes."""
        optimizer = torch.optim.SGD([parameter(3, 4)], lr=0.1, momentum=0.9)
        assert memory.own_bytes(built(optimizer)) == 2 * 48
        optimizer.step()
        assert memory.own_bytes(built(optimizer)) == 3 * 48

    def test_a_frozen_parameter_counts_without_a_gradient(self):
        """12 elements with one, 5 without."""
        frozen = torch.nn.Parameter(torch.ones(5), requires_grad=False)
        optimizer = torch.optim.SGD([parameter(3, 4), frozen], lr=0.1)
        assert memory.own_bytes(built(optimizer)) == 2 * 48 + 20

    def test_a_sparse_gradient_is_indices_and_values(self):
        """3 rows of 4: 48 bytes of parameter, as many of values, and three indices of 8."""
        p = parameter(3, 4)
        p.grad = p.grad.to_sparse(1)
        assert memory.own_bytes(built(Keeping(p))) == 48 + 48 + 24

    def test_of_a_whole_workload(self):
        """Two tensors of 64 x 64 in float32, Adam: four such sets, and two counters."""
        made = workload.build(spec("model=tiny", "optimizer=adam", "device=cpu"), CPU)
        made.step()
        assert memory.own_bytes(made) == 4 * 2 * 64 * 64 * 4 + 2 * 4


class TestPeakBytes:
    def test_it_is_what_the_arm_owns_and_the_temporary_memory(self, monkeypatch):
        """48 + 48 bytes, and 1000."""
        optimizer = torch.optim.SGD([parameter(3, 4)], lr=0.1)
        monkeypatch.setattr(memory, "temporary_on_cpu", lambda step: 1000)
        assert memory.peak_bytes(built(optimizer), optimizer.step, CPU) == 1096

    def test_without_a_peak_there_is_no_number(self, monkeypatch):
        """Not even of what is known."""
        optimizer = torch.optim.SGD([parameter(3, 4)], lr=0.1)
        monkeypatch.setattr(memory, "temporary_on_cpu", lambda step: None)
        assert memory.peak_bytes(built(optimizer), optimizer.step, CPU) is None

    @pytest.mark.parametrize("graphs", [True, False])
    def test_on_cuda_the_allocator_is_asked(self, graphs, monkeypatch):
        """With the pools of graphs where there are any."""
        optimizer = torch.optim.SGD([parameter(3, 4)], lr=0.1)
        monkeypatch.setattr(
            memory, "temporary_on_cuda", lambda step, device, graphs: 5000 if graphs else 2000
        )
        found = memory.peak_bytes(built(optimizer), optimizer.step, CUDA, graphs=graphs)
        assert found == 96 + (5000 if graphs else 2000)


class Cuda:
    """An allocator as `torch.cuda` shows it, with the segments of three pools on two devices."""

    def __init__(self):
        self.allocated, self.peak, self.pending = 500, 9000, 0

    def synchronize(self, device):
        """Let what was enqueued happen."""
        self.peak, self.pending = max(self.peak, self.allocated + self.pending), 0

    def reset_peak_memory_stats(self, device):
        """Forget the peak."""
        self.peak = self.allocated

    def memory_allocated(self, device):
        """Return what is allocated."""
        return self.allocated

    def max_memory_allocated(self, device):
        """Return the most since the reset."""
        return self.peak

    def current_device(self):
        """Return the number of the first device."""
        return 0

    def memory_snapshot(self):
        """Return segments as torch documents them, as far as they are looked at."""
        pools = (((0, 0), 0, 16), ((0, 1), 0, 200), ((3, 0), 0, 3000), ((0, 1), 1, 40000))
        return [{"segment_pool_id": p, "device": d, "total_size": size} for p, d, size in pools]


class TestTemporaryOnCuda:
    def step_of(self, cuda, temporary):
        """Return a step that allocates that much and frees it."""

        def step():
            cuda.pending = temporary

        return step

    def test_it_is_the_peak_beyond_what_was_there(self):
        """An earlier peak is forgotten, and 500 bytes are there before."""
        cuda = Cuda()
        found = memory.temporary_on_cuda(self.step_of(cuda, 70), CUDA, graphs=False, cuda=cuda)
        assert found == 70

    @pytest.mark.parametrize("device", [CUDA, torch.device("cuda")])
    def test_pools_of_graphs_are_added(self, device):
        """Those of this device, and not the common pool: 200 + 3000."""
        cuda = Cuda()
        found = memory.temporary_on_cuda(self.step_of(cuda, 70), device, graphs=True, cuda=cuda)
        assert found == 3270


class Reserving(Cuda):
    """The same allocator, which takes segments of 100 bytes and keeps what is freed."""

    idle = 400
    """Segments that lie idle before the step."""

    def empty_cache(self):
        """Give back what lies idle."""
        self.idle = 0

    def memory_reserved(self, device):
        """Return what is taken."""
        return self.allocated + self.idle

    def max_memory_reserved(self, device):
        """Return the most since the reset, in whole segments."""
        return self.allocated + max(self.idle, -(-(self.peak - self.allocated) // 100) * 100)


class TestReservedBytes:
    @pytest.mark.parametrize(("graphs", "pools"), [(False, 0), (True, 3200)])
    def test_what_lay_idle_before_does_not_count(self, graphs, pools):
        """A temporary of 170 bytes takes two segments; parameter and gradient have 16 bytes each."""
        arm, cuda = built(torch.optim.SGD([parameter(4)])), Reserving()

        def step():
            cuda.pending = 170

        found = memory.reserved_bytes(arm, step, CUDA, graphs=graphs, cuda=cuda)
        assert found == 32 + 200 + pools

    def test_what_finds_room_among_other_tensors_counts_as_it_is(self):
        """No segment is added for it."""
        arm, cuda = built(torch.optim.SGD([parameter(4)])), Reserving()
        cuda.max_memory_reserved = cuda.memory_reserved

        def step():
            cuda.pending = 170

        assert memory.reserved_bytes(arm, step, CUDA, cuda=cuda) == 32 + 170

    def test_a_cpu_reserves_nothing(self):
        """Nor is a step taken."""
        arm = built(torch.optim.SGD([parameter(4)]))
        assert memory.reserved_bytes(arm, lambda: 1 / 0, torch.device("cpu")) is None


class Linux:
    """A /proc in a folder: what `status` says before a step, and after it."""

    def __init__(self, folder, before, after):
        self.folder, self.after, self.events = folder, after, []
        self.write(before)

    def write(self, lines):
        """Write `status`."""
        (self.folder / "status").write_text("Name:\tpython\n" + lines)

    def give_back(self):
        """Note it, and that the peak was not yet reset."""
        self.events.append(("given back", (self.folder / "clear_refs").exists()))
        return True

    def step(self):
        """Note the reset, and change `status`."""
        self.events.append(("step", (self.folder / "clear_refs").read_text()))
        self.write(self.after)

    def measure(self):
        """Return what the step took."""
        return memory.temporary_on_cpu(self.step, self.folder, self.give_back)


class TestTemporaryOnCpu:
    def test_it_is_the_new_peak_beyond_what_was_resident(self, tmp_path):
        """The kernel writes kB for 1024 bytes: 1300 - 1000 of them; the peak before does not matter."""
        before = "VmHWM:\t    9000 kB\nVmRSS:\t    1000 kB\n"
        after = "VmHWM:\t    1300 kB\nVmRSS:\t    1100 kB\n"
        linux = Linux(tmp_path, before, after)
        assert linux.measure() == 300 * 1024
        assert linux.events == [("given back", False), ("step", "5")]

    def test_a_step_that_needs_nothing_takes_nothing(self, tmp_path):
        """Nor less than nothing: the kernel's two counts differ by some pages."""
        linux = Linux(tmp_path, "VmHWM:\t1000 kB\nVmRSS:\t1000 kB\n", "VmHWM:\t996 kB\n")
        assert linux.measure() == 0

    def test_where_the_peak_cannot_be_reset_there_is_no_number(self, tmp_path):
        """No /proc; the step is not taken."""
        taken = []
        gone = tmp_path / "gone"
        assert memory.temporary_on_cpu(lambda: taken.append(1), gone, lambda: True) is None
        assert taken == []

    @pytest.mark.parametrize(
        ("before", "after"), [("VmHWM:\t1 kB\n", ""), ("VmRSS:\t1 kB\n", "VmRSS:\t1 kB\n")]
    )
    def test_where_status_lacks_a_line_there_is_no_number(self, before, after, tmp_path):
        """What is resident, or the peak."""
        assert Linux(tmp_path, before, after).measure() is None

    def test_where_memory_cannot_be_given_back_there_is_no_number(self, tmp_path):
        """Another C library; the step is not taken and nothing is reset."""
        taken = []
        assert memory.temporary_on_cpu(lambda: taken.append(1), tmp_path, lambda: False) is None
        assert taken == []
        assert list(tmp_path.iterdir()) == []

    def test_an_error_of_the_step_is_its_own(self, tmp_path):
        """Also one that looks like one of /proc."""
        linux = Linux(tmp_path, "VmRSS:\t1 kB\n", "")

        def step():
            raise FileNotFoundError("of the step")

        with pytest.raises(FileNotFoundError, match="of the step"):
            memory.temporary_on_cpu(step, linux.folder, linux.give_back)


def can_measure():
    """Return whether this system tells the peak of a resident set."""
    return memory.temporary_on_cpu(lambda: None) is not None


@pytest.mark.skipif(not can_measure(), reason="this system does not tell the peak of a resident set")
class TestRealSteps:
    def temporary(self, shapes, **flags):
        """Return the temporary memory of a third and a fourth step of Adam, and tidy up."""
        optimizer = torch.optim.Adam([parameter(*shape) for shape in shapes], **flags)
        for _ in range(2):
            optimizer.step()
        found = [memory.temporary_on_cpu(optimizer.step) for _ in range(2)]
        del optimizer
        gc.collect()
        return found

    def test_a_loop_over_tensors_holds_copies_of_one(self):
        """64 MiB: the denominator is one copy of it, and its root another while it is made."""
        for found in self.temporary([(4096, 4096)], foreach=False):
            assert 64 * MIB - MIB <= found <= 4 * 64 * MIB

    def test_a_fused_step_holds_none(self):
        """It works in place."""
        for found in self.temporary([(4096, 4096)], fused=True):
            assert found < 16 * MIB

    def test_memory_that_the_allocator_kept_is_no_hiding_place(self):
        """A multi-tensor step holds the roots of all 64 tensors of 256 KiB, 16 MiB, every time."""
        for found in self.temporary([(256, 256)] * 64, foreach=True):
            assert 15 * MIB <= found <= 4 * 16 * MIB


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
@pytest.mark.filterwarnings("ignore:::torch")
class TestOnGpu:
    """Adam and ten tensors of 1024 x 1024 in float32: 40 MiB."""

    def warm(self, *overrides, mode=None):
        """Return a workload and its step, warm, compiled where a mode is given."""
        how = spec(
            *("model=tiny", "model.depth=10", "model.width=1024", "device=cuda", "optimizer=adam"), *overrides
        )
        made = workload.build(how, CUDA)
        step = made.step if mode is None else torch.compile(made.step, mode=mode)
        for _ in range(5):
            step()
        return made, step

    @pytest.mark.parametrize(
        ("overrides", "mode", "least", "most"),
        [
            ((), None, 40, 80),
            (("optimizer.fused=true",), None, 0, 1),
            ((), "default", 0, 1),
        ],
    )
    def test_temporary_memory(self, overrides, mode, least, most, cold_cache):
        """A multi-tensor step holds the roots of all second moments; the others work in place."""
        _, step = self.warm(*overrides, mode=mode)
        found = memory.temporary_on_cuda(step, CUDA, graphs=False)
        assert least * MIB <= found <= most * MIB

    def test_a_graph_keeps_copies_of_its_gradients(self, cold_cache):
        """40 MiB in its pool, while a replay allocates next to nothing."""
        made, step = self.warm(mode="reduce-overhead")
        assert memory.temporary_on_cuda(step, CUDA, graphs=False) < MIB
        assert memory.temporary_on_cuda(step, CUDA, graphs=True) >= 40 * MIB
        own = 4 * 40 * MIB
        assert memory.peak_bytes(made, step, CUDA, graphs=True) >= own + 40 * MIB
