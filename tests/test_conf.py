"""Every file of conf/ and experiments/ becomes a spec."""

import itertools
import math
import re
from functools import cache

import pytest
import torch
from omegaconf import OmegaConf

from src import exclusions, paths
from src.analysis import experiments
from src.bench import modules, optimizer
from src.bench.refusal import Unsupported
from src.models import SHAPES
from src.optimizers import OPTIMIZERS
from src.schedulers import SCHEDULERS
from src.spec import LR_TYPES
from src.sweep import command_line
from tests.specs import spec as spec_of

ROOT = paths.project_root()
CONF = paths.share_root() / "conf"
CHOICES = [
    (group.name, file.stem)
    for group in sorted(CONF.iterdir())
    if group.is_dir() and group.name not in ("hydra", "local")
    for file in sorted(group.glob("*.yaml"))
]
PLUGINS = (("launcher", "slurm"), ("sweeper/sampler", "tpe_seeded"))
"""What of `conf/hydra` is chosen as `hydra/GROUP=NAME`; tests/sweep/test_extras.py composes them."""
MODULES = ("tiny_cnn", "tiny_transformer")
STACKS = ("large", "medium", "small", "tiny", "tutorial")
PRESETS = sorted(file.stem for file in (paths.share_root() / "experiments").glob("*.yaml"))
PUBLISHED = (
    *("compiling_optimizer", "foreach_fused", "foreach_fused_sgd", "lr_scheduler", "resnet18_training"),
)
FEWER = {"recompiles": ("optimizer=muon,sgd_momentum", "scheduler=plateau,sequential")}
"""Overrides for a preset with more runs than a test should compose."""


def chosen(*choices):
    """Return the spec with these choices; a custom one names a class."""
    targets = [f"{group}._target_=pkg.Mine" for group, name in choices if name == "custom"]
    return spec_of(*(f"{group}={name}" for group, name in choices), *targets)


@cache
def plan_of(preset):
    return command_line.check(["-m", f"experiments={preset}", *FEWER.get(preset, ())])


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


class TestConf:
    def test_there_are_choices_in_every_group(self):
        """The lists that the other tests run over are not empty."""
        known = {"workload", "model", "optimizer", "scheduler", "compile", "measure"}
        assert known == {group for group, _ in CHOICES}
        assert PRESETS

    def test_nothing_else_lies_in_conf(self):
        """Every YAML file is one that a test here composes."""
        known = {CONF / group / f"{name}.yaml" for group, name in CHOICES}
        known |= {CONF / "config.yaml", CONF / "hydra" / "stepsweep.yaml"}
        known |= {CONF / "hydra" / group / f"{name}.yaml" for group, name in PLUGINS}
        found = {p for p in CONF.rglob("*") if p.is_file() and CONF / "local" not in p.parents}
        assert found == known

    @pytest.mark.parametrize(("group", "name"), CHOICES)
    def test_every_choice_composes_and_bears_its_name(self, group, name):
        """The name in a row is the one on the command line."""
        made = getattr(chosen((group, name)), group)
        assert getattr(made, "name", name) == ("pkg.Mine" if name == "custom" else name)

    def test_each_optimizer_and_scheduler_has_a_class_and_a_file(self):
        """No class without a file, no file without a class."""
        assert set(OPTIMIZERS) == {name for group, name in CHOICES if group == "optimizer"}
        assert set(SCHEDULERS) == {name for group, name in CHOICES if group == "scheduler"}

    @pytest.mark.parametrize("shift", range(4))
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_choices_of_different_groups_may_be_combined(self, optimizer, shift):
        """Each optimizer with some of the schedulers: all pairs would take minutes."""
        index = 4 * list(OPTIMIZERS).index(optimizer) + shift
        scheduler = list(SCHEDULERS)[index % len(SCHEDULERS)]
        backend = ("inductor", "aot_eager", "none")[index % 3]
        made = chosen(("optimizer", optimizer), ("scheduler", scheduler), ("compile", backend))
        assert type(made.optimizer) is OPTIMIZERS[optimizer]
        assert type(made.scheduler) is SCHEDULERS[scheduler]
        assert made.compile.backend == backend

    @pytest.mark.parametrize("name", MODULES)
    def test_the_comment_of_a_module_has_its_true_size(self, name):
        """As torch counts."""
        first = (CONF / "model" / f"{name}.yaml").read_text().splitlines()[0]
        told = re.match(r"# ([\d,]+) parameters in (\d+) tensors", first)
        made = list(modules.make(chosen(("model", name)), torch.device("cpu")).parameters())
        assert (f"{sum(p.numel() for p in made):,}", str(len(made))) == told.groups()

    @pytest.mark.parametrize("name", STACKS)
    def test_the_comment_of_a_stack_has_its_true_size(self, name):
        """`262,144 parameters in 4 tensors` is what the model has."""
        first = (CONF / "model" / f"{name}.yaml").read_text().splitlines()[0]
        told = re.match(r"# ([\d,]+) parameters in (\d+) tensors", first)
        model = spec_of(f"model={name}").model
        assert not model.bias
        assert int(told[1].replace(",", "")) == model.depth * model.width**2
        assert int(told[2]) == model.depth

    @pytest.mark.parametrize("name", SHAPES)
    def test_the_comment_of_a_published_model_has_its_true_size(self, name):
        """`124,439,808 parameters in 148 tensors` is what its table has."""
        first = (CONF / "model" / f"{name}.yaml").read_text().splitlines()[0]
        told = re.match(r"# ([\d,]+) parameters in (\d+) tensors", first)
        rows = (ROOT / "src" / "model_shapes" / f"{name}.csv").read_text().splitlines()[3:]
        sizes = [math.prod(map(int, row.split(",")[1].split("x"))) for row in rows]
        assert (int(told[1].replace(",", "")), int(told[2])) == (sum(sizes), len(sizes))

    def test_every_model_is_of_a_kind(self):
        """A stack, a published model, a small module of ours, or one's own."""
        assert {name for group, name in CHOICES if group == "model"} == {*STACKS, *SHAPES, *MODULES, "custom"}

    @pytest.mark.parametrize("name", SHAPES)
    def test_a_published_model_bears_the_name_of_its_table(self, name):
        """In one group, so that every optimizer takes it."""
        model = spec_of(f"model={name}").model
        assert (model.shapes, model.param_groups) == (name, "one")
        assert model.dtype == ("bfloat16" if name == "llama_1b" else "float32")


class TestMeasure:
    def test_each_choice_is_as_precise_as_it_says(self):
        """A look is one process without extras, what is published is five, a trace times nothing."""
        made = {name: spec_of(f"measure={name}").measure for group, name in CHOICES if group == "measure"}
        shown = {n: (m.timed, m.processes, m.explain, m.warm_compile) for n, m in made.items()}
        assert shown == {
            "default": (True, 1, True, True),
            "precise": (True, 5, True, True),
            "quick": (True, 1, False, False),
            "trace": (False, 1, False, False),
        }

    def test_all_of_them_find_gradients_as_a_training_loop_has_them(self):
        """In new memory, in caches that nobody emptied; and only on request as the tutorial times."""
        made = [spec_of(f"measure={name}").measure for group, name in CHOICES if group == "measure"]
        assert {(m.grads, m.flush_cache, m.sequential) for m in made} == {("fresh", False, False)}
        assert all(m.arms == ["eager", "compiled", "eager_best"] for m in made)


class TestExperiments:
    @pytest.mark.parametrize("name", PRESETS)
    def test_every_preset_composes_as_a_sweep_of_its_name(self, name):
        """A preset gives several runs, each knows its preset."""
        plan = plan_of(name)
        assert len(plan.specs) > 1
        assert {s.experiment.name for s in plan.specs} == {name}
        assert all(s.experiment.title for s in plan.specs)
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
        published = plan_of(name).specs[0].experiment.published
        assert bool(published) == (name in PUBLISHED)
        for one in published:
            assert one["source"].startswith("https://") or "not found again" in one["source"]
            assert one["label"]
            first = next(
                one[key] for key in ("compiled_us", "recompiles", "speedup", "eager_us") if key in one
            )
            assert isinstance(first, int | float)

    @pytest.mark.parametrize("name", PRESETS)
    def test_hydra_and_the_analysis_read_the_same_table(self, name):
        """The analysis knows no interpolation: what it reads is what a run was composed with."""
        composed = plan_of(name).specs[0].experiment
        read = experiments.read(paths.share_root() / "experiments" / f"{name}.yaml")
        assert (read.name, read.title) == (composed.name, composed.title)
        assert list(read.table.cells) == composed.table["cells"]
        assert [one.label for one in read.references] == [one["label"] for one in composed.published]

    def test_recompiles_are_counted_for_every_optimizer_and_scheduler(self):
        """Of torch's own; nothing is timed, and the learning rate changes in time."""
        preset = OmegaConf.load(paths.share_root() / "experiments" / "recompiles.yaml")
        axes = {name: values.split(",") for name, values in preset.hydra.sweeper.params.items()}
        assert axes == {
            "optimizer": [name for name in OPTIMIZERS if name != "custom"],
            "scheduler": [name for name in SCHEDULERS if name != "custom"],
            "lr_type": ["float", "cpu_tensor"],
        }
        (one, *_) = plan_of("recompiles").specs
        assert not one.measure.timed
        assert not one.model.bias
        assert one.compile.backend == "aot_eager"

    def test_every_optimizer_of_torch_is_in_the_zoo(self):
        """Over three models, with the default and the best eager step; over parameters alone."""
        specs = plan_of("optimizer_zoo").specs
        names = [name for name in OPTIMIZERS if name != "custom"]
        models = ("resnet18", "gpt2", "vit_b_16")
        assert [(s.optimizer.name, s.model.name) for s in specs] == list(itertools.product(names, models))
        assert {s.workload.name for s in specs} == {"optimizer_step"}
        assert all(s.measure.arms == ["eager", "compiled", "eager_best"] for s in specs)
        assert {s.measure.baseline for s in specs} == {None}

    def test_what_the_zoo_cannot_time_is_known_before_it_runs(self):
        """Three optimizers, over each of the models: LBFGS and SparseAdam are left out, Muon refuses."""
        left_out, refused = set(), set()
        for one in plan_of("optimizer_zoo").specs:
            if exclusions.find(one, "cuda", "2.11.0"):
                left_out.add((one.optimizer.name, one.model.name))
            try:
                optimizer.check(one)
            except Unsupported:
                refused.add((one.optimizer.name, one.model.name))
        models = ("resnet18", "gpt2", "vit_b_16")
        assert left_out == set(itertools.product(("lbfgs", "sparseadam"), models))
        assert refused == set(itertools.product(("muon",), models))

    @pytest.mark.parametrize("name", ["foreach_fused", "foreach_fused_sgd"])
    def test_every_implementation_is_the_baseline_of_a_run(self, name):
        """The compiled arm stays what the default arguments make of it, the eager arm is no default."""
        specs = plan_of(name).specs
        baselines = [s.measure.baseline for s in specs]
        assert baselines == ["forloop", "foreach", "fused"] * (len(specs) // 3)
        assert {(s.optimizer.foreach, getattr(s.optimizer, "fused", None)) for s in specs} == {(None, None)}
        assert all(s.measure.arms == ["eager", "compiled"] for s in specs)

    def test_published_times_of_multi_tensor_optimizers_stand_beside_their_runs(self):
        """Loop and multi-tensor of seven optimizers over ResNet-101, in us; fused is ours alone."""
        plan = plan_of("foreach_fused")
        runs = {(s.model.name, s.optimizer.name, s.measure.baseline) for s in plan.specs}
        assert len(runs) == 21
        published = plan.specs[0].experiment.published
        at = {tuple(one["at"].values()): one["eager_us"] for one in published}
        assert len(at) == len(published) == 14
        assert at.keys() < runs
        ratios = {
            name: round(at["resnet101", name, "forloop"] / at["resnet101", name, "foreach"], 1)
            for _, name, _ in at
        }
        assert ratios == {
            **{"adam": 4.2, "adamw": 3.3, "sgd": 1.4, "rmsprop": 4.9, "rprop": 1.2},
            **{"asgd": 2.3, "adamax": 1.2},
        }

    def test_published_times_of_fused_sgd_stand_beside_their_runs(self):
        """Fused is faster over 1024 elements and slower over 65536, which are 32 and 256 squared."""
        plan = plan_of("foreach_fused_sgd")
        runs = {
            (s.optimizer.name, s.model.depth, s.model.width, s.measure.baseline): s.model.width**2
            for s in plan.specs
        }
        assert set(runs.values()) == {1024, 65536}
        published = plan.specs[0].experiment.published
        at = {tuple(one["at"].values()): one["eager_us"] for one in published}
        assert len(at) == len(published) == 20
        assert at.keys() < runs.keys()
        for (*where, baseline), us in at.items():
            if baseline == "fused":
                assert (us < at[*where, "forloop"]) == (runs[*where, baseline] == 1024)

    def test_the_types_of_a_learning_rate_are_all_timed(self):
        """Without and with a scheduler."""
        made = [(s.scheduler.name, s.lr_type, s.measure.timed) for s in plan_of("lr_types").specs]
        assert made == [(s, t, True) for s in ("none", "linear") for t in LR_TYPES]
