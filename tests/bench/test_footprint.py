"""The memory that a run needs at least, and what becomes of one that does not fit."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from src.bench import child, footprint, machine, memory, workload
from src.bench.refusal import Unsupported
from tests.specs import spec

CPU = torch.device("cpu")
GIB = 2**30


def large(*overrides):
    """32 x 4096 x 4096 parameters are 2 GiB in float32; gradients and each state as much again."""
    return spec("model=large", "compile=aot_eager", *overrides)


class TestNeeded:
    @pytest.mark.parametrize(
        ("overrides", "arms", "gib"),
        [
            (("optimizer=sgd",), 3, 12),  # 3 x (parameters + gradients)
            (("optimizer=adam",), 3, 24),  # 3 x (parameters + gradients + two moments)
            (("optimizer=adam", "measure=trace"), 2, 16),  # nothing is timed before it is compiled
            (("optimizer=sgd", "model.dtype=bfloat16"), 3, 6),
            (("optimizer=sgd", "model.dtype=float64"), 3, 24),
            (("optimizer=sgd", "model.second_dtype=bfloat16"), 3, 9),  # three quarters of 12
            (("optimizer=sgd", "measure.arms=[eager,compiled]"), 3, 12),  # one more for the trace
            (("optimizer=sgd", "measure.arms=[eager,compiled,eager_best,eager_after_compile]"), 4, 16),
            (("optimizer=adam", "model.frozen_layers=16"), 3, 15),  # 3 x (2 + half of 2 + 4)
            (("optimizer=adam", "model.layers_without_grad=16"), 3, 15),
            # 3 x (parameters + gradients + their copies + momentum)
            (("optimizer=sgd_momentum", "optimizer.nesterov=true"), 3, 24),
        ],
    )
    def test_is_the_formula_by_hand(self, overrides, arms, gib):
        """Arms times parameters, gradients, their copies, and states."""
        assert footprint.arms_at_once(large(*overrides)) == arms
        assert footprint.needed_bytes(large(*overrides)) == gib * GIB

    def test_of_a_published_model(self):
        """Llama 3.2 1B in bfloat16 with AdamW: 1,235,814,400 x 2 bytes x 4, in three arms."""
        assert footprint.needed_bytes(spec("model=llama_1b", "optimizer=adamw")) == 1_235_814_400 * 2 * 4 * 3

    def test_biases_count(self):
        """Of 4 layers in parameters and gradients of two arms."""
        small = ("model.depth=4", "optimizer=sgd", "measure=trace")
        more = footprint.needed_bytes(large(*small, "model.bias=true")) - footprint.needed_bytes(
            large(*small)
        )
        assert more == 2 * 2 * 4 * 4096 * 4

    @pytest.mark.parametrize(
        "overrides", [("optimizer=adam",), ("optimizer=sgd_momentum", "optimizer.nesterov=true")]
    )
    def test_an_arm_is_no_smaller(self, overrides):
        """What an arm holds after a step, but for its step counters, is what the formula says."""
        how = spec("model=tiny", "measure=trace", *overrides)
        arm = workload.build(how, CPU)
        arm.step()
        counters = sum(4 for state in arm.optimizer.state.values() if "step" in state)
        copies = sum(g.nbytes for g in arm.gradients or ())
        assert 2 * (memory.own_bytes(arm) - counters + copies) == footprint.needed_bytes(how)

    def test_unknown_states_do_not_count(self):
        """What an optimizer keeps may not be known; the rest still must fit."""
        assert footprint.needed_bytes(large("optimizer=lbfgs")) == 12 * GIB


class TestCheck:
    def test_what_just_fits_can_run(self):
        """To the byte."""
        footprint.check(large("optimizer=sgd"), 12 * GIB)

    def test_one_byte_less_is_unsupported(self):
        """With what it needs and what there is."""
        with pytest.raises(Unsupported) as caught:
            footprint.check(large("optimizer=sgd"), 12 * GIB - 1)
        assert str(caught.value) == (
            "model=large: parameters, gradients and states of 3 arms need 12,884,901,888 bytes (12.0 GiB), "
            "12,884,901,887 bytes (12.0 GiB) are available"
        )


class Made(TorchDispatchMode):
    """Notes the elements of the largest tensor that any operation of torch makes, but on the meta device."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call the operation and look at its results."""
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                self.largest = max(self.largest, tensor.numel())
        return result


class TestARunThatIsTooLarge:
    def test_the_spy_sees_what_is_made(self):
        """Of a device, and not of none."""
        with Made() as made:
            torch.nn.Linear(300, 10, device="meta")
            assert made.largest == 0
            torch.nn.Linear(30, 10)
            assert made.largest == 300

    MODELS = (
        ("model=llama_1b",),
        ("model=custom", "model._target_=tests.bench.modules.net", "model.arguments.width=30000"),
        ("model=large",),
    )

    @pytest.mark.parametrize("model", MODELS)
    def test_makes_no_tensor(self, model, monkeypatch):
        """Its memory is a tenth of what it needs; the row knows the model's size and the machine."""
        how = spec(*model, "device=cpu", "compile=aot_eager")
        needed = footprint.needed_bytes(how)
        tenth = needed // 10
        monkeypatch.setattr(machine, "free_bytes", lambda _device: tenth)
        facts, stages = {}, []
        with Made() as made, pytest.raises(Unsupported, match=rf" need {needed:,} bytes .* {tenth:,} bytes "):
            child.measure(
                how, lambda kind, value: facts.update(value) if kind == "facts" else stages.append(value)
            )
        assert made.largest < 10
        assert stages == ["prepare"]
        assert facts["parameters"] > 10**8
        assert facts["tensors"] > 0
        assert facts["torch_version"] == torch.__version__
