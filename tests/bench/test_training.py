"""A whole training step: what it is made of, what of it is compiled, and that it is a user's own loop's."""

import importlib
import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from src.bench import arms, libraries, modules, training, workload
from src.bench.refusal import Unsupported
from src.rules import SpecError
from tests.bench.test_child import measured, traced
from tests.specs import spec

CPU = torch.device("cpu")
SMALL = (
    *("workload=train_step", "workload.batch_size=4", "workload.image_size=16"),
    *("workload.sequence_length=16", "device=cpu"),
)
MODELS = ("tiny_cnn", "tiny_transformer")
TARGETS = ("model", "optimizer", "model_and_optimizer", "step")
PARITY = ("parity", "parity_reason")

# Dynamo asks what goes on after a graph break for its gradient, and hides the warning in a way that makes it
# an error here (torch/_dynamo/variables/builder.py, `safe_has_grad`).
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

needs_cxx = pytest.mark.usefixtures("cxx_compiler")


class Named(nn.Module):
    """A model that returns its logits as an attribute, as those of transformers do."""

    def __init__(self, classes=5, dropout=0.0):
        super().__init__()
        self.layer = nn.Linear(3, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features):
        """Return an object."""
        return type("Output", (), {"logits": self.dropout(self.layer(features))})()


class Plain(nn.Module):
    """The same with a tensor."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.layer = nn.Linear(3, 5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features):
        """Return logits."""
        return self.dropout(self.layer(features))


class Broken(nn.Module):
    """A model with a graph break between its layers, and an operation that runs eager there."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        """Return logits."""
        x = self.layers[0](x)
        torch._dynamo.graph_break()
        return self.layers[1](doubled(x))


@torch.compiler.disable
def doubled(x):
    """Return twice as much, always eager."""
    return x * 2


class Segmenting(nn.Conv2d):
    """A model whose logits have four dimensions."""

    def __init__(self):
        super().__init__(3, 4, 3)


class Unlayered(nn.Module):
    """A model that does not tell what it takes."""


def no_module():
    """Return what is no module."""
    return 3


def custom(made, *more):
    """Return the overrides that choose a model of this file."""
    return (*SMALL, "model=custom", f"model._target_={made.__module__}.{made.__name__}", *more)


def small(model, *more):
    return spec(*SMALL, f"model={model}", *more)


class TestStep:
    @pytest.mark.parametrize("model", MODELS)
    def test_is_that_of_a_loop_written_by_hand(self, model):
        """Three steps of SGD with momentum, to the last bit: forward, loss, backward, step, zero_grad."""
        chosen = small(model, "optimizer=sgd_momentum", "optimizer.lr=0.1", "scheduler=step")
        built = workload.build(chosen, CPU)
        ours = [float(built.step().detach()) for _ in range(3)]
        module = modules.make(chosen, CPU)
        optimizer = torch.optim.SGD(module.parameters(), **chosen.optimizer.keywords())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, **chosen.scheduler.keywords())
        batch, theirs = built.training.batch, []
        for _ in range(3):
            logits = module(batch.inputs)
            loss = F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten())
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            theirs.append(loss.item())
        assert ours == theirs
        pairs = zip(module.parameters(), built.parameters, strict=True)
        assert all(torch.equal(p, q) for p, q in pairs)
        assert all(p.grad is None for p in built.parameters)

    def test_two_arms_start_alike(self):
        """Parameters, buffers, inputs and targets come from the seed."""
        one, other = (workload.build(small("tiny_cnn"), CPU) for _ in range(2))
        pairs = zip(
            (*one.training.module.state_dict().values(), *one.training.batch),
            (*other.training.module.state_dict().values(), *other.training.batch),
            strict=True,
        )
        assert all(torch.equal(p, q) and p is not q for p, q in pairs)

    def test_gradients_can_be_zeroed_in_place(self):
        """set_to_none false."""
        built = workload.build(small("tiny_cnn", "workload.set_to_none=false"), CPU)
        built.step()
        assert all(p.grad is not None and not p.grad.any() for p in built.parameters)

    def test_pieces_one_after_the_other_are_a_step(self):
        """Who watches them trains on."""
        whole, parted = (workload.build(small("tiny_cnn"), CPU) for _ in range(2))
        whole.step()
        pieces = parted.training.pieces()
        pieces.backward(pieces.loss(pieces.forward()))
        pieces.update()
        pieces.clear()
        pairs = zip(whole.parameters, parted.parameters, strict=True)
        assert all(torch.equal(p, q) for p, q in pairs)

    @pytest.mark.parametrize(("amp", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
    def test_mixed_precision_runs_the_model_in_it(self, amp, dtype):
        """The loss and the parameters stay in float32; fp16 has a gradient scaler."""
        built = workload.build(small("tiny_transformer", f"workload.amp={amp}"), CPU)
        assert built.training.pieces().forward().dtype == dtype
        loss = built.step()
        assert loss.dtype == torch.float32
        assert {p.dtype for p in built.parameters} == {torch.float32}
        assert (built.training.scaler is not None) == (amp == "fp16")

    def test_the_loss_of_a_model_in_bfloat16_is_in_bfloat16(self):
        """Nothing is widened unasked; mixed precision is what does."""
        loss = workload.build(small("tiny_cnn", "model.dtype=bfloat16"), CPU).step()
        assert loss.dtype == torch.bfloat16

    def test_channels_last_is_the_format_of_weights_and_images(self):
        """Both; the values are those of the usual format."""
        built = workload.build(small("tiny_cnn", "workload.channels_last=true"), CPU)
        assert built.training.batch.inputs.is_contiguous(memory_format=torch.channels_last)
        weight = built.training.module.layers[3].weight
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(weight, modules.make(small("tiny_cnn"), CPU).layers[3].weight)

    def test_decay_groups_are_those_of_the_parameters(self):
        """Vectors do not decay."""
        chosen = small("tiny_cnn", "optimizer=adamw", "model.param_groups=decay")
        groups = workload.build(chosen, CPU).optimizer.param_groups
        assert [len(group["params"]) for group in groups] == [3, 5]
        assert groups[1]["weight_decay"] == 0.0


class TestBatch:
    @pytest.mark.parametrize(
        ("overrides", "inputs", "targets"),
        [
            ((*SMALL, "model=tiny_cnn"), (4, 3, 16, 16), (4,)),
            ((*SMALL, "model=tiny_transformer"), (4, 16), (4, 16)),
            ((*SMALL, "model=tiny"), (4, 64), (4,)),
            (custom(Named), (4, 3), (4,)),
        ],
    )
    def test_fits_the_model(self, overrides, inputs, targets):
        """Images, tokens or features by its first layer; as many classes as it has logits."""
        batch = workload.build(spec(*overrides), CPU).training.batch
        assert (tuple(batch.inputs.shape), tuple(batch.targets.shape)) == (inputs, targets)

    def test_arguments_reach_the_model(self):
        """Seven classes give targets up to six."""
        chosen = spec(*custom(Named, "model.arguments.classes=7", "workload.batch_size=400"))
        assert workload.build(chosen, CPU).training.batch.targets.max() == 6

    def test_asking_the_model_leaves_its_buffers_alone(self):
        """No batch was seen before the first step."""
        module = workload.build(small("tiny_cnn"), CPU).training.module
        assert module.layers[1].num_batches_tracked == 0
        assert module.training

    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (Segmenting, "must return logits .batch, classes. or .batch, length, classes."),
            (Unlayered, "a Linear layer, whose first one tells what it takes: got a Unlayered"),
            (no_module, "model._target_ must make an nn.Module: .*no_module made an object of int"),
        ],
    )
    def test_a_model_that_cannot_be_trained_is_refused(self, made, message):
        """By its key, with what came."""
        with pytest.raises(SpecError, match=message):
            workload.build(spec(*custom(made)), CPU)

    def test_tokens_have_no_channels(self):
        """channels_last is for images."""
        with pytest.raises(SpecError, match=r"workload\.channels_last must be false"):
            workload.build(small("tiny_transformer", "workload.channels_last=true"), CPU)


class TestRefused:
    def test_a_library_that_is_not_there_is_no_failure(self, monkeypatch):
        """The row says what to install."""
        monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(Unsupported, match=r"^model=resnet18 needs torchvision, which is not installed$"):
            workload.build(spec(*SMALL, "model=resnet18"), CPU)

    def test_a_library_that_does_not_go_with_this_torch_is_no_failure(self, monkeypatch):
        """Its own words are in the reason."""

        real = importlib.import_module

        def fails(name, *rest):
            if name.startswith("torchvision"):
                raise RuntimeError("operator torchvision::nms does not exist")
            return real(name, *rest)

        monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: object())
        monkeypatch.setattr(libraries.importlib, "import_module", fails)
        with pytest.raises(Unsupported, match="cannot be imported: operator torchvision::nms does not exist"):
            workload.build(spec(*SMALL, "model=resnet18"), CPU)

    def test_mixed_precision_that_torch_lacks_is_told_before_the_first_step(self):
        """On a CPU autocast warns of a dtype that it does not take, and computes in float32."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(KeyError):
                training.check_amp(CPU, torch.float64)
        training.check_amp(CPU, torch.bfloat16)


def trained(model, backend, target, *more):
    torch._dynamo.reset()  # another module of the same class finds what was compiled for the first
    return traced(*SMALL, f"model={model}", f"compile={backend}", f"compile.target={target}", *more)


class TestTargets:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize(
        ("target", "graphs", "breaks"),
        [("model", 1, 0), ("optimizer", 1, 2), ("model_and_optimizer", 2, 2), ("step", 2, 4)],
    )
    def test_each_compiles_what_it_names_and_gives_what_eager_gives(self, model, target, graphs, breaks):
        """One graph of the model, one of the optimizer; a break around the optimizer, and one at backward.

        aot_eager runs torch's own kernels: its model is that of the eager arm to the last bit.
        """
        row = trained(model, "aot_eager", target)
        assert (row["graphs"], row["recompiles"], row["graph_breaks"] >= breaks) == (graphs, 0, True)
        assert (row["compiled_path"], row["eager_ops"]) == ("compiled", 0)
        assert [row[name] for name in PARITY] == ["passed", None]
        assert row["parity_loss_error"] < 1e-4
        if target == "model":
            assert row["parity_error"] == row["parity_loss_error"] == 0.0
            assert row["graph_breaks"] == 0

    @needs_cxx
    @pytest.mark.parametrize("target", ["model", "step"])
    def test_inductor_gives_what_eager_gives(self, target, cold_cache):
        """Its operations all run in its graphs, but for the one that begins the backward pass."""
        row = trained("tiny_cnn", "inductor", target)
        assert (row["compiled_path"], row["eager_ops"], row["parity"]) == ("compiled", 0, "passed")
        assert 0 < row["parity_error"] < 1e-4
        assert row["kernels"] > 0

    def test_backward_is_a_graph_break_of_the_whole_step(self):
        """torch does not trace it unless it is told to."""
        reasons = trained("tiny_cnn", "aot_eager", "step")["graph_break_reasons"]
        assert any("backward" in reason for reason in reasons)

    def test_a_model_with_an_eager_part_is_compiled_partly(self):
        """The multiplication between its two graphs is outside of them."""
        row = traced(*custom(Broken), "compile=aot_eager", "compile.target=model")
        assert (row["graphs"], row["graph_breaks"] > 0) == (2, True)
        assert (row["compiled_path"], row["eager_ops"]) == ("partly", 1)
        assert row["parity"] == "passed"

    def test_a_fused_optimizer_is_not_compiled_though_the_model_is(self):
        """Of a target that names both, half ran eager."""
        row = trained("tiny_cnn", "aot_eager", "model_and_optimizer", "optimizer.fused=true")
        assert (row["graphs"], row["compiled_path"], row["eager_path"]) == (1, "partly", "fused")
        assert (
            trained("tiny_cnn", "aot_eager", "model", "optimizer.fused=true")["compiled_path"] == "compiled"
        )
        alone = trained("tiny_cnn", "aot_eager", "optimizer", "optimizer.fused=true")
        assert (alone["compiled_path"], alone["verdict"]) == ("never_compiled", "invalid")

    def test_a_scheduler_recompiles_the_optimizer_and_not_the_model(self):
        """With a float learning rate, once: torch then makes the number dynamic."""
        counts = {t: trained("tiny_cnn", "aot_eager", t, "scheduler=linear")["recompiles"] for t in TARGETS}
        assert counts == {"model": 0, "optimizer": 1, "model_and_optimizer": 1, "step": 1}

    @pytest.mark.parametrize("amp", ["bf16", "fp16"])
    def test_mixed_precision_is_compiled_too(self, amp):
        """The dtype of the allowed difference is that of mixed precision."""
        row = trained("tiny_transformer", "aot_eager", "model", f"workload.amp={amp}")
        assert (row["parity"], row["compiled_path"]) == ("passed", "compiled")
        assert row["parity_tolerance"] == {"bf16": 0.02, "fp16": 2.5e-3}[amp]
        assert row["parity_eager_error"] > 1e-3

    def test_a_gradient_scaler_is_outside_of_a_whole_step_s_graphs(self):
        """torch does not trace it; without it the same step has nothing there."""
        scaled, plain = (
            trained("tiny_transformer", "aot_eager", "step", f"workload.amp={amp}")
            for amp in ("fp16", "bf16")
        )
        assert [row["graphs"] for row in (scaled, plain)] == [2, 2]
        assert [row["parity"] for row in (scaled, plain)] == ["passed", "passed"]
        assert (scaled["compiled_path"], scaled["eager_ops"] > 0) == ("partly", True)
        assert (plain["compiled_path"], plain["eager_ops"]) == ("compiled", 0)

    def test_fullgraph_holds_for_the_model_alone(self):
        """It has no graph break; the optimizer's step has one that a known rule speaks of."""
        assert trained("tiny_cnn", "aot_eager", "model", "compile.fullgraph=true")["graphs"] == 1
        for target in ("optimizer", "model_and_optimizer", "step"):
            with pytest.raises(Unsupported, match="graph break"):
                trained("tiny_cnn", "aot_eager", target, "compile.fullgraph=true")

    def test_a_wrong_model_is_seen(self, monkeypatch):
        """A compiled model that is not the eager one fails parity by its losses or its parameters."""

        def wrong(what, how):
            return lambda *given: 1.01 * what(*given)

        monkeypatch.setattr(arms, "_compile", wrong)
        row = trained("tiny_cnn", "aot_eager", "model")
        assert row["parity"] == "failed"
        assert "differ" in row["parity_reason"]

    def test_dropout_cannot_be_compared(self):
        """No two arms draw alike."""
        row = traced(*custom(Plain, "model.arguments.dropout=0.5"), "compile=aot_eager")
        assert row["parity"] is None
        assert row["parity_reason"] == "not compared: the step draws random numbers"


class TestTimed:
    def test_a_row_has_what_a_training_step_has(self):
        """Throughput is batch over time, interval included; no roofline floor, no memory traffic."""
        row = measured(*SMALL, "model=tiny_cnn", "measure.explain=true", "scheduler=step").row()
        assert row["input_shape"] == [4, 3, 16, 16]
        for arm in ("eager", "compiled", "eager_best"):
            for end, of in (("", ""), ("_low", "_high"), ("_high", "_low")):
                assert row[f"{arm}_samples_per_s{end}"] == pytest.approx(4e6 / row[f"{arm}_us{of}"])
            assert row[f"{arm}_peak_bytes"] > 0
            assert row[f"{arm}_gpu_utilisation"] is None
            assert row[f"{arm}_reserved_bytes"] is None
        for name in (
            "floor_us",
            "step_bytes",
            "eager_bytes",
            "bandwidth_gbps",
            "eager_attained",
            "eager_bound",
        ):
            assert row[name] is None
        assert row["eager_best"] in {"forloop", "foreach", "fused"}
        assert row["eager_final_loss"] == pytest.approx(row["compiled_final_loss"], rel=1e-4)
        # Adam keeps two moments of 5,466 elements and a counter for each of 8 tensors, in float32.
        assert row["state_bytes"] == 4 * (2 * 5466 + 8)

    def test_an_optimizer_step_has_none_of_it(self):
        """Its columns are as they were."""
        row = measured().row()
        assert row["input_shape"] is None
        assert row["eager_samples_per_s"] is None
        assert row["eager_final_loss"] is None
        assert row["parity_loss_error"] is None
        assert row["parity"] == "passed"
