"""The typed configuration: rules over several keys, the run key, and JSON."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from src import paths, spec
from src.optimizers import SGDSpec
from src.rules import SpecError
from src.schedulers import CosineSpec
from src.spec import GateSpec
from src.sweep import command_line
from tests.specs import spec as spec_of

ROOT = Path(__file__).parents[1]


def config_of(*overrides):
    command_line.register()
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        return compose("config", [*overrides])


class TestFromConfig:
    def test_gives_the_classes_of_the_choices(self):
        """A choice of optimizer and of scheduler brings its own arguments."""
        made = spec_of("optimizer=sgd", "scheduler=cosine")
        assert type(made.optimizer) is SGDSpec
        assert type(made.scheduler) is CosineSpec

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            (
                ["measure.arms=[eager,compiled,eager]"],
                "measure.arms must not repeat an arm: got ['eager', 'com",
            ),
            (["measure.arms=[eager]"], "measure.arms must contain eager and compiled: got ['eager']"),
            (["measure.arms=[compiled]"], "measure.arms must contain eager and compiled: got ['compiled']"),
            (
                ["compile=aot_eager", "compile.mode=max-autotune"],
                "compile.mode must be default with compile.backend=aot_eager, only inductor has modes: "
                "got max-autotune",
            ),
            (
                ["compile=none", "measure.arms=[eager,compiled,eager_after_compile]"],
                "measure.arms must not contain eager_after_compile with compile.backend=none",
            ),
            (
                ["lr_type=cuda_tensor", "device=cpu"],
                "lr_type must not be cuda_tensor with device=cpu",
            ),
            (
                ["model.frozen_layers=1", "model.layers_without_grad=3"],
                "model.frozen_layers and model.layers_without_grad must leave one of 4 layers: got 1 and 3",
            ),
            (
                ["optimizer=rprop", "model.param_groups=decay"],
                "model.param_groups must not be decay with optimizer=rprop: it has no weight_decay",
            ),
            (
                ["optimizer=custom", "optimizer._target_=a.B", "model.param_groups=decay"],
                "model.param_groups must not be decay with optimizer=a.B: it has no weight_decay, "
                "set optimizer.arguments.weight_decay",
            ),
            (
                ["optimizer.foreach=true", "optimizer.fused=true"],
                "optimizer.foreach and optimizer.fused must not both be true",
            ),
            (
                ["optimizer=sgd", "optimizer.nesterov=true"],
                "optimizer.nesterov needs optimizer.momentum above 0 and optimizer.dampening 0: "
                "got 0.0 and 0.0",
            ),
            (
                [
                    "optimizer=sgd",
                    "optimizer.nesterov=true",
                    "optimizer.momentum=0.9",
                    "optimizer.dampening=0.1",
                ],
                "optimizer.nesterov needs optimizer.momentum above 0 and optimizer.dampening 0: "
                "got 0.9 and 0.1",
            ),
            (["optimizer.name=sgd"], "optimizer.name must not be changed, choose optimizer=NAME: got 'sgd'"),
            (
                ["optimizer.name=lion"],
                "optimizer.name must not be changed, choose optimizer=NAME: got 'lion'",
            ),
            (
                ["scheduler.name=step"],
                "scheduler.name must not be changed, choose scheduler=NAME: got 'step'",
            ),
            (
                ["scheduler=chained", "scheduler.first.name=step"],
                "scheduler.first.name must not be changed, choose scheduler@scheduler.first=NAME: got 'step'",
            ),
            (
                ["optimizer=custom", "optimizer._target_=a.B", "optimizer.name=adam"],
                "optimizer.name must not be the name of a choice that is there: got 'adam'",
            ),
            (
                ["optimizer=custom", "optimizer._target_=a.B", "optimizer.name='a/b'"],
                r"optimizer.name must match [\w.-]+: got 'a/b'",
            ),
            (["output_dir=''"], "output_dir must match .+: got ''"),
            (["cpus=[]"], "cpus must name CPUs, each once, or be null: got []"),
            (["cpus=[1,0,1]"], "cpus must name CPUs, each once, or be null: got [1, 0, 1]"),
            (
                ["measure.timed=false", "measure.processes=2"],
                "measure.processes must be 1 with measure.timed=false, whose counts do not vary: got 2",
            ),
            (
                ["measure=trace", "measure.processes=5"],
                "measure.processes must be 1 with measure.timed=false, whose counts do not vary: got 5",
            ),
            (["seed='${nothing}'"], "seed: Interpolation key 'nothing' not found"),
            (["model.width='${no_resolver:}'"], "model.width: Unsupported interpolation type no_resolver"),
        ],
    )
    def test_a_broken_rule_is_told_in_one_line(self, overrides, message):
        """Rules over several keys name each of them, and what came."""
        with pytest.raises(SpecError) as caught:
            spec.from_config(config_of(*overrides))
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "overrides",
        [
            ["compile=none", "compile.mode=max-autotune"],
            ["lr_type=cuda_tensor", "device=auto"],
            ["lr_type=cpu_tensor", "device=cuda"],
            ["model.frozen_layers=1", "model.layers_without_grad=2"],
            ["model.param_groups=per_tensor", "optimizer=lbfgs"],
            ["model.param_groups=decay", "optimizer=muon"],
            [
                "model.param_groups=decay",
                "optimizer=custom",
                "optimizer._target_=a.B",
                "optimizer.arguments.weight_decay=0",
            ],
            ["optimizer=custom", "optimizer._target_=a.B", "optimizer.name=mine-1.0"],
            ["compile.logs=[recompiles,graph_breaks,output_code]"],
            ["optimizer.foreach=false", "optimizer.fused=true"],
            ["optimizer=sgd", "optimizer.nesterov=true", "optimizer.momentum=0.9"],
            ["measure.arms=[compiled,eager]"],
            ["measure.arms=[eager,compiled,eager_best,eager_after_compile]"],
            ["compile=none", "measure.arms=[eager,compiled,eager_best]"],
            ["measure=precise", "measure.processes=1"],
            ["measure=trace", "measure.processes=1"],
            ["cpus=[0]"],
            ["cpus=[3,1]"],
            ["cpus=null"],
            ["seed=0"],
            [f"seed={2**63 - 1}"],
            ["threads=1"],
            ["optimizer.lr=0"],
            ["model.width=1", "model.depth=1"],
        ],
    )
    def test_what_stands_next_to_a_rule_passes(self, overrides):
        """The rules refuse no more than they say."""
        assert spec.from_config(config_of(*overrides)).run_key()

    def test_a_config_of_something_else_is_refused(self):
        """Only what was composed from the schema becomes a spec."""
        with pytest.raises(SpecError, match="not made from the schema run_schema"):
            spec.from_config(OmegaConf.structured(GateSpec(None)))


class TestBounds:
    """Of the keys that say how a run is repeated and what its steps find."""

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("measure.processes=0", "measure.processes must be at least 1: got 0"),
            ("measure.processes=1000", "measure.processes must be below 1000: got 1000"),
            ("measure.process_spread=-0.1", "measure.process_spread must be at least 0: got -0.1"),
            ("measure.process_spread=1", "measure.process_spread must be below 1: got 1.0"),
            ("measure.shared_spread=-0.1", "measure.shared_spread must be at least 0: got -0.1"),
            ("measure.shared_spread=1", "measure.shared_spread must be below 1: got 1.0"),
            ("measure.grads=stale", "measure.grads must be one of fresh, static: got 'stale'"),
            (
                "measure.arms=[eager,compiled,best]",
                "measure.arms must be one of eager, compiled, eager_best, eager_after_compile: got 'best'",
            ),
            ("cpus=[-1]", "cpus must be at least 0: got -1"),
            ("cpus=[0,65536]", "cpus must be below 65536: got 65536"),
            ("limits.run_seconds=0", "limits.run_seconds must be above 0: got 0.0"),
        ],
    )
    def test_a_value_beyond_is_refused(self, override, message):
        """By the key, the rule and what came."""
        with pytest.raises(SpecError) as caught:
            spec.from_config(config_of(override))
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        "override",
        [
            *("measure.processes=999", "measure.process_spread=0", "measure.process_spread=0.999"),
            *("measure.shared_spread=0", "measure.shared_spread=0.999"),
            *("measure.grads=static", "measure.grads=fresh", "cpus=[0,65535]"),
        ],
    )
    def test_a_value_at_the_edge_passes(self, override):
        """Bounds that are included are included."""
        assert spec.from_config(config_of(override)).run_key()


class TestGate:
    def test_a_run_without_times_can_pass_no_gate(self):
        """It would let everything through, silently."""
        with pytest.raises(SpecError, match=r"gate.min_speedup must be null with measure.timed=false"):
            spec_of("measure=trace", "gate.min_speedup=1.2")


class TestLearningRateType:
    @pytest.mark.parametrize(
        ("lr_type", "as_tensor", "device"),
        [("float", False, None), ("cpu_tensor", True, "cpu"), ("cuda_tensor", True, "cuda")],
    )
    def test_says_what_holds_the_learning_rate_and_where(self, lr_type, as_tensor, device):
        """A float is on no device."""
        made = spec_of(f"lr_type={lr_type}")
        assert (made.lr_as_tensor, made.lr_device) == (as_tensor, device)


MEASURED = [
    "model=tiny",
    "model.width=257",
    "model.depth=5",
    "model.bias=true",
    "model.dtype=float64",
    "model.second_dtype=float64",
    "model.param_groups=decay",
    "model.param_groups=per_tensor",
    "model.frozen_layers=1",
    "model.layers_without_grad=1",
    "optimizer=adamw",
    "optimizer=sgd",
    "optimizer=sgd_momentum",
    "optimizer=radam",
    "optimizer.lr=0.02",
    "optimizer.betas=[0.8,0.999]",
    "optimizer.eps=1e-7",
    "optimizer.weight_decay=0.1",
    "optimizer.amsgrad=true",
    "optimizer.maximize=true",
    "optimizer.foreach=true",
    "optimizer.foreach=false",
    "optimizer.fused=true",
    "optimizer.capturable=true",
    "scheduler=linear",
    "scheduler=step",
    "scheduler=sequential",
    "scheduler=chained",
    "compile=aot_eager",
    "compile.mode=max-autotune",
    "compile.fullgraph=true",
    "compile.dynamic=false",
    "compile.cache=warm",
    "measure=quick",
    "measure=precise",
    "measure=trace",
    "measure.parity=false",
    "measure.arms=[eager,compiled]",
    "measure.arms=[compiled,eager,eager_best]",
    "measure.baseline=forloop",
    "measure.baseline=fused",
    "measure.processes=2",
    "measure.process_spread=0.02",
    "measure.shared_spread=0.02",
    "measure.grads=static",
    "measure.flush_cache=true",
    "measure.explain=false",
    "measure.warm_compile=false",
    "measure.sequential=true",
    "measure.trace_steps=3",
    "measure.max_seconds=3",
    "measure.min_rounds=7",
    "measure.min_effect=0.5",
    "lr_type=cpu_tensor",
    "lr_type=cuda_tensor",
    "device=cpu",
    "threads=1",
    "cpus=[0]",
    "cpus=[0,1]",
    "seed=1",
]

NOT_MEASURED = [
    "limits.run_seconds=5",
    "gate.min_speedup=1.5",
    "experiment.name=table",
    "experiment.title=Table",
    "+experiment.table.cells=[eager_us]",
    "experiment.published=[{label:a,speedup:2}]",
    "objective=speedup",
    "model.name=mine",
    "measure.name=mine",
    "compile.keep_cache=true",
    "compile.logs=[recompiles]",
    "retest_exclusions=true",
    "sweep_id=other",
    "output_dir=elsewhere",
]


class TestRunKey:
    def test_is_twelve_hex_digits_and_equal_for_equal_specs(self):
        """Two specs made apart from the same words have one key."""
        one, two = (spec.from_config(config_of("seed=3", "sweep_id=x")) for _ in range(2))
        assert one is not two
        assert one.run_key() == two.run_key()
        assert len(one.run_key()) == 12
        assert set(one.run_key()) <= set("0123456789abcdef")

    def test_is_the_same_in_another_process(self):
        """The key does not depend on the hash seed of a process."""
        code = "from tests.specs import spec; print(spec('seed=3').run_key())"
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert printed.strip() == spec_of("seed=3").run_key()

    def test_every_measured_key_changes_it(self):
        """No two of these configurations measure the same thing."""
        keys = {o: spec_of(o).run_key() for o in MEASURED} | {"": spec_of().run_key()}
        assert len(set(keys.values())) == len(keys)

    @pytest.mark.parametrize("override", NOT_MEASURED)
    def test_what_is_not_measured_does_not_change_it(self, override):
        """Limits, gates, names and places leave the measurement what it is."""
        assert spec_of(override).to_json() != spec_of().to_json()
        assert spec_of(override).run_key() == spec_of().run_key()

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("scheduler.second.gamma=0.9",), ("scheduler.second.gamma=0.8",)),
            (("scheduler@scheduler.second=step",), ("scheduler@scheduler.second=cosine",)),
            (("scheduler.milestone=3",), ("scheduler.milestone=4",)),
        ],
    )
    def test_a_part_of_a_scheduler_changes_it(self, one, other):
        """Composites that differ in a part measure something else."""
        one, other = (spec_of("scheduler=sequential", *overrides) for overrides in (one, other))
        assert one.run_key() != other.run_key()
        assert one.scheduler.described() != other.scheduler.described()

    def test_keys_that_came_later_left_the_keys_of_earlier_runs_alone(self):
        """What the version without training steps (schema 3) called these runs."""
        others = ("model=tiny", "optimizer=sgd", "scheduler=linear", "device=cpu")
        assert (spec_of().run_key(), spec_of(*others).run_key()) == ("3fbd3107d1b8", "c144c85d3d60")

    @pytest.mark.parametrize(
        "override",
        [
            *("workload.batch_size=8", "workload.amp=bf16", "workload.channels_last=true"),
            *("workload.image_size=32", "workload.sequence_length=32", "workload.set_to_none=false"),
            *("compile.target=optimizer", "compile.target=step", "compile.target=model_and_optimizer"),
            *("model=tiny_transformer", "model.arguments.channels=8"),
        ],
    )
    def test_every_key_of_a_training_step_changes_it(self, override):
        """Also what is compiled, and what the model is made with."""
        base = ("workload=train_step", "model=tiny_cnn")
        assert spec_of(*base, override).run_key() != spec_of(*base).run_key()

    def test_a_target_that_is_the_usual_one_is_the_same_run(self):
        """Named or not, it is the model of a training step and the whole of an optimizer's."""
        base = ("workload=train_step", "model=tiny_cnn")
        assert spec_of(*base, "compile.target=model").run_key() == spec_of(*base).run_key()
        assert spec_of("compile.target=step").run_key() == spec_of().run_key()

    def test_one_number_written_in_two_ways_is_one_number(self):
        """1e-2 and 0.01 measure the same, and so do 1 and 1.0."""
        assert spec_of("optimizer.lr=1e-2").run_key() == spec_of("optimizer.lr=0.01").run_key()
        assert spec_of("optimizer.lr=1").run_key() == spec_of("optimizer.lr=1.0").run_key()

    def test_all_keys_but_those_named_are_part_of_it(self):
        """A key added to RunSpec is measured until it is listed as not measured."""
        names = {f for f in asdict(spec_of()) if f not in spec.NOT_MEASURED}
        assert names == {
            *("workload", "model", "optimizer", "scheduler", "compile", "measure"),
            *("lr_type", "device", "threads", "cpus", "seed"),
        }


class TestForEager:
    def test_without_a_baseline_it_is_the_run_itself(self):
        """The eager arm is what the optimizer's arguments make it."""
        how = spec_of()
        assert how.for_eager() is how

    def test_a_baseline_changes_the_flags_of_the_optimizer_alone(self):
        """In a copy: the compiled arm keeps those that were configured."""
        how = spec_of("measure.baseline=forloop", "optimizer.foreach=true")
        told = how.for_eager()
        assert (how.optimizer.foreach, told.optimizer.foreach, told.optimizer.fused) == (True, False, False)
        assert asdict(told) | {"optimizer": None} == asdict(how) | {"optimizer": None}


TRAIN = ("workload=train_step", "model=tiny_cnn")


class TestTrainStep:
    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            (
                ("compile.target=model",),
                "compile.target must be step with workload=optimizer_step: got model",
            ),
            (("workload.name=train_step",), "workload.name must not be changed, choose workload=NAME"),
            ((*TRAIN, "optimizer=lbfgs"), "workload must not be train_step with optimizer=lbfgs"),
            ((*TRAIN, "optimizer=sparseadam"), "with optimizer=sparseadam: it takes sparse gradients"),
            ((*TRAIN, "measure.grads=static"), "measure.grads must be fresh with workload=train_step"),
            (
                (*TRAIN, "model.dtype=bfloat16", "workload.amp=bf16"),
                "workload.amp must be none with model.dtype=bfloat16: got bf16",
            ),
            (
                ("workload=train_step", "model=tiny", "model.frozen_layers=1"),
                "model.frozen_layers must be 0 with workload=train_step: got 1",
            ),
            ((*TRAIN, "workload.amp=fp8"), "workload.amp must be one of none, bf16, fp16: got 'fp8'"),
            ((*TRAIN, "workload.batch_size=0"), "workload.batch_size must be at least 1: got 0"),
            ((*TRAIN, "compile.target=loss"), "compile.target must be one of model, optimizer"),
        ],
    )
    def test_what_cannot_be_is_refused(self, overrides, message):
        """The dotted key, the rule, what came."""
        with pytest.raises(SpecError, match=re.escape(message)):
            spec_of(*overrides)

    def test_an_optimizer_step_has_no_batch(self):
        """Its keys are those of a training step alone."""
        with pytest.raises(SpecError, match=r"^workload\.batch_size is not a key: workload has name$"):
            spec_of("+workload.batch_size=4")

    def test_square_layers_can_be_trained(self):
        """The model is then a chain of linear layers."""
        assert spec_of("workload=train_step", "model=tiny").training.batch_size == 32


class TestToJson:
    def test_gives_back_every_value(self):
        """The JSON of the row is the whole configuration, Unicode readable."""
        made = replace(spec_of("experiment.title='Größe 漢'"), output_dir="/tmp/ä b")  # noqa: S108
        made.experiment.published.append({"label": "a", "eager_us": 1.5, "at": {"lr": "float"}})
        text = made.to_json()
        assert json.loads(text) == asdict(made)
        assert "Größe 漢" in text
        assert "\n" not in text
