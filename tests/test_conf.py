"""Every file of conf/ and experiments/ becomes a spec."""

import re

import pytest

from src import paths
from src.spec import OPTIMIZERS, SCHEDULERS
from src.sweep import command_line
from tests.specs import spec as spec_of

CONF = paths.share_root() / "conf"
CHOICES = [
    (group.name, file.stem)
    for group in sorted(CONF.iterdir())
    if group.is_dir() and group.name != "hydra"
    for file in sorted(group.glob("*.yaml"))
]
PRESETS = sorted(file.stem for file in (paths.share_root() / "experiments").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


class TestConf:
    def test_there_are_choices_in_every_group(self):
        """The lists that the other tests run over are not empty."""
        assert {"model", "optimizer", "scheduler", "compile", "measure"} == {group for group, _ in CHOICES}
        assert PRESETS

    def test_nothing_else_lies_in_conf(self):
        """Every YAML file is one that a test here composes."""
        known = {CONF / group / f"{name}.yaml" for group, name in CHOICES}
        known |= {CONF / "config.yaml", CONF / "hydra" / "stepsweep.yaml"}
        assert {p for p in CONF.rglob("*") if p.is_file()} == known

    @pytest.mark.parametrize(("group", "name"), CHOICES)
    def test_every_choice_composes_and_bears_its_name(self, group, name):
        """The name in a row is the one on the command line."""
        chosen = getattr(spec_of(f"{group}={name}"), group)
        assert getattr(chosen, "name", name) == name

    def test_each_optimizer_and_scheduler_has_a_class_and_a_file(self):
        """No class without a file, no file without a class."""
        assert set(OPTIMIZERS) == {name for group, name in CHOICES if group == "optimizer"}
        assert set(SCHEDULERS) == {name for group, name in CHOICES if group == "scheduler"}

    def test_every_pair_of_choices_composes(self):
        """Optimizer, scheduler and backend may be combined at will."""
        names = {g: [n for group, n in CHOICES if group == g] for g in ("optimizer", "scheduler", "compile")}
        arguments = [f"{group}={','.join(values)}" for group, values in names.items()]
        plan = command_line.check(["-m", *arguments])
        made = {(s.optimizer.name, s.scheduler.name, s.compile.backend) for s in plan.specs}
        assert len(made) == len(plan.specs) == 3 * 4 * 3

    @pytest.mark.parametrize("name", [name for group, name in CHOICES if group == "model"])
    def test_the_comment_of_a_model_has_its_true_size(self, name):
        """`262,144 parameters in 4 tensors` is what the model has."""
        first = (CONF / "model" / f"{name}.yaml").read_text().splitlines()[0]
        told = re.match(r"# ([\d,]+) parameters in (\d+) tensors", first)
        model = spec_of(f"model={name}").model
        assert not model.bias
        assert int(told[1].replace(",", "")) == model.depth * model.width**2
        assert int(told[2]) == model.depth


class TestExperiments:
    @pytest.mark.parametrize("name", PRESETS)
    def test_every_preset_composes_as_a_sweep_of_its_name(self, name):
        """A preset gives several runs, each knows its preset and what was published."""
        plan = command_line.check(["-m", f"experiments={name}"])
        assert len(plan.specs) > 1
        assert {s.experiment.name for s in plan.specs} == {name}
        assert plan.specs[0].experiment.published
        assert len({s.run_key() for s in plan.specs}) == len(plan.specs)

    @pytest.mark.parametrize("name", PRESETS)
    def test_a_preset_without_m_is_refused(self, name):
        """One run of a table is not the table."""
        with pytest.raises(
            command_line.UsageError, match=f"^experiments={name} is a sweep: add -m to run it$"
        ):
            command_line.check([f"experiments={name}"])

    @pytest.mark.parametrize("name", PRESETS)
    def test_published_values_have_a_source(self, name):
        """Whoever doubts a published number finds it."""
        plan = command_line.check(["-m", f"experiments={name}"])
        for published in plan.specs[0].experiment.published:
            assert published.source.startswith("https://")
            assert published.label
            assert (published.eager_us, published.recompiles) != (None, None)
