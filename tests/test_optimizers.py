"""The optimizers: their arguments are torch's, their values torch's defaults."""

import inspect
import json
from dataclasses import asdict, fields

import pytest
import torch

from src.optimizers import IMPLEMENTATIONS, OPTIMIZERS
from src.rules import SpecError
from src.spec import from_config
from src.vocabulary import EAGER_PATHS
from tests.specs import spec as spec_of
from tests.test_spec import config_of

TORCHS = {name: kind for name, kind in OPTIMIZERS.items() if kind.torch_class is not None}
CUSTOM = ("optimizer=custom", "optimizer._target_=pkg.Lion")
ON_PURPOSE = {
    # key: value that is not torch's default
    ("sgd_momentum", "momentum"): 0.9,
}


def signature(kind):
    parameters = inspect.signature(getattr(torch.optim, kind.torch_class)).parameters
    return {name: p.default for name, p in parameters.items() if name != "params"}


def keys(kind):
    return {f.name for f in fields(kind)} - {"name"}


class TestArguments:
    def test_every_optimizer_of_torch_is_a_choice(self):
        """Those that a later torch adds are missed here."""
        torchs = {
            name
            for name, found in vars(torch.optim).items()
            if isinstance(found, type) and issubclass(found, torch.optim.Optimizer)
        }
        assert {kind.torch_class for kind in TORCHS.values()} == torchs - {"Optimizer"}

    @pytest.mark.parametrize("name", TORCHS)
    def test_are_those_of_torch(self, name):
        """Each argument is a key, and each key an argument."""
        assert keys(TORCHS[name]) == set(signature(TORCHS[name]))

    @pytest.mark.parametrize("name", TORCHS)
    def test_have_torchs_defaults(self, name):
        """All but the learning rate, which is the tutorials' in every choice."""
        made, expected = spec_of(f"optimizer={name}").optimizer, signature(TORCHS[name])
        for key in keys(TORCHS[name]) - {"lr"}:
            value, default = getattr(made, key), ON_PURPOSE.get((name, key), expected[key])
            assert value == (list(default) if isinstance(default, tuple) else default), key
        assert made.lr == 0.01

    @pytest.mark.parametrize("name", TORCHS)
    def test_are_taken_by_torch(self, name):
        """What keywords() returns makes the optimizer."""
        keywords = spec_of(f"optimizer={name}").optimizer.keywords()
        made = getattr(torch.optim, TORCHS[name].torch_class)(
            [torch.nn.Parameter(torch.ones(2, 2))], **keywords
        )
        for key, value in keywords.items():
            assert made.defaults.get(key, value) == value

    def test_which_need_more_than_a_gradient(self):
        """LBFGS evaluates the loss; SparseAdam takes sparse gradients."""
        assert [name for name, kind in TORCHS.items() if kind.needs_closure] == ["lbfgs"]
        assert [name for name, kind in TORCHS.items() if kind.sparse_gradients] == ["sparseadam"]


class TestImplementing:
    def test_an_implementation_is_asked_for_by_the_flags_that_there_are(self):
        """RMSprop has no `fused`, Muon no flag at all; nothing else changes, nor does the original."""
        adam, rmsprop, muon = (spec_of(f"optimizer={name}").optimizer for name in ("adam", "rmsprop", "muon"))
        told = adam.implementing("fused")
        assert (told.foreach, told.fused, adam.fused) == (False, True, None)
        assert asdict(told) == asdict(adam) | {"foreach": False, "fused": True}
        assert asdict(rmsprop.implementing("forloop")) == asdict(rmsprop) | {"foreach": False}
        assert muon.implementing("foreach") == muon

    def test_every_implementation_that_a_row_knows_can_be_asked_for(self):
        """By one set of flags each."""
        assert tuple(IMPLEMENTATIONS) == EAGER_PATHS
        assert len({tuple(flags.items()) for flags in IMPLEMENTATIONS.values()}) == len(EAGER_PATHS)


class TestKeywords:
    def test_null_is_left_to_torch(self):
        """What the user leaves open is not passed on, so that torch chooses."""
        keywords = spec_of("optimizer=sgd", "optimizer.foreach=false").optimizer.keywords()
        assert keywords == {
            "lr": 0.01,
            "momentum": 0.0,
            "dampening": 0.0,
            "weight_decay": 0.0,
            "nesterov": False,
            "maximize": False,
            "foreach": False,
            "differentiable": False,
        }

    def test_lists_are_tuples(self):
        """As torch has them, a null inside included."""
        assert spec_of().optimizer.keywords()["betas"] == (0.9, 0.999)
        assert spec_of("optimizer=adafactor").optimizer.keywords()["eps"] == (None, 0.001)


class TestRules:
    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            (
                ["adafactor", "eps=[0.1,null]"],
                "optimizer.eps must have a number as its second item: got [0.1, ",
            ),
            (["adafactor", "eps=[-1,0.1]"], "optimizer.eps must be at least 0: got -1.0"),
            (["adafactor", "d=0.5"], "optimizer.d must be at least 1: got 0.5"),
            (["adafactor", "beta2_decay=0.1"], "optimizer.beta2_decay must be at most 0: got 0.1"),
            (["adadelta", "rho=1.1"], "optimizer.rho must be at most 1: got 1.1"),
            (
                ["adagrad", "foreach=true", "optimizer.fused=true"],
                "optimizer.foreach and optimizer.fused must",
            ),
            (
                ["lbfgs", "line_search_fn=armijo"],
                "optimizer.line_search_fn must be one of strong_wolfe: got ",
            ),
            (
                ["muon", "ns_coefficients=[1,2]"],
                "optimizer.ns_coefficients must have 3 items: got [1.0, 2.0]",
            ),
            (["muon", "ns_steps=100"], "optimizer.ns_steps must be below 100: got 100"),
            (
                ["rprop", "etas=[1.1,1.2]"],
                "optimizer.etas must be one number below 1 and one above: got [1.1, ",
            ),
            (
                ["rprop", "etas=[0.5,1]"],
                "optimizer.etas must be one number below 1 and one above: got [0.5, ",
            ),
        ],
    )
    def test_what_torch_would_refuse_is_told_before_any_run(self, overrides, message):
        """With the dotted key and what came."""
        name, key, *others = overrides
        with pytest.raises(SpecError) as caught:
            from_config(config_of(f"optimizer={name}", f"optimizer.{key}", *others))
        assert str(caught.value).startswith(message)


class TestCustom:
    def test_lr_and_the_users_arguments_go_to_the_class(self):
        """Any argument, nested as it likes; a row tells the class apart."""
        made = spec_of(*CUSTOM, "optimizer.arguments={betas:[0.9,0.99],weight_decay:null}").optimizer
        assert made.keywords() == {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": None}
        assert made.described() == {"_target_": "pkg.Lion"} | made.keywords()
        assert json.loads(json.dumps(made.described()))["betas"] == [0.9, 0.99]
        assert (made.name, made.torch_class, made.needs_closure) == ("pkg.Lion", None, False)

    @pytest.mark.parametrize("plus", ["", "+", "++"])
    def test_an_argument_is_set_as_any_key(self, plus):
        """Hydra asks for no + before it."""
        assert spec_of(*CUSTOM, f"{plus}optimizer.arguments.beta=0.9").optimizer.arguments == {"beta": 0.9}

    def test_nothing_is_imported(self):
        """The class need not be there where the configuration is checked."""
        assert spec_of("optimizer=custom", "optimizer._target_=no_such_module.Lion")

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("optimizer._target_=Lion", r"optimizer._target_ must match \w+(\.\w+)+: got 'Lion'"),
            ("optimizer._target_='a.b; c'", r"optimizer._target_ must match \w+(\.\w+)+: got 'a.b; c'"),
            ("optimizer.arguments.lr=1", "optimizer.arguments must not have lr, set optimizer.lr: got 1"),
            ("optimizer.arguments={a:[{b:nan}]}", "optimizer.arguments.a.b must be a finite number: got nan"),
            ("optimizer.arguments={a:{1:2}}", "optimizer.arguments.a must have text as its keys: got 1"),
            ("optimizer.arguments={a:'???'}", "optimizer.arguments.a: Missing mandatory value"),
            ("optimizer.arguments.a='${nope}'", "optimizer.arguments.a: Interpolation key 'nope' not found"),
        ],
    )
    def test_what_no_row_could_hold_is_refused(self, override, message):
        """With the dotted key and what came."""
        with pytest.raises(SpecError) as caught:
            from_config(config_of(*CUSTOM, override))
        assert str(caught.value).startswith(message)


class TestStates:
    @pytest.mark.parametrize(
        "overrides",
        [
            *((name,) for name in TORCHS if name not in ("lbfgs", "sparseadam")),
            ("sgd", "momentum=0.9"),
            ("sgd_momentum", "momentum=0"),
            ("sgd_momentum", "nesterov=true"),
            ("adam", "amsgrad=true"),
            ("adamw", "amsgrad=true"),
            ("rmsprop", "centered=true"),
            ("rmsprop", "momentum=0.9"),
            ("rmsprop", "centered=true", "momentum=0.9"),
        ],
        ids=" ".join,
    )
    def test_are_as_many_as_torch_keeps(self, overrides):
        """Tensors of the parameter's shape in the state of torch's own optimizer, after two steps."""
        name, *arguments = overrides
        chosen = spec_of(f"optimizer={name}", *(f"optimizer.{a}" for a in arguments)).optimizer
        parameter = torch.nn.Parameter(torch.ones(3, 5))
        parameter.grad = torch.ones(3, 5)
        made = getattr(torch.optim, chosen.torch_class)([parameter], **chosen.keywords())
        for _ in range(2):
            made.step()
        kept = [v for v in made.state[parameter].values() if getattr(v, "shape", None) == parameter.shape]
        assert chosen.full_size_states() == len(kept)

    @pytest.mark.parametrize("overrides", [("optimizer=lbfgs",), ("optimizer=sparseadam",), CUSTOM])
    def test_are_not_told_where_they_do_not_tell_the_traffic(self, overrides):
        """LBFGS remembers steps, sparse gradients have few rows, a user's own class is not known."""
        assert spec_of(*overrides).optimizer.full_size_states() is None

    def test_muon_alone_multiplies_matrices(self):
        """It orthogonalises its update, and takes no other parameters."""
        assert [name for name, kind in OPTIMIZERS.items() if kind.multiplies_matrices] == ["muon"]
        assert [name for name, kind in OPTIMIZERS.items() if kind.matrices_alone] == ["muon"]
