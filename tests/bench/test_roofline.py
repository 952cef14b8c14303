"""The roofline: bytes against loads and stores in compiled code, bandwidth by a clock, bounds by hand."""

import re
import time
from types import SimpleNamespace

import pytest
import torch

from src import vocabulary
from src.bench import machine, roofline, torch_private, workload
from tests.specs import spec

CPU = torch.device("cpu")
GIB = 2**30

ONE_PASS = [
    # optimizer and its arguments, elements that one pass reads and writes per parameter
    (("sgd",), (2, 1)),
    (("sgd_momentum",), (3, 2)),
    (("sgd_momentum", "nesterov=true"), (3, 2)),
    (("adam",), (4, 3)),
    (("adam", "weight_decay=0.1"), (4, 3)),
    (("adam", "amsgrad=true"), (5, 4)),
    (("adamw",), (4, 3)),
    (("adamw", "amsgrad=true"), (5, 4)),
    (("adagrad",), (3, 2)),
    (("adadelta",), (4, 3)),
    (("rmsprop",), (3, 2)),
    (("rmsprop", "centered=true"), (4, 3)),
    (("rmsprop", "momentum=0.9"), (4, 3)),
    (("rmsprop", "centered=true", "momentum=0.9"), (5, 4)),
    (("adamax",), (4, 3)),
    (("nadam",), (4, 3)),
    (("radam",), (4, 3)),
    (("rprop",), (4, 3)),
    (("asgd",), (3, 2)),
    (("adafactor",), (2, 1)),
    (("muon",), (3, 2)),
]
"""A table of the least traffic of each optimizer, written down from its algorithm; below, all but the last
two are counted in compiled code."""

COMPILED = [case for case in ONE_PASS if case[0][0] not in ("adafactor", "muon")]
COMPILED_IN_EVERY_RUN = ("sgd_momentum", "adam", "rmsprop centered=true momentum=0.9", "rprop", "asgd")

LOADS = re.compile(r"loadu\((\w+) \+ [^;]*\bx\d|= (\w+)\[[^\];]*\bx\d")
STORES = re.compile(r"\.store\((\w+) \+ [^;]*\bx\d|^\s*(\w+)\[[^\];]*\bx\d[^\];]*\] =", re.MULTILINE)
"""Loads and stores at an index that runs over a tensor: in vectors, and number by number."""

H200_GBPS = 4279
"""Copy bandwidth measured on one H200."""


def named(case):
    """Return the test id of a case, or nothing for its numbers."""
    return " ".join(case) if isinstance(case[0], str) else ""


def composed(optimizer, *arguments, model=("model=tiny",)):
    """Return the spec of an optimizer with arguments."""
    return spec(*model, f"optimizer={optimizer}", *(f"optimizer.{argument}" for argument in arguments))


def spread(cases):
    """Mark all compiled cases as exhaustive but a few of every kind."""
    return [
        pytest.param(
            *case,
            id=named(case[0]),
            marks=() if named(case[0]) in COMPILED_IN_EVERY_RUN else pytest.mark.exhaustive,
        )
        for case in cases
    ]


def pointers(pattern, kernel):
    """Return the arguments of a kernel that it accesses."""
    return {name for found in pattern.findall(kernel) for name in found if name}


def kernels_of(how):
    """Return the source of the kernels of a compiled step of one tensor, in a steady state."""
    step = workload.build(how, CPU).step
    for _ in range(8):
        step()
    with torch_private.generated_code() as sources:
        torch.compile(step)()
    return [kernel for source in sources for kernel in torch_private.kernels_in(source)]


def parameter(*shape, dtype=torch.float32, gradient=True, requires_grad=True):
    """Return a parameter."""
    made = torch.nn.Parameter(torch.zeros(shape, dtype=dtype), requires_grad=requires_grad)
    made.grad = torch.zeros_like(made) if gradient else None
    return made


class TestStepBytes:
    @pytest.mark.parametrize(("optimizer", "elements"), ONE_PASS, ids=named)
    def test_every_optimizer_moves_one_pass(self, optimizer, elements):
        """Ten float32 tensors of 1024 x 1024, as in PyTorch's tutorial."""
        how = composed(*optimizer)
        parameters = [parameter(1024, 1024) for _ in range(10)]
        expected = sum(elements) * 4 * 10 * 1024 * 1024
        assert roofline.step_bytes(parameters, how.optimizer) == expected

    @pytest.mark.usefixtures("cxx_compiler")
    @pytest.mark.parametrize(("optimizer", "elements"), spread(COMPILED))
    def test_compiled_code_loads_and_stores_as_much(self, optimizer, elements, cold_cache):
        """Counted in the C++ that inductor writes for one tensor of 64 x 64."""
        how = composed(*optimizer, model=("model=tiny", "model.depth=1", "model.bias=false"))
        kernels = kernels_of(how)
        loads, stores = (
            sum(len(pointers(pattern, kernel)) for kernel in kernels) for pattern in (LOADS, STORES)
        )
        assert (loads, stores) == elements
        (one,) = workload.build(how, CPU).parameters
        assert roofline.step_bytes([one], how.optimizer) == (loads + stores) * 64 * 64 * 4

    def test_each_dtype_has_its_size(self):
        """Adam moves 7 numbers: of 4, 2 and 8 bytes."""
        parameters = [parameter(10), parameter(20, dtype=torch.bfloat16), parameter(3, dtype=torch.float64)]
        expected = 7 * (10 * 4 + 20 * 2 + 3 * 8)
        assert roofline.step_bytes(parameters, composed("adam").optimizer) == expected

    def test_what_takes_no_step_moves_nothing(self):
        """Frozen, or without a gradient."""
        others = [parameter(5, gradient=False), parameter(5, gradient=False, requires_grad=False)]
        assert roofline.step_bytes([parameter(10), *others], composed("sgd").optimizer) == 3 * 10 * 4
        assert roofline.step_bytes(others, composed("sgd").optimizer) == 0

    @pytest.mark.parametrize(
        "optimizer", [("lbfgs",), ("sparseadam",), ("custom", "_target_=tests.bench.third_party.Lion")]
    )
    def test_without_a_formula_there_is_none(self, optimizer):
        """LBFGS remembers steps, sparse gradients have few rows, a user's own class is not known."""
        assert roofline.step_bytes([parameter(10)], composed(*optimizer).optimizer) is None


class TestFloor:
    @pytest.mark.parametrize(
        ("tensors", "width", "published_us"), [(10, 1024, 69), (24, 2048, 659), (32, 4096, 3513)]
    )
    def test_adam_on_an_h200(self, tensors, width, published_us):
        """The floors of the comparison on that card, within 3 %."""
        moved = roofline.step_bytes([parameter(width, width)], composed("adam").optimizer) * tensors
        assert roofline.floor_us(moved, H200_GBPS) == pytest.approx(published_us, rel=0.03)

    def test_is_bytes_over_bandwidth(self):
        """1 GB at 1000 GB/s: 1 ms."""
        assert roofline.floor_us(10**9, 1000.0) == 1000.0

    def test_needs_both(self):
        """A number that does not exist is null."""
        assert roofline.floor_us(None, 1.0) is None
        assert roofline.floor_us(1, None) is None


class TestLastLevelCache:
    @pytest.fixture
    def cpus(self, tmp_path, monkeypatch):
        """Return a function that makes the folder of the caches of some CPUs, which may all be used."""

        def made(caches):
            for cpu, index, level, size, shared in caches:
                folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
                folder.mkdir(parents=True)
                for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared)):
                    (folder / name).write_text(f"{text}\n")
            usable = {cpu for cpu, *_ in caches}
            monkeypatch.setattr(roofline.os, "sched_getaffinity", lambda _: usable, raising=False)
            return tmp_path

        return made

    @pytest.mark.parametrize(
        ("size", "expected"), [("32768K", 32 * 2**20), ("32M", 32 * 2**20), ("1G", 2**30), ("512", 512)]
    )
    def test_is_that_of_the_highest_level(self, cpus, size, expected):
        """In the units of Linux."""
        levels = [(0, 0, 1, "48K", "0"), (0, 2, 2, "1024K", "0"), (0, 3, 3, size, "0-1")]
        assert roofline.last_level_cache_bytes(CPU, cpus(levels)) == expected

    def test_a_shared_one_counts_once(self, cpus):
        """Two CPUs tell of the same."""
        torch.set_num_threads(2)
        both = [(0, 3, 3, "32M", "0-1"), (1, 3, 3, "32M", "0-1")]
        assert roofline.last_level_cache_bytes(CPU, cpus(both)) == 32 * 2**20

    @pytest.mark.parametrize(("threads", "caches"), [(1, 1), (2, 2), (8, 3)])
    def test_threads_use_one_each_where_there_are_several(self, cpus, threads, caches):
        """As every few cores of an EPYC have one."""
        torch.set_num_threads(threads)
        three = [(cpu, 3, 3, "32M", f"{cpu}-{cpu + 7}") for cpu in (0, 8, 16)]
        assert roofline.last_level_cache_bytes(CPU, cpus(three)) == caches * 32 * 2**20

    @pytest.mark.parametrize("size", ["", "many", None])
    def test_what_cannot_be_read_is_none(self, cpus, tmp_path, size):
        """No folder, or no number."""
        folder = tmp_path if size is None else cpus([(0, 3, 3, size, "0")])
        assert roofline.last_level_cache_bytes(CPU, folder) is None

    def test_of_this_machine_it_is_a_cache(self):
        """More than a first level has, less than memory; or it cannot be told."""
        found = roofline.last_level_cache_bytes(CPU)
        assert found is None or 64 * 2**10 < found < 16 * GIB


class FakeClock:
    """A clock whose every second reading is later by the next of some times, the last for good."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)
        self.now = 0.0
        self.readings = 0

    def __call__(self):
        """Return the time in s."""
        self.readings += 1
        if self.readings % 2 == 0:
            self.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        return self.now


class TestBandwidth:
    def test_an_addition_on_a_cpu_moves_three_buffers(self):
        """64 MiB each, 0.1 s a pass."""
        found = roofline.bandwidth_gbps(CPU, GIB, None, FakeClock(0.1))
        assert found == pytest.approx(3 * 64 * 2**20 / 0.1 / 1e9)

    def test_the_fastest_repeat_counts(self):
        """Other load only slows one down."""
        found = roofline.bandwidth_gbps(CPU, GIB, None, FakeClock(0.1, 0.05, 0.2))
        assert found == pytest.approx(3 * 64 * 2**20 / 0.05 / 1e9)

    @pytest.mark.parametrize(("seconds", "repeats"), [(0.01, 15), (0.04, 4), (10.0, 3)])
    def test_it_takes_no_longer_than_it_must(self, seconds, repeats):
        """0.15 s, but three repeats; two readings each."""
        clock = FakeClock(seconds)
        roofline.bandwidth_gbps(CPU, GIB, None, clock)
        assert clock.readings in (2 * repeats, 2 * repeats + 2)  # sums of 0.01 are rounded

    @pytest.mark.parametrize(("cache", "size"), [(None, 64), (10 * 2**20, 64), (32 * 2**20, 128)])
    def test_the_buffers_are_larger_than_the_cache(self, monkeypatch, cache, size):
        """Four times, and at least 64 MiB."""
        asked = []
        monkeypatch.setattr(
            *(roofline, "_seconds_of_a_pass"), lambda device, elements, now: asked.append(elements) or 1.0
        )
        roofline.bandwidth_gbps(CPU, 16 * GIB, cache, time.perf_counter)
        assert asked == [size * 2**20 // 4]

    @pytest.mark.parametrize(("free", "there"), [(512 * 2**20, True), (512 * 2**20 - 1, False), (0, False)])
    def test_it_takes_a_quarter_of_the_free_memory_at_most(self, free, there):
        """Two buffers of 64 MiB need 512 MiB."""
        found = roofline.bandwidth_gbps(CPU, free, None, FakeClock(0.1))
        assert (found is not None) == there

    @pytest.mark.parametrize(
        ("free", "cache", "mebibytes"),
        [
            (64 * GIB, 60 * 2**20, 2048),  # the size that is wanted
            (8 * GIB, 60 * 2**20, 1024),  # an eighth of what is free
            (4 * GIB, 60 * 2**20, 512),
            (64 * GIB, 512 * 2**20, 4096),  # a cache of half a GiB wants eight times that
            (3 * GIB, 60 * 2**20, None),  # an eighth is 384 MiB, eight caches are 480
        ],
    )
    def test_on_a_gpu_it_takes_what_the_memory_allows(self, monkeypatch, free, cache, mebibytes):
        """2 GiB, or less where less is free, or more where the cache is large."""
        asked = []
        monkeypatch.setattr(
            *(roofline, "_seconds_of_a_pass"), lambda device, elements, now: asked.append(elements) or 1.0
        )
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        found = roofline.bandwidth_gbps(torch.device("cuda", 0), free, cache, time.perf_counter)
        assert asked == ([] if mebibytes is None else [mebibytes * 2**20 // 4])
        assert (found is None) == (mebibytes is None)

    def test_of_this_machine_it_is_positive(self):
        """With its own clock, cache and memory."""
        cache = roofline.last_level_cache_bytes(CPU)
        assert roofline.bandwidth_gbps(CPU, machine.free_bytes(CPU), cache, time.perf_counter) > 0

    def test_the_buffers_are_freed(self, monkeypatch):
        """Nothing keeps them when the number is there."""
        import weakref

        made, ones = [], torch.ones
        monkeypatch.setattr(
            torch, "ones", lambda *size, **how: made.append(weakref.ref(t := ones(*size, **how))) or t
        )
        roofline.bandwidth_gbps(CPU, GIB, None, FakeClock(0.1))
        assert [reference() for reference in made] == [None, None]


class TestLaunch:
    def test_is_the_median_step(self):
        """20 steps of 40 us, but one of 1 s."""
        clock = FakeClock(1.0, 40e-6)
        assert roofline.launch_us(composed("adam"), CPU, clock) == pytest.approx(40)
        assert clock.readings == 2 * 20

    def test_it_calls_as_many_operations(self, monkeypatch):
        """Of as many tensors, with nothing in them."""
        built, build = [], roofline.workload.build
        monkeypatch.setattr(
            *(roofline.workload, "build"), lambda *a, **k: built.append(build(*a, **k)) or built[-1]
        )
        how = composed("adam", model=("model=tiny", "model.depth=7"))
        roofline.launch_us(how, CPU, FakeClock(1.0))
        assert [tuple(p.shape) for p in built[0].parameters] == [(1, 1)] * 7
        assert type(built[0].optimizer) is torch.optim.Adam

    def test_of_lbfgs_there_is_none(self):
        """How often it evaluates depends on its parameters."""
        assert roofline.launch_us(composed("lbfgs"), CPU, FakeClock(1.0)) is None

    def test_what_fails_is_none(self, monkeypatch):
        """It is no part of the run's own steps."""

        def fails(how, device, single):
            raise ValueError("too small")

        monkeypatch.setattr(roofline.workload, "build", fails)
        assert roofline.launch_us(composed("adam"), CPU, FakeClock(1.0)) is None


class TestCompiledLaunch:
    @pytest.mark.parametrize(
        ("us", "eager_us", "eager_launch_us", "expected"),
        [
            (38.0, 48.0, 45.0, 35.0),  # at most 3 us of work, so 35 of launching
            (38.0, 48.0, 49.0, 38.0),  # no work that could be seen
            (7000.0, 9000.0, 50.0, 0.0),  # all of it may be work
            (None, 48.0, 45.0, None),
            (38.0, None, 45.0, None),
            (38.0, 48.0, None, None),
        ],
    )
    def test_is_what_the_work_of_an_eager_step_leaves(self, us, eager_us, eager_launch_us, expected):
        """A compiled step does no more than that."""
        assert roofline.compiled_launch_us(us, eager_us, eager_launch_us) == expected


def workload_of_nothing():
    """Return a workload whose step does nothing."""
    return SimpleNamespace(step=lambda: None)


class TestBound:
    @pytest.mark.parametrize(
        ("us", "known", "expected"),
        [
            # H200, Adam over 10 x 1024^2 and 32 x 4096^2: wall and kernels; moved at 4279 GB/s
            (234, {"device_us": 224, "moved_us": 176}, "bandwidth"),
            (794, {"device_us": 199, "moved_us": 176}, "launch"),
            (83, {"device_us": 81, "moved_us": 69}, "bandwidth"),
            (339, {"device_us": 72, "moved_us": 69}, "launch"),
            (3810, {"device_us": 3534, "moved_us": 3513}, "bandwidth"),
            (100, {"device_us": 79.9, "moved_us": 79}, "launch"),
            (100, {"device_us": 80, "moved_us": 40}, "bandwidth"),
            (100, {"device_us": 80, "moved_us": 39.9}, None),  # busy, but hardly with memory
            (100, {"device_us": 95, "moved_us": 90, "in_cache": True}, None),
            (100, {"device_us": 95}, None),
            (100, {"device_us": None, "moved_us": 90}, None),
            (None, {"device_us": 95, "moved_us": 90}, None),
            (100, {"device_us": 95, "moved_us": 10, "multiplies_matrices": True}, "compute"),
            (100, {"device_us": 95, "multiplies_matrices": True}, "compute"),
            (100, {"device_us": 95, "moved_us": 90, "multiplies_matrices": True}, "bandwidth"),
            (100, {"device_us": 10, "moved_us": 1, "multiplies_matrices": True}, "launch"),
        ],
    )
    def test_on_a_gpu(self, us, known, expected):
        """Is it busy, and if so, with memory?"""
        assert roofline.bound("cuda", us, **known) == expected

    @pytest.mark.parametrize(
        ("us", "known", "expected"),
        [
            (83, {"launch_us": 80, "moved_us": 20, "in_cache": True}, "launch"),
            (100, {"launch_us": 50, "moved_us": 20}, "launch"),
            (100, {"launch_us": 49.9, "moved_us": 20}, None),
            (100, {"launch_us": 10, "moved_us": 50}, "bandwidth"),
            (100, {"launch_us": 10, "moved_us": 49.9}, None),  # arithmetic, or pages of temporary tensors
            (100, {"launch_us": 10, "moved_us": 90, "in_cache": True}, None),
            (100, {"moved_us": 50}, "bandwidth"),  # its launching is not known
            (100, {"moved_us": 10}, None),
            (100, {"launch_us": 10}, None),
            (100, {}, None),
            (None, {"launch_us": 10, "moved_us": 90}, None),
            (100, {"launch_us": 10, "moved_us": 20, "multiplies_matrices": True}, "compute"),
            (100, {"launch_us": 60, "moved_us": 20, "multiplies_matrices": True}, "launch"),
            (100, {"launch_us": 10, "moved_us": 60, "multiplies_matrices": True}, "bandwidth"),
            (100, {"moved_us": 20, "multiplies_matrices": True}, None),
        ],
    )
    def test_on_a_cpu(self, us, known, expected):
        """What explains half of the time?"""
        assert roofline.bound("cpu", us, **known) == expected

    def test_its_words_are_those_of_the_record(self):
        """A bound that no reader knows would be none."""
        found = {
            roofline.bound("cuda", 100, device_us=10),
            roofline.bound("cuda", 100, device_us=95, moved_us=90),
            roofline.bound("cuda", 100, device_us=95, multiplies_matrices=True),
        }
        assert found == set(vocabulary.BOUNDS)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
class TestOnCuda:
    def test_copy_bandwidth_and_cache(self):
        """A number of each, and no memory kept."""
        device = torch.device("cuda", 0)

        def now():
            torch.cuda.synchronize(device)
            return time.perf_counter()

        cache = roofline.last_level_cache_bytes(device)
        assert cache > 10**6
        before = torch.cuda.memory_reserved(device)
        assert roofline.bandwidth_gbps(device, machine.free_bytes(device), cache, now) > 0
        assert torch.cuda.memory_reserved(device) <= before

    @pytest.mark.parametrize("optimizer", ["adam", "sgd_momentum", "rmsprop"])
    def test_multi_tensor_steps_move_what_they_do_on_a_cpu(self, optimizer):
        """Torch chooses the implementation; its operations are the same."""
        from src.bench import traffic

        elements = {"adam": 18, "sgd_momentum": 8, "rmsprop": 13}[optimizer]
        how = composed(optimizer, model=("model=tiny", "model.width=256", "model.bias=false"))
        step = workload.build(how, torch.device("cuda", 0)).step
        for _ in range(2):
            step()
        parameters = how.model.depth * 256 * 256
        assert traffic.counted_bytes(step) / parameters / 4 == pytest.approx(elements, rel=0.01)
