"""What a reader is told to do about a row."""

import re

import pytest

from src.bench import hints
from tests.specs import spec

INDUCTOR = ("device=cpu", "compile=inductor")

FAILED = {
    "parity": "failed",
    "parity_reason": "parameter 0 differs by 0.067 of its movement (allowed 0.0001)",
}
NAN = {"parity": "failed", "parity_reason": "parameters of the eager arm became infinite or NaN"}
SKIPS = {"cudagraph_skips": 1, "device": "cuda"}


def hint(*overrides, **columns):
    """Return the hint of a row with these columns, of a run with these overrides."""
    return hints.hint(spec(*overrides), columns)


class TestParity:
    def test_the_cache_is_suspected_where_it_is_on(self):
        """Torch may return a graph with an old constant: pytorch#194976, fixed by #195040."""
        changed = {"recompile_causes": ["lr: value changed"]}
        read = {"graph_break_reasons": ["Unsupported Tensor.item() call"]}
        for columns in (changed, read):
            assert "TORCHINDUCTOR_AUTOGRAD_CACHE=0" in hint(*INDUCTOR, **FAILED, aot_cache="on", **columns)

    def test_gradients_that_were_written_into_have_a_known_cause(self):
        """A buffer made inside the step."""
        reason = "the compiled arm wrote into its gradients, the eager arm did not"
        assert "make it before the first step" in hint(*INDUCTOR, **FAILED | {"parity_reason": reason})

    @pytest.mark.parametrize(
        ("overrides", "columns"),
        [
            (INDUCTOR, {"aot_cache": "off"}),
            (INDUCTOR, {"aot_cache": "on", "recompile_causes": []}),
            (("compile=aot_eager",), {"aot_cache": "on"}),
            (INDUCTOR, {"aot_cache": "on", "parity": "passed"}),
            (INDUCTOR, {"aot_cache": "on", "parity_reason": "learning rates differ from step 3 on"}),
        ],
        ids=["off", "nothing changes", "not used", "nothing failed", "another failure"],
    )
    def test_it_is_not_suspected_elsewhere(self, overrides, columns):
        """Nothing is said where nothing is known."""
        assert hint(*overrides, **FAILED | columns) is None

    def test_half_precision_loses_a_small_eps(self):
        """1e-8 is below the least float16 number, 6e-8: a division by zero."""
        assert "optimizer.eps" in hint("model.dtype=float16", **NAN)

    def test_other_infinities_are_left_to_the_reader(self):
        """In float32, or in the compiled arm alone, eps is not the cause."""
        assert hint("model.dtype=float32", **NAN) is None
        compiled = NAN | {"parity_reason": "parameters of the compiled arm became infinite or NaN"}
        assert hint("model.dtype=float16", **compiled) is None

    def test_updates_that_rounding_swallows_want_a_larger_learning_rate(self):
        """Parameters that stay where they are compare nothing."""
        assert "is optimizer.lr large enough" in hint(parity="failed", parity_reason="no parameter moved")


class TestNeverCompiled:
    def test_a_fused_step_has_its_remedy(self):
        """The flag that decides."""
        told = hint("optimizer.fused=true", compiled_path="never_compiled", eager_path="fused")
        assert "optimizer.fused=null" in told

    def test_a_fused_baseline_is_not_to_blame(self):
        """The compiled arm is another."""
        told = hint("measure.baseline=fused", compiled_path="never_compiled", eager_path="fused")
        assert told is None

    @pytest.mark.parametrize("optimizer", ["lbfgs", "sparseadam", "adafactor"])
    def test_some_optimizers_never_do(self, optimizer):
        """LBFGS, SparseAdam and Adafactor: torch leaves them eager without a word."""
        told = hint(f"optimizer={optimizer}", compiled_path="never_compiled", eager_path="forloop")
        assert "both arms are eager" in told
        assert optimizer in told.lower()

    def test_an_unknown_cause_is_left_to_the_reader(self):
        """Such as Adam without gradients."""
        assert hint("optimizer=adam", compiled_path="never_compiled", eager_path="forloop") is None

    def test_one_that_compiled_is_not_talked_about(self):
        """Whatever its name."""
        assert hint("optimizer=adafactor", compiled_path="compiled") is None


class TestWhatRan:
    def test_an_eager_arm_that_left_multi_tensor(self):
        """Both ways back."""
        told = hint("lr_type=cpu_tensor", warnings=["eager_left_foreach"])
        assert "lr_type=float" in told
        assert "optimizer.capturable=true" in told

    def test_a_learning_rate_on_the_cpu_keeps_cuda_graphs_away(self):
        """pytorch#119026."""
        assert "lr_type=cuda_tensor" in hint("device=cuda", "lr_type=cpu_tensor", **SKIPS)

    @pytest.mark.parametrize(
        ("lr_type", "changes"),
        [
            ("cuda_tensor", {}),
            ("float", {}),
            ("cpu_tensor", {"device": "cpu"}),
            ("cpu_tensor", {"cudagraph_skips": 0}),
            ("cpu_tensor", {"cudagraph_skips": None}),
        ],
    )
    def test_it_is_not_blamed_elsewhere(self, lr_type, changes):
        """No such tensor, no GPU, or no skip."""
        assert hint("device=auto", f"lr_type={lr_type}", **SKIPS | changes) is None


class TestRecompiles:
    def test_a_float_learning_rate_wants_a_tensor(self):
        """The remedy of PyTorch's own recipe."""
        assert "lr_type=cpu_tensor" in hint("scheduler=linear", recompile_causes=["lr: value changed"])

    def test_a_tensor_is_not_told_to_become_one(self):
        """Though something else of the name changed."""
        assert hint("lr_type=cpu_tensor", recompile_causes=["lr: value changed"]) is None

    @pytest.mark.parametrize("cause", ["betas: value changed", "momentum: value changed"])
    @pytest.mark.parametrize("lr_type", ["float", "cpu_tensor"])
    def test_cycled_momentum_wants_to_be_left_alone(self, cause, lr_type):
        """A tensor as learning rate does not help: pytorch#133898."""
        told = hint("scheduler=onecycle", f"lr_type={lr_type}", recompile_causes=[cause])
        assert "scheduler.cycle_momentum=false" in told

    def test_a_scheduler_without_that_key_is_not_told_to_set_it(self):
        """Something else changes them."""
        assert hint("scheduler=linear", recompile_causes=["betas: value changed"]) is None

    @pytest.mark.parametrize(
        ("cause", "words"),
        [
            ("num_threads: changed", "threads=N"),
            ("state: entries added", "state in its first step"),
            ("object: another one", "another optimizer or parameter"),
        ],
    )
    def test_a_known_cause_is_explained(self, cause, words):
        """In words."""
        assert words in hint(recompile_causes=["other", cause])

    def test_an_unknown_cause_is_not(self):
        """The guard is in the row."""
        assert hint(recompile_causes=["other"]) is None

    def test_the_limit_is_explained(self):
        """What torch does then, also when the reason is known."""
        told = hint(recompile_limit_hit=True, recompile_causes=["lr: value changed"])
        assert "recompile limit" in told
        assert "lr_type=cpu_tensor" in told


class TestHint:
    def test_a_row_without_trouble_has_none(self):
        """Null, not an empty text."""
        fine = {"parity": "passed", "compiled_path": "compiled", "warnings": [], "recompile_causes": []}
        assert hint(**fine) is None

    def test_a_row_that_ended_early_has_none(self):
        """No columns, or null ones."""
        assert hint() is None
        assert hint(recompile_causes=None, warnings=None, parity=None) is None

    def test_what_it_tells_to_set_can_be_set(self):
        """Every `key=value` and key in the sentences is one of the command line."""
        told = " ".join(
            [
                hint(recompile_causes=["lr: value changed", "num_threads: changed"]),
                hint("scheduler=onecycle", recompile_causes=["betas: value changed"]),
                hint("optimizer.fused=true", compiled_path="never_compiled", eager_path="fused"),
                hint(warnings=["eager_left_foreach"]),
                hint("device=auto", "lr_type=cpu_tensor", device="cuda", cudagraph_skips=1),
            ]
        )
        settings = re.findall(r"\b[a-z_.]+=[A-Za-z_]+", told)
        assert len(settings) == 7
        for setting in settings:
            spec("device=auto", "scheduler=onecycle", setting.replace("=N", "=2"))
