"""What a step keeps busy, on fake clocks and hand-made profiles; on a GPU, counts of another program."""

import gc

import pytest
import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import DeviceType, ProfilerActivity, profile

from src.bench import activity, workload
from src.bench.activity import DeviceActivity
from tests.specs import spec

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)


class Host:
    """A host and a device in fake time: `now` in s; each step costs the host, and more if it waits."""

    def __init__(self, step_seconds, collecting=()):
        self.seconds = 0.0
        self.steps = 0
        self.waits = []
        self.collecting = list(collecting)
        self._costs = iter(step_seconds)

    def now(self):
        """Return the time."""
        return self.seconds

    def step(self):
        """Enqueue a step."""
        self.steps += 1
        self.seconds += next(self._costs)
        self.collecting.append(gc.isenabled())

    def synchronize(self):
        """Wait for the device, for long."""
        self.waits.append(self.steps)
        self.seconds += 1000.0


def forever(cost):
    """Yield the same cost again and again."""
    while True:
        yield cost


def event(start, end, **different):
    """Return a device event of a profile."""
    made = FunctionEvent(
        id=0, name="kernel", thread=0, start_us=start, end_us=end, device_type=DeviceType.CUDA
    )
    vars(made).update({"is_user_annotation": False} | different)
    return made


def recorder(*profiles):
    """Return a `record` that gives these profiles, one after the other, and the steps asked of each."""
    left, asked = list(profiles), []

    def record(_step, _device, steps):
        asked.append(steps)
        return left.pop(0)

    return record, asked


def kernels(count):
    """Return so many events of 3 us each."""
    return [(10.0 * i, 10.0 * i + 3.0) for i in range(count)]


class TestBusy:
    def test_events_apart_add_up(self):
        """2 + 3 us in one step."""
        assert activity.busy([(0.0, 2.0), (5.0, 8.0)], 1) == DeviceActivity(5.0, 2)

    def test_what_overlaps_is_busy_once(self):
        """0 to 6 us, though the events last 4 + 5 us; the third lies within the second."""
        assert activity.busy([(0.0, 4.0), (1.0, 6.0), (2.0, 3.0)], 1) == DeviceActivity(6.0, 3)

    def test_the_order_does_not_matter(self):
        """A long event that goes on after two shorter ones in it: 0 to 10 us and 12 to 13."""
        events = [(12.0, 13.0), (5.0, 6.0), (3.0, 4.0), (0.0, 10.0)]
        assert activity.busy(events, 1) == DeviceActivity(11.0, 4)

    def test_what_touches_leaves_no_gap(self):
        """1 + 1 us."""
        assert activity.busy([(0.0, 1.0), (1.0, 2.0)], 1).busy_us == 2.0

    def test_it_is_per_step(self):
        """Six events of 3 us in two steps."""
        assert activity.busy(kernels(6), 2) == DeviceActivity(9.0, 3)

    def test_a_broken_count_is_rounded(self):
        """One kernel more in every tenth step does not show: 21 in ten steps are 2 each."""
        assert activity.busy(kernels(21), 10).kernels == 2

    def test_nothing_is_nothing(self):
        """No event."""
        assert activity.busy([], 3) == DeviceActivity(0.0, 0)


class TestDeviceEvents:
    def test_they_have_start_and_end_in_us(self):
        """As the profile has them."""
        assert activity.device_events([event(1.5, 2.5)]) == [(1.5, 2.5)]

    @pytest.mark.parametrize(
        "other",
        [
            {"device_type": DeviceType.CPU, "name": "cudaLaunchKernel"},
            {"is_user_annotation": True, "name": "Optimizer.step#Adam.step"},
            {"name": "Context Sync"},
            {"name": "Stream Wait Event"},
        ],
    )
    def test_what_is_no_work_of_the_device_is_left_out(self, other):
        """Calls of the host, its ranges, and waiting."""
        assert activity.device_events([event(0.0, 9.0, **other), event(1.0, 2.0)]) == [(1.0, 2.0)]

    @pytest.mark.parametrize("name", ["Memcpy DtoD (Device -> Device)", "Memset (Device)"])
    def test_copies_and_fills_count(self, name):
        """By the names that torch gives them."""
        assert activity.device_events([event(1.0, 2.0, name=name)]) == [(1.0, 2.0)]

    def test_a_real_profile_of_a_cpu_has_none(self):
        """Of real events, with the attributes that are looked at."""
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
            torch.ones(3) + 1
        assert profiled.events()
        assert activity.device_events(profiled.events()) == []
        assert {e.is_user_annotation for e in profiled.events()} == {False}


class TestOnDevice:
    def test_a_cpu_has_none(self):
        """And no step is taken."""
        host = Host(forever(1.0))
        assert activity.on_device(host.step, CPU) is None
        assert host.steps == 0

    def test_the_first_profile_is_thrown_away(self):
        """Then two that agree."""
        record, asked = recorder(kernels(1), kernels(14), kernels(14))
        assert activity.on_device(print, CUDA, 2, record) == DeviceActivity(21.0, 7)
        assert asked == [1, 2, 2]

    def test_a_profile_that_misses_events_is_repeated(self):
        """Until two in a row agree."""
        record, asked = recorder([], kernels(13), kernels(14), kernels(14))
        assert activity.on_device(print, CUDA, 2, record).kernels == 7
        assert asked == [1, 2, 2, 2]

    def test_where_none_agree_the_fullest_counts(self):
        """Of four."""
        record, asked = recorder([], kernels(14), kernels(20), kernels(13), kernels(12))
        assert activity.on_device(print, CUDA, 2, record).kernels == 10
        assert asked == [1, 2, 2, 2, 2]

    def test_without_events_there_is_no_number(self):
        """Where CUPTI may not look at the device: no number, rather than 0."""
        record, _ = recorder([], [], [])
        assert activity.on_device(print, CUDA, 2, record) is None


class TestHostTime:
    def test_a_cpu_has_none(self):
        """And no step is taken."""
        host = Host(forever(1.0))
        assert activity.host_us(host.step, CPU, 3, host.now, host.synchronize) is None
        assert host.steps == 0

    def test_waiting_is_not_in_it(self):
        """Steps of 50 us between waits of 1000 s."""
        host = Host(forever(50e-6))
        found = activity.host_us(host.step, CUDA, 30, host.now, host.synchronize)
        assert found == pytest.approx(50.0, rel=1e-3)

    @pytest.mark.parametrize(
        ("kernels_per_step", "steps"), [(1, 10), (30, 10), (35, 8), (100, 3), (300, 1), (2000, 1), (0, 10)]
    )
    def test_few_kernels_are_enqueued_at_a_time(self, kernels_per_step, steps):
        """At most 300, in at most ten steps, and at least one step; then the device is waited for."""
        host = Host(forever(1e-6))
        activity.host_us(host.step, CUDA, kernels_per_step, host.now, host.synchronize)
        assert host.waits == list(range(0, host.steps + 1, steps))

    def test_an_unknown_number_of_kernels_may_be_many(self):
        """One step at a time."""
        host = Host(forever(1e-6))
        activity.host_us(host.step, CUDA, None, host.now, host.synchronize)
        assert host.waits == list(range(host.steps + 1))

    def test_it_is_the_median(self):
        """Seven slow readings of 15 do not move it, eight do."""
        for slow, expected in ((7, 10.0), (8, 500.0)):
            host = Host(iter([500e-6] * slow + [10e-6] * (15 - slow)))
            found = activity.host_us(host.step, CUDA, 300, host.now, host.synchronize)
            assert found == pytest.approx(expected, rel=1e-3)

    def test_garbage_is_not_collected_meanwhile(self):
        """And is again afterwards."""
        host = Host(forever(1e-6))
        activity.host_us(host.step, CUDA, 1, host.now, host.synchronize)
        assert set(host.collecting) == {False}
        assert gc.isenabled()


class TestCpuTime:
    def test_the_first_block_that_is_long_enough_counts(self):
        """Blocks of 1, 2, 4 and 8 steps of 2 s; the threads need 5 s of CPU time in each step."""
        host = Host(forever(2.0))
        found = activity.cpu_us(host.step, 15.0, host.now, lambda: 2.5 * host.seconds)
        assert found == 5e6
        assert host.steps == 1 + 2 + 4 + 8

    def test_a_slow_step_is_taken_once(self):
        """Its own block is long enough."""
        host = Host(forever(20.0))
        assert activity.cpu_us(host.step, 15.0, host.now, host.now) == 20e6
        assert host.steps == 1

    def test_earlier_blocks_do_not_count(self):
        """The first step costs nine times the others: 9 s, then 1 + 1."""
        host = Host(iter([9.0, 1.0, 1.0]))
        assert activity.cpu_us(host.step, 1.5, lambda: host.steps * 0.75, host.now) == 1e6

    def test_garbage_is_collected_again_after_a_step_that_fails(self):
        """Whatever it raises."""
        host = Host(iter([1.0]))
        with pytest.raises(StopIteration):
            activity.cpu_us(host.step, 15.0, host.now, host.now)
        assert host.collecting == [False]
        assert gc.isenabled()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
@pytest.mark.filterwarnings("ignore:::torch")
class TestOnGpu:
    """Adam and ten tensors of 1024 x 1024; counted on an H200 with torch 2.11 by another program."""

    def warm_step(self, *overrides, mode=None):
        """Return a step that is warm, compiled where a mode is given."""
        how = spec(
            *("model=tiny", "model.depth=10", "model.width=1024", "device=cuda", "optimizer=adam"), *overrides
        )
        step = workload.build(how, CUDA).step
        if mode is not None:
            step = torch.compile(step, mode=mode)
        for _ in range(5):
            step()
        return step

    @pytest.mark.parametrize(("overrides", "count"), [((), 7), (("optimizer.fused=true",), 2)])
    def test_kernels_of_an_eager_step(self, overrides, count):
        """Multi-tensor, the default, and fused."""
        found = activity.on_device(self.warm_step(*overrides), CUDA)
        assert found.kernels == count
        assert found.busy_us > 0

    @pytest.mark.parametrize(("mode", "count"), [("default", 2), ("reduce-overhead", 3)])
    def test_kernels_of_a_compiled_step(self, mode, count, cold_cache):
        """Also those that a CUDA graph replays, and the copies of gradients into it."""
        assert activity.on_device(self.warm_step(mode=mode), CUDA).kernels == count

    def test_the_range_of_the_optimizer_is_no_kernel(self):
        """With the host's ranges in the profile, one of them is drawn around each step's kernels."""
        step = self.warm_step("optimizer.fused=true")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiled:
            step()
            torch.cuda.synchronize()
        of_device = [e for e in profiled.events() if e.device_type == DeviceType.CUDA]
        assert any(e.is_user_annotation for e in of_device)
        assert len(activity.device_events(profiled.events())) == 2

    def test_the_host_need_not_wait(self):
        """A number."""
        assert activity.host_us(self.warm_step(), CUDA, 7) > 0
