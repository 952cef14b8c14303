"""What only a CUDA device shows: capturable, CUDA graphs, learning rates on the device."""

import json
import shutil
import time

import pytest
import torch

from src import record, verdicts, vocabulary
from src.bench import arms, child, flush, gpu_state, machine, path, trace
from src.sweep import caches
from src.timings import Repeat
from src.workloads import TARGETS
from tests.specs import spec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
    pytest.mark.filterwarnings("ignore:::torch"),  # such as advice on TensorFloat32
]

CUDA = torch.device("cuda", 0)
QUICK = (
    "model=tiny",
    "device=cuda",
    "measure=quick",
    "measure.warm_up_steps=20",
    "measure.min_rounds=6",
    "measure.max_seconds=60",
    "measure.target_relative_width=1000",
)


def capturable(arm):
    """Return what the optimizer's parameter groups say of `capturable`."""
    return [group["capturable"] for group in arm.workload.optimizer.param_groups]


def measured(*overrides):
    """Measure a run and return its row."""
    how, facts, times = spec(*QUICK, *overrides), {}, []

    def report(kind, value):
        if kind == "facts":
            facts.update(value)
        if kind == "times":
            times.append(value)

    child.measure(how, report)
    columns = verdicts.columns(times, how, facts) if times else {}
    (row,) = record.to_table({"status": "ok"} | facts | columns).to_pylist()
    return row


def kept(monkeypatch):
    """Let the maker of eager arms keep what it makes, and return the list of it."""
    made, make = [], arms.eager
    monkeypatch.setattr(arms, "eager", lambda *given: made.append(make(*given)) or made[-1])
    return made


def traced(*overrides, steps=5):
    """Return the facts of the first steps of the compiled arm."""
    arm = arms.compiled(spec("model=tiny", "device=cuda", *overrides), CUDA, time.perf_counter)
    recorder = trace.Recorder(inductor=True)
    recorder.take(arm.take_step, steps, time.perf_counter, arm.workload.refill)
    return recorder.trace().facts()


class TestEagerAfterCompile:
    def test_compiling_makes_the_optimizer_capturable_for_good(self):
        """The eager step of an optimizer that was compiled is not the eager step of a fresh one."""
        how = spec("model=tiny", "device=cuda", "compile=aot_eager")
        fresh, published = (
            make(how, CUDA, time.perf_counter) for make in (arms.eager, arms.eager_after_compile)
        )
        for arm in (fresh, published):
            arm.take_step()
        assert capturable(fresh) == [False]
        assert capturable(published) == [True]

    def test_the_eager_arm_of_a_whole_run_stays_as_configured(self, monkeypatch):
        """Though two other arms of the run are compiled; so does the one that it is compared by."""
        made = kept(monkeypatch)
        row = measured("compile=aot_eager", "measure.arms=[eager,compiled,eager_after_compile]")
        assert [capturable(arm) for arm in made] == [[False], [False]]
        assert row["eager_after_compile_us"] > 0
        assert row["verdict_reason"] is None


class TestCudaGraphs:
    @pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
    def test_they_are_made_where_the_mode_asks_for_them(self, mode, cold_cache):
        """No skip, no warning, and a compiled step to compare."""
        row = measured(f"compile.mode={mode}")
        assert row["cudagraph_skips"] == 0
        assert "cudagraphs_skipped" not in row["warnings"]
        assert row["verdict_reason"] is None
        assert row["graphs"] == 1


class TestLearningRate:
    """LinearLR changes it in each of the five calls of PyTorch's scheduler recipe."""

    def test_a_float_recompiles_every_time(self):
        """Multi-tensor kernels, the choice of torch on CUDA, pin it: four recompiles, as published."""
        found = traced("compile=aot_eager", "scheduler=linear")
        assert (found["graphs"], found["recompiles"]) == (5, 4)
        assert all("['lr']" in reason for reason in found["recompile_reasons"])

    @pytest.mark.parametrize("lr_device", ["cpu", "cuda"])
    def test_a_tensor_does_not(self, lr_device):
        """Wherever it lives."""
        how = ("compile=aot_eager", "scheduler=linear", f"lr_type={lr_device}_tensor")
        found = traced(*how)
        assert (found["graphs"], found["recompiles"]) == (1, 0)

    def test_generating_code_does_not_change_the_count(self, cold_cache):
        """What a user of torch.compile gets."""
        assert traced("scheduler=linear")["recompiles"] == 4


class TestFacts:
    def test_the_gpu_is_told(self):
        """Model, UUID, capability and memory; the driver where NVML can be asked."""
        facts = machine.facts(spec("device=cuda"), CUDA)
        for name in ("gpu", "gpu_uuid", "gpu_capability", "gpu_memory_bytes", "cuda_version"):
            assert facts[name]
        assert facts["gpu"] == torch.cuda.get_device_name(0)
        assert facts["gpu_capability"] == "{}.{}".format(*torch.cuda.get_device_capability(0))

    def test_auto_is_the_gpu(self):
        """Where there is one."""
        assert machine.resolve_device("auto") == CUDA

    def test_a_whole_run_fits_the_row(self, cold_cache):
        """Inductor, default mode: one graph, times of both arms, a verdict."""
        row = measured()
        assert (row["device"], row["graphs"], row["recompiles"]) == ("cuda", 1, 0)
        assert row["eager_us"] > 0
        assert row["compiled_us"] > 0
        assert row["verdict_reason"] is None


class TestPaths:
    @pytest.mark.parametrize(
        ("overrides", "path"),
        [
            (("optimizer=adam",), "foreach"),
            (("optimizer=adam", "optimizer.foreach=false"), "forloop"),
            (("optimizer=adam", "optimizer.fused=true"), "fused"),
            (("optimizer=adam", "lr_type=cpu_tensor"), "forloop"),
            (("optimizer=adam", "lr_type=cuda_tensor", "optimizer.capturable=true"), "foreach"),
            (("optimizer=sgd", "lr_type=cuda_tensor"), "foreach"),
            (("optimizer=muon",), "forloop"),
        ],
    )
    def test_the_implementation_that_ran(self, overrides, path):
        """Multi-tensor is the default; a tensor learning rate moves Adam off it, and only Adam."""
        row = measured("compile=aot_eager", "measure=trace", *overrides)
        assert row["eager_path"] == path
        left = "eager_left_foreach" in row["warnings"]
        assert left == (path == "forloop" and "lr_type=cpu_tensor" in overrides)

    def test_compiling_makes_its_optimizer_capturable_and_no_other(self):
        """With the step counters on the GPU, where the eager arm has them on the CPU."""
        row = measured("compile=aot_eager", "measure=trace", "optimizer=adam")
        names = ("compiled_capturable_before", "compiled_capturable", "eager_capturable")
        assert [row[name] for name in names] == [False, True, False]
        assert (row["compiled_step_device"], row["eager_step_device"]) == ("cuda", "cpu")

    @pytest.mark.parametrize(
        "optimizer", ["adam", "adamw", "sgd_momentum", "rmsprop", "nadam", "muon", "adagrad"]
    )
    @pytest.mark.parametrize("lr_type", ["float", "cuda_tensor"])
    def test_compiled_steps_give_what_eager_ones_do(self, optimizer, lr_type, cold_cache):
        """Every operation compiled, within the tolerance of the arms and of float64."""
        row = measured("measure=trace", f"optimizer={optimizer}", f"lr_type={lr_type}", "scheduler=linear")
        assert (row["parity"], row["parity_reason"]) == ("passed", None)
        assert (row["compiled_path"], row["eager_ops"], row["lr_equal"]) == ("compiled", 0, True)
        assert row["kernels"] > 0

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
    def test_other_dtypes(self, dtype, cold_cache):
        """Rounding of a low precision is not taken for an error."""
        row = measured("measure=trace", "optimizer=sgd_momentum", f"model.dtype={dtype}")
        assert (row["parity"], row["parity_reason"]) == ("passed", None)

    def test_nesterov_writes_into_the_gradients_and_stays_finite(self, cold_cache):
        """Multi-tensor is the default here: with fixed gradients it is infinite after some 300 steps."""
        row = measured("optimizer=sgd_momentum", "optimizer.nesterov=true")
        assert (row["parity"], row["verdict_reason"]) == ("passed", None)
        assert "non_finite_parameters" not in row["warnings"]


TUTORIAL = ("model=tutorial", "optimizer=adam", "optimizer.lr=0.01")
"""Ten matrices of 1024 x 1024, some 168 MB with gradients and states: more than an L2 cache holds."""


class TestEagerBest:
    def test_fused_adam_is_the_fastest(self, monkeypatch):
        """Two launches instead of seven or seventy, and each number moved once; torch does not choose it."""
        made = kept(monkeypatch)
        row = measured(*TUTORIAL, "compile=aot_eager", "measure.parity=false")
        assert set(json.loads(row["eager_trials"])) == {"forloop", "foreach", "fused"}
        assert (row["eager_best"], row["eager_path"]) == ("fused", "foreach")
        assert len(row["eager_best_block_us"]) == row["rounds"]
        assert path.take(made[-1].take_step).implementation() == "fused"

    def test_it_has_a_float_where_the_other_arms_have_a_tensor(self, monkeypatch):
        """Which moves the eager arm from multi-tensor to the loop."""
        made = kept(monkeypatch)
        row = measured(*TUTORIAL, "compile=aot_eager", "measure.parity=false", "lr_type=cuda_tensor")
        (group,) = made[-1].workload.optimizer.param_groups
        assert (row["eager_best"], row["eager_path"]) == ("fused", "forloop")
        assert (type(group["lr"]), group["capturable"]) == (float, False)

    def test_a_process_that_repeats_the_run_times_it_too(self):
        """As it is told."""
        reported = []
        how = spec(*QUICK, "compile=aot_eager")
        child.measure_again(
            Repeat(how, "fused", "foreach", compiled_first=True), lambda *pair: reported.append(pair)
        )
        (times,) = [value for kind, value in reported if kind == "times"]
        assert times.best == "eager_best"
        assert list(times.timing.arms) == ["eager", "compiled", "eager_best"]
        assert "facts" not in [kind for kind, _ in reported]


@pytest.fixture(scope="module")
def row(machine_cache):
    """Measure Adam once, in inductor's default mode."""
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHINDUCTOR_CACHE_DIR", str(machine_cache))
        patched.setenv("TRITON_CACHE_DIR", str(machine_cache / "triton"))
        return measured(*TUTORIAL, "compile=inductor", "measure.explain=true")


class TestExplanation:
    def test_the_update_and_the_memory(self, row):
        """By hand: seven numbers of four bytes for each element, of which four stay in memory."""
        elements = 10 * 1024 * 1024
        assert row["step_bytes"] == elements * 4 * 7
        assert elements * 4 * 4 <= row["working_set_bytes"] < elements * 4 * 4 + 10_000
        assert row["eager_bytes"] >= row["step_bytes"]
        assert row["last_level_cache_bytes"] == torch.cuda.get_device_properties(0).L2_cache_size

    def test_the_bandwidth_is_one_that_a_gpu_has(self, row):
        """In 1e9 bytes a second: a T4 has 320, an H200 4,800."""
        assert 200 < row["bandwidth_gbps"] < 10_000
        assert row["floor_us"] == pytest.approx(row["step_bytes"] / row["bandwidth_gbps"] / 1e3)

    @pytest.mark.parametrize("arm", ["eager", "compiled", "eager_best"])
    def test_each_arm_keeps_device_and_host_busy(self, row, arm):
        """Some of the time, and what limits it is one of three things, or not known."""
        assert row[f"{arm}_kernels"] > 0
        assert row[f"{arm}_device_us"] > 0
        assert row[f"{arm}_host_us"] > 0
        assert row[f"{arm}_cpu_us"] > 0
        assert row[f"{arm}_bound"] in (*vocabulary.BOUNDS, None)

    @pytest.mark.parametrize("arm", ["eager", "compiled", "eager_best"])
    def test_no_arm_is_faster_than_memory(self, row, arm):
        """Nor needs less than its parameters, gradients and states."""
        assert 0 < row[f"{arm}_attained"] < 1.05
        assert row[f"{arm}_peak_bytes"] >= row["working_set_bytes"]

    def test_multi_tensor_steps_have_more_kernels_and_more_memory_than_fused_ones(self, row):
        """Temporary tensors of the size of a parameter, and a launch for each operation."""
        assert row["eager_kernels"] > row["eager_best_kernels"]
        assert row["eager_peak_bytes"] > row["eager_best_peak_bytes"]

    def test_the_state_of_the_gpu_is_told(self, row):
        """Before and after the timing, where NVML can be asked."""
        if gpu_state.take(CUDA) is None:
            pytest.skip("NVML cannot be asked here")
        for what in ("sm_clock_mhz", "memory_clock_mhz", "gpu_temperature_c", "gpu_power_w"):
            assert row[f"{what}_before"] > 0
            assert row[f"{what}_after"] > 0


class TestGradients:
    def test_a_cuda_graph_copies_those_that_may_lie_elsewhere(self, cold_cache):
        """Static ones are read where they are: fewer kernels and copies, and the same counts otherwise."""
        rows = {}
        for grads in ("fresh", "static"):
            torch._dynamo.reset()
            # torch 2.11 takes a cached graph for both, with its copies or without them.
            for name in caches.GRAPH_CACHE_FOLDERS:
                shutil.rmtree(cold_cache / name, ignore_errors=True)
            how = ("compile.mode=reduce-overhead", "measure.explain=true", f"measure.grads={grads}")
            rows[grads] = measured(*how, "measure.arms=[eager,compiled]")
        assert 0 < rows["static"]["compiled_kernels"] < rows["fresh"]["compiled_kernels"]
        assert rows["static"]["eager_kernels"] == rows["fresh"]["eager_kernels"]
        for row in rows.values():
            assert (row["graphs"], row["recompiles"], row["recompiles_warm_up"]) == (1, 0, 0)
            assert (row["cudagraph_skips"], row["recompiles_timing"]) == (0, 0)
            assert row["verdict_reason"] is None


class TestFlush:
    def test_the_buffer_lies_on_the_device(self):
        """Four times its L2 cache."""
        before = torch.cuda.memory_allocated(CUDA)
        made = flush.Flush(CUDA)
        made()
        size = torch.cuda.memory_allocated(CUDA) - before
        assert size >= 4 * torch.cuda.get_device_properties(0).L2_cache_size

    def test_a_run_with_emptied_caches(self):
        """Each step by itself: all arms have their times."""
        row = measured("compile=aot_eager", "measure.flush_cache=true")
        assert len(row["eager_block_us"]) == len(row["compiled_block_us"]) == row["rounds"]
        assert (row["recompiles_timing"], row["verdict_reason"]) == (0, None)


TRAINING = ("workload=train_step", "workload.batch_size=8", "workload.image_size=32")


@pytest.fixture
def graphs(machine_cache, monkeypatch):
    """Compile into the cache that all tests here share, without the graphs of others.

    torch 2.11 takes one in bfloat16 for one in float16 (pytorch#181564).
    """
    torch._dynamo.reset()
    for name in caches.GRAPH_CACHE_FOLDERS:
        shutil.rmtree(machine_cache / name, ignore_errors=True)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(machine_cache))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(machine_cache / "triton"))


@pytest.mark.usefixtures("graphs")
class TestTraining:
    @pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
    @pytest.mark.parametrize("target", TARGETS)
    def test_every_target_in_two_modes_gives_what_eager_gives(self, target, mode):
        """Forward and backward in CUDA graphs as well; nothing compiles once it is warm."""
        row = measured(*TRAINING, "model=tiny_cnn", f"compile.target={target}", f"compile.mode={mode}")
        assert row["parity_reason"] is None
        assert row["parity"] == "passed"
        assert (row["compiled_path"], row["eager_ops"]) == ("compiled", 0)
        assert (row["recompiles"], row["recompiles_timing"]) == (0, 0)
        assert row["compiled_samples_per_s"] == pytest.approx(8e6 / row["compiled_us"])

    @pytest.mark.parametrize("amp", ["bf16", "fp16"])
    @pytest.mark.parametrize("model", ["tiny_cnn", "tiny_transformer"])
    def test_mixed_precision_gives_what_eager_gives(self, model, amp):
        """Fp16 with the gradient scaler, which skips the same steps in both arms."""
        row = measured(*TRAINING, f"model={model}", f"workload.amp={amp}")
        assert row["parity_reason"] is None
        assert row["parity"] == "passed"
        assert row["compiled_path"] == "compiled"

    def test_memory_and_utilisation_are_those_of_each_arm(self):
        """A pool of CUDA graphs is reserved beside what eager steps reserve; NVML counts parts of one."""
        row = measured(
            *TRAINING,
            *("model=tiny_cnn", "workload.channels_last=true", "workload.amp=fp16"),
            *("compile.mode=reduce-overhead", "measure.explain=true"),
        )
        for arm in ("eager", "compiled", "eager_best"):
            assert row[f"{arm}_reserved_bytes"] >= row[f"{arm}_peak_bytes"] > 0
            if gpu_state.take(CUDA) is not None:
                assert 0 < row[f"{arm}_gpu_utilisation"] <= 1
        assert row["parity"] == "passed"
        assert row["cudagraph_skips"] == 0
