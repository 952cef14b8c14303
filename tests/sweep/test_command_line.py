"""The command line: what is refused and how, and that what passes is what Hydra will run."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import create_config_search_path
from hydra.core.override_parser.overrides_parser import OverridesParser

from src import paths
from src.sweep import command_line
from src.sweep.command_line import JobError, UsageError, check

ROOT = Path(__file__).parents[2]
MODELS = (
    "Available options in 'model': bert_base, custom, gpt2, large, llama_1b, medium, resnet101, resnet18, "
    "resnet50, small, tiny, tiny_cnn, tiny_transformer, tutorial, vit_b_16"
)


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Return a copy of conf/ and experiments/ that the command line uses instead."""
    for name in ("conf", "experiments"):
        shutil.copytree(paths.share_root() / name, tmp_path / name)
    monkeypatch.setattr(paths, "share_root", lambda: tmp_path)
    return tmp_path / "conf"


def refusal(*arguments):
    with pytest.raises(UsageError) as caught:
        check(list(arguments))
    return str(caught.value)


REFUSED = [
    # types
    ("optimizer.lr=fast", "optimizer.lr: Value 'fast' of type 'str' could not be converted to Float"),
    ("optimizer.lr=", "optimizer.lr: Value '' of type 'str' could not be converted to Float"),
    ("optimizer.lr=null", "optimizer.lr: field 'optimizer.lr' is not Optional"),
    ("model.width=wide", "model.width: Value 'wide' of type 'str' could not be converted to Integer"),
    ("model.width=1.5", "model.width: Value '1.5' of type 'float' could not be converted to Integer"),
    ("seed=true", "seed: Value 'True' of type 'bool' could not be converted to Integer"),
    ("optimizer.foreach=maybe", "optimizer.foreach: Value 'maybe' is not a valid bool"),
    ("measure.arms=eager", "measure.arms: Invalid value assigned: str is not a ListConfig"),
    ("optimizer.betas=[0.9,a]", "optimizer.betas[1]: Value 'a' of type 'str' could not be converted to"),
    ("limits=3", "limits: Invalid type assigned: int is not a subclass of LimitsSpec"),
    ("limits=null", "limits: field 'limits' is not Optional"),
    # ranges
    ("model.width=0", "model.width must be at least 1: got 0"),
    ("optimizer.lr=-1", "optimizer.lr must be at least 0: got -1.0"),
    ("optimizer.lr=nan", "optimizer.lr must be a finite number: got nan"),
    ("optimizer.betas=[0.9]", "optimizer.betas must have 2 items: got [0.9]"),
    ("optimizer.betas=[0.9,1.0]", "optimizer.betas must be below 1: got 1.0"),
    ("seed=9223372036854775808", "seed must be below 9223372036854775808: got 9223372036854775808"),
    ("limits.run_seconds=0", "limits.run_seconds must be above 0: got 0.0"),
    ("measure.min_rounds=5", "measure.min_rounds must be at least 6: got 5"),
    # choices
    ("device=tpu", "device must be one of auto, cpu, cuda: got 'tpu'"),
    ("device=CPU", "device must be one of auto, cpu, cuda: got 'CPU'"),
    (
        "compile.mode=fast",
        "compile.mode must be one of default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs: "
        "got 'fast'",
    ),
    (
        "measure.arms=[eager,x]",
        "measure.arms must be one of eager, compiled, eager_best, eager_after_compile: got 'x'",
    ),
    ("model=nope", f"In 'config': Could not find 'model/nope'\n{MODELS}"),
    ("model=", f"In 'config': Could not find 'model/'\n{MODELS}"),
    (
        "experiments=nope",
        "In 'config': Could not find 'experiments/nope'\n"
        "Available options in 'experiments': adam_sizes, compiling_optimizer, foreach_fused, "
        "foreach_fused_sgd, lr_scheduler, lr_types, model_sizes, optimizer_zoo, recompiles, "
        "resnet18_training, two_eager_arms",
    ),
    ("hydra/launcher=nope", "In 'hydra/config': Could not find 'hydra/launcher/nope'\nAvailable options in"),
    # keys
    ("model.widht=3", "model.widht is not a key: model has bias, depth, dtype, frozen_layers, "),
    ("+model.widht=3", "model.widht is not a key: model has bias, depth, dtype, frozen_layers, "),
    ("++model.widht=3", "model.widht is not a key: model has bias, depth, dtype, frozen_layers, "),
    ("wdith=3", "wdith is not a key: the top level has compile, cpus, device, "),
    ("+wdith=3", "wdith is not a key: the top level has compile, cpus, device, "),
    ("++a.b=3", "a is not a key: the top level has compile, cpus, device, "),
    ("optimizer.momentum=0.9", "optimizer.momentum is not a key: optimizer has amsgrad, betas, "),
    ("hydra.nope=1", "hydra.nope: Key 'nope' not in 'HydraConf'"),
    ("~seed", "seed was removed: every key is needed"),
    ("~limits", "limits was removed: every key is needed"),
    ("~optimizer", "optimizer has no value: set it"),
    ("lr_as_tensor=true", "lr_as_tensor is not a key: the top level has compile, cpus, device, "),
    ("scheduler.first.gamma=1", "scheduler.first is not a key: scheduler has name"),
    ("~optimizer.lr", "optimizer.lr: AdamSpec (DictConfig) does not support deletion"),
    ("~model=tiny", "Could not delete 'model=tiny'. No match in the defaults list"),
    ("=3", "=3 has no key"),
    ("seed='???'", "seed has no value: set it"),
    # groups that are not one name
    ("model=null", "model must be the name of one choice: got model=null"),
    ("model=[tiny,small]", "model must be the name of one choice: got model=[tiny,small]"),
    ("optimizer=1", "optimizer must be the name of one choice: got optimizer=1"),
    ("compile=true", "compile must be the name of one choice: got compile=true"),
    ("experiments=[]", "experiments must be the name of one choice: got experiments=[]"),
    ("hydra.sweeper=null", "hydra.sweeper must not be null"),
    # sweeps
    ("seed=1,2", "seed=1,2 has several values: add -m to sweep over them"),
    ("seed=range(2)", "seed=range(2) has several values: add -m to sweep over them"),
    ("model=glob(*)", "model=glob(*) has several values: add -m to sweep over them"),
    ("experiments=lr_scheduler", "experiments=lr_scheduler is a sweep: add -m to run it"),
    # grammar
    ("model", "Error parsing override 'model'\nmissing EQUAL at '<EOF>'"),
    ("model=(tiny", "Error parsing override 'model=(tiny'\nextraneous input '('"),
    ("model.width=[1", "no viable alternative at input '[1'"),
    ("optimizer.lr=0.1 seed=1", "mismatched input '=' expecting <EOF>"),
    ("model=täny", "model=täny cannot be read: put quotes around a value"),
    ("model='täny'", f"In 'config': Could not find 'model/täny'\n{MODELS}"),
    ("seed=\x00", "seed=\x00 cannot be read: put quotes around a value"),
    # interpolations
    ("optimizer.lr=${nope}", "optimizer.lr: Interpolation key 'nope' not found"),
    ("seed='${nope:}'", "seed: Unsupported interpolation type nope"),
    # names that become paths
    ("model.name=a/b", "model.name must match [A-Za-z0-9_.-]+: got 'a/b'"),
    ("measure.name=../x", "measure.name must match [A-Za-z0-9_.-]+: got '../x'"),
    ("experiment.name=a/b", "experiment.name must match [A-Za-z0-9_.-]+: got 'a/b'"),
    ("sweep_id=../x", "sweep_id must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got '../x'"),
    ("sweep_id=..", "sweep_id must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got '..'"),
    ("sweep_id=", "sweep_id must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got ''"),
    (f"sweep_id={'x' * 101}", "sweep_id must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got 'xxx"),
    ("output_dir=", "output_dir must match .+: got ''"),
    ("output_dir=null", "output_dir: field 'output_dir' is not Optional"),
    ("model=/etc/passwd", f"In 'config': Could not find 'model//etc/passwd'\n{MODELS}"),
    # parts of choices
    (
        "scheduler@scheduler.second=step",
        "Could not override 'scheduler@scheduler.second'.\nDid you mean to override scheduler?",
    ),
    # classes of the user's own
    ("optimizer=custom", "optimizer._target_ has no value: set it"),
    ("scheduler=custom", "scheduler._target_ has no value: set it"),
    ("optimizer.arguments.beta=0.9", "optimizer.arguments is not a key: optimizer has amsgrad, "),
    # the choice's own name
    ("optimizer.name=sgd", "optimizer.name must not be changed, choose optimizer=NAME: got 'sgd'"),
    # options
    ("--frobnicate", "--frobnicate is not an option here: see --help"),
    ("seed=range(0,1e9)", "seed=range(0,1e9) has several values: add -m"),
    ("model.width=10000000000000000000000", "model.width must be below 2147483648: got 1000"),
    ("threads=10000000000", "threads must be below 65536: got 10000000000"),
    ("limits.run_seconds=1e30", "limits.run_seconds must be below 1000000000.0: got 1e+30"),
    ("measure.trace_steps=10000000000000000000000", "measure.trace_steps must be below 2**63: got 1"),
    ("-x", "-x is not an option here: see --help"),
    # resume, retry, limits, exclude
    ("resume=../x", "resume must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got '../x'"),
    ("resume='a b'", "resume must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got 'a b'"),
    ("resume='größe'", "resume must match [A-Za-z0-9][A-Za-z0-9_.-]{0,99}: got 'größe'"),
    ("resume_mixed=perhaps", "resume_mixed: Value 'perhaps' is not a valid bool"),
    ("retry=-1", "retry must be at least 0: got -1"),
    ("retry=1.5", "retry: Value '1.5' of type 'float' could not be converted to Integer"),
    ("retry=null", "retry: field 'retry' is not Optional"),
    ("limits.compile_seconds=0", "limits.compile_seconds must be above 0: got 0.0"),
    (
        "limits.timing_seconds=soon",
        "limits.timing_seconds: Value 'soon' of type 'str' could not be converted",
    ),
    ("limits.memory_gib=-4", "limits.memory_gib must be above 0: got -4.0"),
    ("limits.memory_bytes=4", "limits.memory_bytes is not a key: limits has compile_seconds, memory_gib, "),
    ("measure.pin=2,3", "measure.pin=2,3 has several values: add -m to sweep over them"),
    ("exclude=[{}]", "exclude[0] must name at least one key: it would leave out every run"),
    ("exclude=[{optimzer: sgd}]", "exclude[0]: optimzer is not a key: name one of compile, measure, "),
    ("exclude=[{optimizer: sgd},{scheduler: nope}]", "exclude[1]: scheduler must be one of chained, "),
    ("exclude=[{optimizer.lr: [0.1, {a: 1}]}]", "exclude[0]: optimizer.lr must be a value or a list of "),
    ("exclude=[{optimizer.lr: nan}]", "exclude[0].optimizer.lr must be a finite number: got nan"),
    ("exclude=sgd", "exclude: Invalid value assigned: str is not a ListConfig"),
    # very long values, quotes, names that are paths
    (f"model={'x' * 5000}", "a configuration file cannot be read: File name too long: "),
    (f"experiment.name={'x/' * 500}", "experiment.name must match [A-Za-z0-9_.-]+: got 'x/x/"),
    ("optimizer='sgd", "optimizer='sgd cannot be read: put quotes around a value"),
    ('optimizer="adam,sgd"', "In 'config': Could not find 'optimizer/adam,sgd'"),
    ("optimizer=../model/tiny", "optimizer must be the name of one choice: got optimizer=../model/tiny"),
]

REFUSED_SWEEPS = [
    (["optimizer=adam,sgd", "exclude=[{optimizer: sdg}]"], "exclude[0]: optimizer must be one of adadelta, "),
    (["seed=interval(0,1)"], "seed=interval(0,1) needs a sweeper that chooses values, such as Optuna's"),
    (["seed=range(0)"], "seed has no value to sweep over"),
    (["seed=choice()"], "Error parsing override 'seed=choice()'\nValueError while evaluating 'choice()'"),
    (["model=glob(zz*)"], "model has no value to sweep over"),
    (["seed="], "seed: Value '' of type 'str' could not be converted to Integer"),
    (["optimizer.lr=0.1,-1"], "optimizer.lr must be at least 0: got -1.0"),
    (["seed=1,2,x"], "seed: Value 'x' of type 'str' could not be converted to Integer"),
    (["model=tiny,nope"], f"In 'config': Could not find 'model/nope'\n{MODELS}"),
    (["optimizer=adam,sgd", "optimizer.amsgrad=true"], "optimizer.amsgrad is not a key: optimizer has damp"),
    (
        ["compile=inductor,aot_eager", "compile.mode=default,max-autotune"],
        "compile.mode must be default with",
    ),
    (
        ["experiments=lr_scheduler,compiling_optimizer"],
        "experiments must be one preset, each is a sweep of its own: "
        "got experiments=lr_scheduler,compiling_optimizer",
    ),
    (
        ["experiments=glob(*)"],
        "experiments must be one preset, each is a sweep of its own: got experiments=g",
    ),
    (["experiments=nope"], "In 'config': Could not find 'experiments/nope'\nAvailable options in"),
    (["sweep_id=a,b"], "sweep_id must be the same in all runs of a sweep: got a, b"),
    (["output_dir=a,b"], "output_dir must be the same in all runs of a sweep: got a, b"),
    (["hydra.sweeper.params.seed=1"], "Hydra cannot compose hydra.sweeper.params.seed=1: "),
    (["--run", "seed=1"], "-m and --run exclude each other"),
]


class TestRefused:
    @pytest.mark.parametrize(("argument", "message"), REFUSED)
    def test_the_message_has_the_key_and_what_is_allowed(self, argument, message):
        """One or two lines without a traceback, from the first argument that is wrong."""
        told = refusal(argument)
        assert told.startswith(message)
        assert told.count("\n") <= 1
        assert "Traceback" not in told
        assert all(line.strip() for line in told.splitlines())

    @pytest.mark.parametrize(("arguments", "message"), REFUSED_SWEEPS)
    def test_a_sweep_is_refused_for_any_of_its_runs(self, arguments, message):
        """Nothing starts when the last run of a sweep would fail."""
        told = refusal("-m", *arguments)
        assert told.startswith(message)
        assert told.count("\n") <= 1

    def test_what_the_preset_sweeps_over_is_checked_as_well(self, conf):
        """A mistake in a preset's axes is told before any run."""
        preset = conf.parent / "experiments" / "lr_scheduler.yaml"
        preset.write_text(preset.read_text().replace("lr_type: float,cpu_tensor", "seed: 1,-2"))
        assert refusal("-m", "experiments=lr_scheduler") == "seed must be at least 0: got -2"

    def test_nothing_is_made(self, tmp_path):
        """A refused command line leaves no folder behind."""
        refusal(f"output_dir='{tmp_path}/new'", "seed=-1")
        assert list(tmp_path.iterdir()) == []


class TestBrokenConf:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("width: [1, 2\ndepth: 3\n", "tiny.yaml"),
            ("a:\tb: c\n", "tiny.yaml"),
            ("defaults: [/schema/model@_here_: model, _self_]\nwidht: 3\n", "'widht' not in 'StackSpec'"),
            ("defaults: [nope, _self_]\n", "Could not load 'model/nope'"),
        ],
        ids=["open bracket", "tab", "unknown key", "unknown default"],
    )
    def test_the_file_is_named(self, conf, text, told):
        """Whoever edited a YAML finds which."""
        (conf / "model" / "tiny.yaml").write_text(text)
        message = refusal("model=tiny")
        assert told in message
        assert "model/tiny" in message
        assert message.count("\n") <= 1

    def test_a_file_that_is_not_text(self, conf):
        """Bytes that are no UTF-8 are no crash."""
        (conf / "model" / "tiny.yaml").write_bytes(b"width: \xff\xfe\n")
        assert refusal("model=tiny").count("\n") <= 1

    def test_a_value_that_is_missing(self, conf):
        """A choice that leaves a key open is told by its dotted key."""
        path = conf / "model" / "tiny.yaml"
        path.write_text(path.read_text().replace("width: 64\n", ""))
        assert refusal("model=tiny") == "model.width has no value: set it"

    def test_a_new_choice_needs_no_code(self, conf):
        """A YAML beside the others is a choice like them."""
        (conf / "model" / "mine.yaml").write_text("defaults: [tiny, _self_]\nname: mine\nwidth: 8\n")
        (spec,) = check(["model=mine"]).specs
        assert (spec.model.name, spec.model.width, spec.model.depth) == ("mine", 8, 2)


def hydras_jobs(arguments, axes):
    """Return the overrides of each job by Hydra's own sweeper; a preset's `axes` come first."""
    loader = ConfigLoaderImpl(create_config_search_path(str(paths.share_root() / "conf")))
    own = [f"{key}={values}" for key, values in axes.items()]
    parsed = OverridesParser.create(loader).parse_overrides([*own, *arguments])
    (batch,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return batch


PRESET_AXES = {"lr_type": "float,cpu_tensor", "optimizer.foreach": "null,true"}

CUSTOM = ("optimizer=custom", "optimizer._target_=pkg.Lion")

SWEEPS = [
    (["seed=1,2,3"], {}, 3),
    (["seed=1"], {}, 1),
    (["seed=range(4)", "optimizer=adam,sgd"], {}, 8),
    (["optimizer=sgd,adam", "seed=choice(3,1,2)"], {}, 6),
    (["seed=range(1,10,3)"], {}, 3),
    (["seed=sort(3,1,2)"], {}, 3),
    (["optimizer.lr=0.1,1e-3", "model=tiny", "compile=aot_eager,none"], {}, 4),
    (["model=glob(*,exclude=custom)"], {}, 14),
    (["model=glob(*,exclude=[t*,custom,*_*])"], {}, 7),
    (["optimizer.betas=[0.9,0.99],[0.8,0.9]"], {}, 2),
    (["experiment.title='a b','c,d'"], {}, 2),
    (["+gate.min_speedup=1,2"], {}, 2),
    (["++gate.min_speedup=1,2"], {}, 2),
    (["seed=1,2", "seed=7"], {}, 1),
    (["limits={run_seconds:3},{run_seconds:4}", "limits.run_seconds=5"], {}, 2),
    (["limits.run_seconds=5", "limits={run_seconds:3},{run_seconds:4}"], {}, 2),
    (["optimizer.foreach=null,true,false", "model.bias=yes,no"], {}, 6),
    (["seed=1,2", "threads=1,2", "seed=5,6,7"], {}, 6),
    ([*CUSTOM, "optimizer.arguments.beta=0.9,0.99"], {}, 2),
    ([*CUSTOM, "+optimizer.arguments.beta=0.9,0.99", "optimizer.arguments.c=[1,2],[3]"], {}, 4),
    ([*CUSTOM, "optimizer.arguments={beta:0.9},{eps:0.1}"], {}, 2),
    (["optimizer=custom", "optimizer._target_=pkg.Lion,pkg.Tiger"], {}, 2),
    (["scheduler=sequential,chained", "scheduler.first.total_iters=3,4"], {}, 4),
    (["scheduler=sequential", "scheduler@scheduler.second=step,cosine", "scheduler.milestone=2,3"], {}, 4),
    (["experiments=lr_scheduler"], PRESET_AXES, 4),
    (["experiments=lr_scheduler", "lr_type=cpu_tensor"], PRESET_AXES, 2),
    (["experiments=lr_scheduler", "lr_type=cpu_tensor", "optimizer.foreach=null"], PRESET_AXES, 1),
    (["experiments=lr_scheduler", "seed=1,2,3"], PRESET_AXES, 12),
    (["experiments=lr_scheduler", "lr_type=cpu_tensor,float"], PRESET_AXES, 4),
]


class TestExpansion:
    @pytest.mark.parametrize(("arguments", "axes", "count"), SWEEPS)
    def test_runs_are_hydras_jobs_in_hydras_order(self, arguments, axes, count):
        """Run number i of the plan is job number i of Hydra's own sweeper."""
        plan = check(["-m", *arguments])
        jobs = hydras_jobs(arguments, axes)
        assert len(plan.specs) == len(jobs) == count
        for spec, job in zip(plan.specs, jobs, strict=True):
            (alone,) = check(["-m", *job]).specs  # it names every axis
            assert spec == alone

    def test_an_override_of_a_swept_axis_collapses_it(self):
        """The command line has the last word on a preset's axis."""
        plan = check(["-m", "experiments=lr_scheduler", "lr_type=cpu_tensor"])
        assert [(s.lr_as_tensor, s.optimizer.foreach) for s in plan.specs] == [(True, None), (True, True)]

    def test_the_plan_knows_what_all_runs_share(self):
        """What does not vary is not repeated beside each run."""
        plan = check(["-m", "model=tiny", "+gate.min_speedup=2", "seed=1,2", "experiment.title='a b'"])
        assert plan.fixed == ("model=tiny", "+gate.min_speedup=2", "experiment.title='a b'")

    def test_without_m_there_is_one_run(self):
        """One configuration, one run."""
        plan = check(["model=tiny", "seed=5"])
        assert [(s.model.name, s.seed) for s in plan.specs] == [("tiny", 5)]
        assert check([]).specs == check(["--run"]).specs

    @pytest.mark.parametrize("flag", ["-m", "--multirun"])
    def test_the_flag_may_stand_anywhere(self, flag):
        """Hydra reads it at any place, and so does the check."""
        assert len(check(["seed=1,2", flag, "model=tiny"]).specs) == 2

    def test_a_sweeper_that_chooses_values_has_no_known_runs(self, conf):
        """With Optuna's sweeper the number of runs is its own business; the fixed part is checked."""
        (conf / "hydra" / "sweeper").mkdir(exist_ok=True)
        (conf / "hydra" / "sweeper" / "other.yaml").write_text("_target_: somewhere.OtherSweeper\n")
        arguments = ["-m", "hydra/sweeper=other", "optimizer.lr=interval(0.1,1)"]
        assert check([*arguments, "sweep_id=mine"]).specs == ()
        assert check([*arguments, "sweep_id=mine"]).sweep_id == "mine"
        assert refusal(*arguments, "seed=-1") == "seed must be at least 0: got -1"


class TestAccepted:
    @pytest.mark.parametrize(
        ("argument", "value"),
        [
            ("experiment.title='a, b = c'", "a, b = c"),
            ('experiment.title="x y"', "x y"),
            (r"experiment.title='it\'s'", "it's"),
            ("experiment.title='Größe 漢'", "Größe 漢"),
            ("experiment.title=null", None),
            ("experiment.title=''", ""),
            ("+experiment.title=plain", "plain"),
            ("++experiment.title=plain", "plain"),
        ],
    )
    def test_quotes_are_hydras(self, argument, value):
        """A value is what Hydra makes of it."""
        (spec,) = check([argument]).specs
        assert spec.experiment.title == value

    @pytest.mark.parametrize(
        "argument",
        [
            "hydra.run.dir=elsewhere",
            "hydra.verbose=true",
            "+hydra.job.env_set.OMP_NUM_THREADS='1'",
            "hydra/job_logging=default",
            "hydra.output_subdir=null",
        ],
    )
    def test_hydras_own_settings_pass(self, argument):
        """They say how Hydra runs a job, not what is measured."""
        assert check([argument, "sweep_id=x"]).specs == check(["sweep_id=x"]).specs

    def test_the_last_choice_of_a_group_counts(self):
        """As in Hydra."""
        (spec,) = check(["model=tiny", "model=small"]).specs
        assert spec.model.name == "small"

    def test_caches_are_kept_when_a_run_wants_to(self):
        """The plan knows whether anything is left to keep."""
        assert check(["-m", "compile.keep_cache=false,true"]).keep_cache
        assert not check(["-m", "seed=1,2"]).keep_cache

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--help"],
            ["-h"],
            ["--hydra-help"],
            ["--version"],
            ["--cfg", "job"],
            ["-c", "job", "--resolve"],
            ["--cfg=job"],
            ["--info"],
            ["--info", "searchpath"],
            ["-sc", "query=bash"],
            ["--help", "model=nope"],
        ],
    )
    def test_questions_to_hydra_are_left_to_hydra(self, arguments):
        """Nothing is run, so nothing is checked."""
        assert check(arguments) is None

    @pytest.mark.parametrize("form", [["--config-dir", "{}"], ["-cd", "{}"], ["--config-dir={}"]])
    def test_choices_of_another_folder_are_known(self, form, tmp_path):
        """They stand beside those of conf/, and are checked like them."""
        folder = tmp_path / "my choices, é"
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "mine.yaml").write_text("defaults: [tiny, _self_]\nname: mine\ndepth: 3\n")
        arguments = [word.format(folder) for word in form]
        specs = check([*arguments, "-m", "model=mine,tiny"]).specs
        assert [(s.model.name, s.model.depth) for s in specs] == [("mine", 3), ("tiny", 2)]
        with pytest.raises(UsageError, match=r"^model\.depth must be at least 1: got 0$"):
            check([*arguments, "model=mine", "model.depth=0"])

    def test_a_class_of_the_users_own_may_have_a_name(self, tmp_path):
        """A YAML in another folder makes a choice of it, with or without the defaults of custom."""
        folder = tmp_path / "optimizer"
        folder.mkdir()
        (folder / "lion.yaml").write_text("defaults: [custom, _self_]\nname: lion\n_target_: pkg.Lion\n")
        (folder / "tiger.yaml").write_text(
            "defaults: [/schema/optimizer@_here_: custom, _self_]\n"
            "name: tiger\n_target_: pkg.Tiger\nlr: 0.1\nneeds_closure: true\n"
        )
        lion, tiger = check([f"--config-dir={tmp_path}", "-m", "optimizer=lion,tiger"]).specs
        assert (lion.optimizer.name, lion.optimizer.lr, lion.optimizer.needs_closure) == ("lion", 0.01, False)
        assert tiger.optimizer.described() == {"_target_": "pkg.Tiger", "lr": 0.1}
        assert tiger.optimizer.needs_closure
        with pytest.raises(UsageError, match=r"^optimizer\.name must not be the name of a choice that is"):
            check([f"--config-dir={tmp_path}", "optimizer=lion", "optimizer.name=adam"])

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--config-dir", "/no/such/folder"], "--config-dir must be a folder: got /no/such/folder"),
            (["--config-dir"], "argument -cd/--config-dir: expected one argument"),
            (["--config-name", "other"], "--config-name is not an option here: see --help"),
            (["-cp=/x"], "-cp=/x is not an option here: see --help"),
        ],
    )
    def test_another_configuration_as_a_whole_is_refused(self, arguments, told):
        """The schema, and with it all checks, hang on conf/config.yaml."""
        with pytest.raises(UsageError) as refused:
            check(arguments)
        assert str(refused.value) == told


class TestFlagsFirst:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["seed=1"], ["seed=1"]),
            (["seed=0,1", "-m", "model=tiny"], ["-m", "seed=0,1", "model=tiny"]),
            (
                ["seed=1", "--config-dir", "a b", "model=tiny", "--multirun"],
                ["-m", "--config-dir=a b", "seed=1", "model=tiny"],
            ),
            (["-cd=x", "seed=1"], ["--config-dir=x", "seed=1"]),
        ],
    )
    def test_overrides_keep_their_order(self, arguments, expected):
        """Hydra's parser stops at an override that follows an option that follows an override."""
        assert command_line.flags_first(arguments) == expected


class TestMostRuns:
    @pytest.mark.parametrize(
        "arguments", [["seed=range(0,1e9)"], ["seed=range(1000)", "threads=range(1,102)"]]
    )
    def test_a_sweep_of_more_is_refused_at_once(self, arguments):
        """A billion values are not even listed; a product counts as well."""
        with pytest.raises(UsageError, match=r"^a sweep must have at most 100,000 runs: it would have more$"):
            check(["-m", *arguments])


class TestSpecOf:
    def test_a_job_with_a_broken_rule_is_told_without_a_traceback(self):
        """Hydra prints a compact exception's message alone."""
        from hydra import compose, initialize_config_dir

        with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
            config = compose("config", ["seed=-1"])
        with pytest.raises(JobError, match=r"^seed must be at least 0: got -1$"):
            command_line.spec_of(config)


class TestSweepId:
    def test_all_runs_of_a_process_have_one(self):
        """Runs of one command line belong together."""
        plan = check(["-m", "seed=1,2"])
        assert {s.sweep_id for s in plan.specs} == {plan.sweep_id} == {command_line.new_sweep_id()}

    def test_processes_never_share_one_even_in_the_same_second(self):
        """Several processes at once, several ids, all of the same form."""
        code = "from src.sweep.command_line import new_sweep_id; print(new_sweep_id(), new_sweep_id())"
        started = [
            subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        printed = [process.communicate(timeout=120)[0].split() for process in started]
        assert all(first == second for first, second in printed)
        ids = {first for first, _ in printed}
        assert len(ids) == 4
        assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", one) for one in ids)

    def test_fits_its_own_rule(self):
        """The id that is made by default is one that could be given."""
        (spec,) = check([f"sweep_id={command_line.new_sweep_id()}"]).specs
        assert spec.sweep_id == command_line.new_sweep_id()

    def test_the_time_in_it_is_utc(self):
        """Sweeps of two hosts sort by when they started."""
        code = textwrap.dedent("""
            import os, time
            os.environ["TZ"] = "Asia/Tokyo"
            time.tzset()
            from datetime import UTC, datetime
            from src.sweep.command_line import new_sweep_id
            made = datetime.strptime(new_sweep_id()[:15] + "+0000", "%Y%m%d-%H%M%S%z")
            print(abs((datetime.now(UTC) - made).total_seconds()) < 3600)
        """)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "True"
