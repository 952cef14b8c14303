"""The choices of model: their keys, their rules, and what a run key makes of them."""

import pytest

from src.models import MODELS, CustomModelSpec, ShapesSpec, StackSpec
from src.rules import SpecError
from src.sweep import command_line
from tests.specs import spec

OWN = ("model=custom", "model._target_=pkg.Net")


def refusal(*overrides):
    with pytest.raises((SpecError, command_line.UsageError)) as caught:
        command_line.check([*overrides])
    return str(caught.value)


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


class TestChoices:
    @pytest.mark.parametrize(
        ("overrides", "kind"),
        [(("model=tiny",), StackSpec), (("model=gpt2",), ShapesSpec), (OWN, CustomModelSpec)],
    )
    def test_each_is_of_its_class(self, overrides, kind):
        """Which has the keys that this kind of model needs, and no others."""
        assert type(spec(*overrides).model) is kind

    def test_the_schemas_of_earlier_versions_are_there(self):
        """A user's own file may begin with one."""
        assert MODELS["model"] is MODELS["stack"] is StackSpec

    @pytest.mark.parametrize(
        "override", ["model.width=8", "model.frozen_layers=1", "model.second_dtype=float16"]
    )
    @pytest.mark.parametrize("model", [("model=resnet18",), OWN])
    def test_what_only_a_stack_has_is_refused_elsewhere(self, model, override):
        """The keys that there are follow."""
        name = override.partition("=")[0]
        assert refusal(*model, override).startswith(f"{name} is not a key: model has ")

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            (("model=custom",), "model._target_ has no value: set it"),
            (("model=custom", "model._target_=Net"), "model._target_ must match "),
            (("model=gpt2", "model.shapes=gpt3"), "model.shapes must be one of resnet18, "),
            (("model=gpt2", "model.dtype=int8"), "model.dtype must be one of float32, "),
            (
                ("model=gpt2", "model.param_groups=decay", "optimizer=rprop"),
                "model.param_groups must not be decay with optimizer=rprop: it has no weight_decay",
            ),
        ],
    )
    def test_a_mistake_is_told_by_its_key(self, overrides, message):
        """Before anything runs."""
        assert refusal(*overrides).startswith(message)

    def test_ones_own_is_called_by_its_class(self):
        """Or as its user likes."""
        assert spec(*OWN).model.name == "pkg.Net"
        assert spec(*OWN, "model.name=mine").model.name == "mine"

    def test_ones_own_takes_any_arguments(self):
        """Without a + before them."""
        model = spec(*OWN, "model.arguments.depth=3", "model.arguments.sizes=[1,2]").model
        assert model.arguments == {"depth": 3, "sizes": [1, 2]}
        assert model.described() == {"_target_": "pkg.Net", "depth": 3, "sizes": [1, 2]}


class TestRunKey:
    @pytest.mark.parametrize(
        ("overrides", "expected"),
        [
            ((), "3fbd3107d1b8"),
            (("model=tiny",), "c50a1651c63b"),
            (("model=tutorial", "optimizer=sgd", "model.bias=true"), "c8f5e8fe04fa"),
        ],
    )
    def test_of_a_stack_is_that_of_earlier_rows(self, overrides, expected):
        """Printed by the last version with stacks alone (7e2ff40)."""
        assert spec(*overrides).run_key() == expected

    def test_tells_models_apart(self):
        """By table, class, arguments, dtype and groups; not by name."""
        keys = [
            spec(*overrides).run_key()
            for overrides in (
                *(("model=gpt2",), ("model=bert_base",), ("model=gpt2", "model.dtype=bfloat16")),
                *(OWN, (*OWN, "model.arguments.depth=3"), ("model=custom", "model._target_=pkg.Other")),
                ("model=gpt2", "model.param_groups=per_tensor"),
            )
        ]
        assert len(set(keys)) == len(keys)
        assert spec("model=gpt2", "model.name=mine").run_key() == keys[0]
