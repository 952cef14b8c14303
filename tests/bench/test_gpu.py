"""What only a CUDA device shows: capturable, CUDA graphs, learning rates on the device."""

import time

import pytest
import torch

from src import record
from src.bench import arms, child, machine, trace
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
    facts = {}
    child.measure(spec(*QUICK, *overrides), lambda kind, value: kind == "facts" and facts.update(value))
    (row,) = record.to_table({"status": "ok"} | facts).to_pylist()
    return row


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
        """Though two other arms of the run are compiled."""
        made, make = [], arms.eager
        monkeypatch.setattr(child.arms, "eager", lambda *args: made.append(make(*args)) or made[-1])
        row = measured("compile=aot_eager", "measure.arms=[eager,compiled,eager_after_compile]")
        assert capturable(made[0]) == [False]
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
