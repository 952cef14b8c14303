"""The typed configuration: rules over several keys, the run key, and JSON."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from src import paths, spec
from src.rules import SpecError
from src.spec import PublishedSpec
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
        assert type(made.optimizer) is spec.SGDSpec
        assert type(made.scheduler) is spec.CosineSpec

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
                ["lr_as_tensor=true", "lr_device=cuda", "device=cpu"],
                "lr_device must be cpu with device=cpu: got cuda",
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
            (["output_dir=''"], "output_dir must match .+: got ''"),
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
            ["lr_as_tensor=true", "lr_device=cuda", "device=auto"],
            ["lr_device=cuda", "device=cpu"],
            ["optimizer.foreach=false", "optimizer.fused=true"],
            ["optimizer=sgd", "optimizer.nesterov=true", "optimizer.momentum=0.9"],
            ["measure.arms=[compiled,eager]"],
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
            spec.from_config(OmegaConf.structured(PublishedSpec("a", None, None, None, "b", "c")))


class TestArguments:
    def test_null_is_left_to_torch(self):
        """What the user leaves open is not passed on, so that torch chooses."""
        arguments = spec_of("optimizer=sgd", "optimizer.foreach=false").optimizer.arguments()
        assert arguments == {
            "lr": 0.01,
            "momentum": 0.0,
            "dampening": 0.0,
            "weight_decay": 0.0,
            "nesterov": False,
            "maximize": False,
            "foreach": False,
        }

    def test_a_scheduler_has_all_but_its_name(self):
        """The name of the choice is ours, not torch's."""
        assert spec_of("scheduler=step").scheduler.arguments() == {"step_size": 2, "gamma": 0.9}
        assert spec_of("scheduler=none").scheduler.arguments() == {}


MEASURED = [
    "model=tiny",
    "model.width=257",
    "model.depth=5",
    "model.bias=true",
    "model.dtype=float64",
    "optimizer=adamw",
    "optimizer=sgd",
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
    "compile=aot_eager",
    "compile.mode=max-autotune",
    "compile.fullgraph=true",
    "compile.dynamic=false",
    "compile.cache=warm",
    "measure=quick",
    "measure.arms=[compiled,eager]",
    "measure.trace_steps=3",
    "measure.max_seconds=3",
    "measure.min_rounds=7",
    "measure.min_effect=0.5",
    "lr_as_tensor=true",
    "lr_device=cuda",
    "device=cpu",
    "threads=1",
    "seed=1",
]

NOT_MEASURED = [
    "limits.run_seconds=5",
    "gate.min_speedup=1.5",
    "experiment.name=table",
    "experiment.title=Table",
    "objective=speedup",
    "model.name=mine",
    "measure.name=mine",
    "compile.keep_cache=true",
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

    def test_one_number_written_in_two_ways_is_one_number(self):
        """1e-2 and 0.01 measure the same, and so do 1 and 1.0."""
        assert spec_of("optimizer.lr=1e-2").run_key() == spec_of("optimizer.lr=0.01").run_key()
        assert spec_of("optimizer.lr=1").run_key() == spec_of("optimizer.lr=1.0").run_key()

    def test_all_keys_but_those_named_are_part_of_it(self):
        """A key added to RunSpec is measured until it is listed as not measured."""
        names = {f for f in asdict(spec_of()) if f not in spec.NOT_MEASURED}
        assert names == {
            *("model", "optimizer", "scheduler", "compile", "measure"),
            *("lr_as_tensor", "lr_device", "device", "threads", "seed"),
        }


class TestToJson:
    def test_gives_back_every_value(self):
        """The JSON of the row is the whole configuration, Unicode readable."""
        made = replace(spec_of("experiment.title='Größe 漢'"), output_dir="/tmp/ä b")  # noqa: S108
        made.experiment.published.append(PublishedSpec("a", 1.5, None, 0, "GPU", "https://x"))
        text = made.to_json()
        assert json.loads(text) == asdict(made)
        assert "Größe 漢" in text
        assert "\n" not in text
