"""The learning rate schedulers: their arguments are torch's, and what composites are made of."""

import inspect
import json
from dataclasses import fields

import pytest
import torch
from torch.optim import lr_scheduler, swa_utils

from src import lr_functions
from src.rules import SpecError
from src.schedulers import SCHEDULERS
from src.spec import from_config
from tests.specs import spec as spec_of
from tests.test_spec import config_of

COMPOSITES = ("sequential", "chained")
TORCHS = {name: kind for name, kind in SCHEDULERS.items() if kind.torch_class is not None}
PLAIN = {name: kind for name, kind in TORCHS.items() if name not in COMPOSITES}

NO_KEYS = {
    "optimizer",  # given by the run
    "last_epoch",  # resumes a training, which a run is not
    "lr_lambda",  # a function: our key `function` names it
    "scale_fn",  # a function; the shapes that `mode` names are torch's own
    "scale_mode",  # only read with scale_fn
    "epochs",  # with steps_per_epoch another way to give total_steps
    "steps_per_epoch",
}
NO_ARGUMENTS = {
    "function",  # names lr_lambda
    "metric",  # an argument of step
}
ON_PURPOSE = {
    # key: (our value, torch's default), and why
    ("step", "gamma"): (0.9, 0.1),  # 0.1 leaves nothing of the learning rate
    ("polynomial", "total_iters"): (20, 5),  # 5 end within a trace
    ("cyclic", "step_size_up"): (4, 2000),  # 2000 are not half done in a trace
    ("onecycle", "total_steps"): (10_000_000, None),  # torch asks for one of three arguments
    ("plateau", "patience"): (0, 10),  # 10 hardly end within a trace
}


def signature(kind):
    made = getattr(lr_scheduler, kind.torch_class, None) or getattr(swa_utils, kind.torch_class)
    return {n: p.default for n, p in inspect.signature(made).parameters.items() if n not in NO_KEYS}


def keys(kind):
    return {f.name for f in fields(kind)} - {"name"} - NO_ARGUMENTS


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.01, momentum=0.9)


class TestArguments:
    def test_every_scheduler_of_torch_is_a_choice(self):
        """Those that a later torch adds are missed here."""
        torchs = set(lr_scheduler.__all__) - {"LRScheduler"} | {"SWALR"}
        assert {kind.torch_class for kind in TORCHS.values()} == torchs

    @pytest.mark.parametrize("name", PLAIN)
    def test_are_those_of_torch(self, name):
        """Each argument is a key, and each key an argument, but for those that say why."""
        assert keys(PLAIN[name]) == set(signature(PLAIN[name]))

    @pytest.mark.parametrize("name", PLAIN)
    def test_have_torchs_defaults_where_it_has_some(self, name):
        """Others are listed with torch's."""
        made, expected = spec_of(f"scheduler={name}").scheduler, signature(PLAIN[name])
        for key in keys(PLAIN[name]):
            ours, torchs = ON_PURPOSE.get((name, key), (expected[key], expected[key]))
            assert expected[key] == torchs
            if torchs is not inspect.Parameter.empty:
                assert getattr(made, key) == ours, key

    @pytest.mark.parametrize("name", PLAIN)
    def test_are_taken_by_torch(self, name):
        """What keywords() returns makes the scheduler."""
        keywords = spec_of(f"scheduler={name}").scheduler.keywords()
        if name in ("lambda", "multiplicative"):
            keywords["lr_lambda"] = lr_functions.exponential_decay
        made = getattr(lr_scheduler, PLAIN[name].torch_class, None) or swa_utils.SWALR
        assert made(optimizer(), **keywords)


class TestKeywords:
    def test_a_scheduler_has_all_but_its_name(self):
        """The name of the choice is ours, not torch's."""
        assert spec_of("scheduler=step").scheduler.keywords() == {"step_size": 2, "gamma": 0.9}
        assert spec_of("scheduler=none").scheduler.keywords() == {}
        assert spec_of("scheduler=multistep").scheduler.keywords()["milestones"] == (2, 4, 6)

    def test_what_is_no_keyword_of_torch_is_described(self):
        """A row has it all the same."""
        plateau = spec_of("scheduler=plateau").scheduler
        assert "metric" not in plateau.keywords()
        assert plateau.described() == plateau.keywords() | {"metric": 1.0}
        decay = spec_of("scheduler=lambda").scheduler
        assert decay.keywords() == {}
        assert decay.described() == {"function": "src.lr_functions.exponential_decay"}


class TestComposites:
    def test_parts_are_no_keywords_but_described(self):
        """Each part is made by itself; a row names them with their arguments."""
        made = spec_of("scheduler=sequential").scheduler
        assert made.keywords() == {"milestones": [5]}
        assert json.loads(json.dumps(made.described())) == {
            "milestones": [5],
            "first": {"name": "linear", "start_factor": 1 / 3, "end_factor": 1.0, "total_iters": 5},
            "second": {"name": "exponential", "gamma": 0.9},
        }
        assert spec_of("scheduler=chained").scheduler.keywords() == {}

    def test_a_part_is_another_choice_with_its_own_arguments(self):
        """Typed and checked like the choice itself, composites and own classes included."""
        overrides = (
            "scheduler=chained",
            "scheduler.first.total_iters=3",
            "scheduler@scheduler.second=sequential",
        )
        made = spec_of(*overrides, "scheduler.second.second.gamma=0.5").scheduler
        assert made.first.total_iters == 3
        assert (made.second.first.name, made.second.second.gamma) == ("linear", 0.5)
        custom = ("scheduler@scheduler.first=custom", "scheduler.first._target_=a.B")
        made = spec_of("scheduler=chained", *custom, "scheduler.first.arguments.c=1").scheduler
        assert made.described()["first"] == {"name": "a.B", "_target_": "a.B", "c": 1}

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            (
                ["scheduler@scheduler.second=chained"],
                "scheduler.second must be a scheduler that torch can combine: got chained, "
                "choose scheduler@scheduler.second=NAME",
            ),
            (
                ["scheduler@scheduler.second=none"],
                "scheduler.second must be a scheduler that torch can combine: got none, "
                "choose scheduler@scheduler.second=NAME",
            ),
            (
                ["scheduler@scheduler.first=plateau"],
                "scheduler.first must be a scheduler that torch can combine: got plateau, ",
            ),
            (["scheduler.first.total_iters=0"], "scheduler.first.total_iters must be at least 1: got 0"),
            (
                ["+scheduler.first.gamma=1"],
                "scheduler.first.gamma is not a key: scheduler.first has end_factor, ",
            ),
            (["scheduler.second.name=step"], "scheduler.second.name must not be changed, choose scheduler@"),
            (["scheduler.milestone=0"], "scheduler.milestone must be at least 1: got 0"),
        ],
    )
    def test_a_broken_rule_names_the_part(self, overrides, message):
        """The dotted key leads to it."""
        with pytest.raises(SpecError) as caught:
            from_config(config_of("scheduler=sequential", *overrides))
        assert str(caught.value).startswith(message)


class TestCustom:
    def test_the_users_arguments_go_to_the_class(self):
        """Besides the optimizer it gets nothing else."""
        custom = ("scheduler=custom", "scheduler._target_=pkg.Warmup", "scheduler.arguments={steps:[1,2]}")
        made = spec_of(*custom).scheduler
        assert made.keywords() == {"steps": (1, 2)}
        assert made.described() == {"_target_": "pkg.Warmup", "steps": (1, 2)}
        assert made.name == "pkg.Warmup"


class TestFunctions:
    def test_change_the_learning_rate_alike(self):
        """0.95**n as a factor of the first rate is a factor of 0.95 at every step."""
        assert [lr_functions.exponential_decay(n) for n in range(3)] == pytest.approx([1, 0.95, 0.9025])
        assert lr_functions.constant_factor(7) == 0.95
