"""Combinations that are known not to work: which runs they mean, and that the file is right."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from src import exclusions
from src.bench.optimizer import closure
from src.exclusions import ExclusionsError, find, load
from src.models import SHAPES
from src.optimizers import OPTIMIZERS
from src.rules import SpecError
from tests.specs import spec as spec_of

FULLGRAPH = ("compile=aot_eager", "compile.fullgraph=true")
CAPTURABLE = "optimizer.capturable=true"
CUSTOM = ("optimizer=custom", "optimizer._target_=a.B")
FUSED = ("adagrad", "adam", "adamw", "sgd", "sgd_momentum")


class TestFind:
    @pytest.mark.parametrize(
        ("overrides", "device", "reason"),
        [
            (["optimizer.differentiable=true"], "cpu", "a step that autograd records cannot update"),
            (["optimizer=rprop", "optimizer.differentiable=true"], "cuda", "a step that autograd records"),
            ([CAPTURABLE], "cpu", "the eager step takes capturable parameters on an accelerator alone"),
            ([*FULLGRAPH], "cpu", "the step of this optimizer has a graph break"),
            ([*FULLGRAPH, "optimizer=lbfgs"], "cuda", "the step of this optimizer has a graph break"),
            ([*FULLGRAPH, "optimizer=muon", "scheduler=step"], "cpu", "a scheduler puts a function around"),
            ([*FULLGRAPH, *CUSTOM, "scheduler=step"], "cpu", "a scheduler puts a function around"),
            (["optimizer=rprop", "measure.baseline=fused"], "cuda", "this optimizer has no fused"),
            ([*CUSTOM, "measure.baseline=fused"], "cuda", "this optimizer has no fused"),
            (["optimizer=muon", "measure.baseline=foreach"], "cuda", "this optimizer has no argument that"),
            ([*CUSTOM, "measure.baseline=forloop"], "cpu", "this optimizer has no argument that"),
        ],
    )
    def test_says_why_a_run_cannot_work(self, overrides, device, reason):
        """In plain words, and as what the row says."""
        found = find(spec_of(*overrides), device, "2.13.0")
        assert found.reason.startswith(reason)
        assert found.status == "unsupported"

    @pytest.mark.parametrize("model", SHAPES)
    @pytest.mark.parametrize(("optimizer", "lacking"), [("sparseadam", "dense"), ("lbfgs", "loss")])
    def test_what_shapes_of_parameters_do_not_have_is_left_out(self, model, optimizer, lacking):
        """Of every published model: a time would be one of something that nobody trains."""
        found = find(spec_of(f"optimizer={optimizer}", f"model={model}"), "cuda", "2.11.0")
        assert (found.status, lacking in found.reason) == ("excluded", True)

    @pytest.mark.parametrize(
        ("overrides", "device"),
        [
            ([], "cpu"),
            ([CAPTURABLE], "cuda"),
            ([CAPTURABLE, "optimizer.fused=true"], "cpu"),
            ([*FULLGRAPH, "optimizer=muon"], "cpu"),
            ([*FULLGRAPH, "optimizer=adafactor"], "cpu"),
            ([*FULLGRAPH, *CUSTOM], "cpu"),
            (["compile=none", "compile.fullgraph=true", "scheduler=step"], "cpu"),
            (["optimizer.fused=true"], "cpu"),
            (["optimizer=lbfgs"], "cpu"),
            (["optimizer=sparseadam", "scheduler=onecycle"], "cpu"),
            (["optimizer=lbfgs", "model=gpt2", "measure=trace"], "cpu"),
            (["optimizer=adam", "model=gpt2"], "cpu"),
            *(([f"optimizer={name}", "measure.baseline=fused"], "cuda") for name in FUSED),
            (["optimizer=rprop", "measure.baseline=foreach"], "cuda"),
        ],
    )
    def test_what_stands_next_to_an_exclusion_may_be_tried(self, overrides, device):
        """An exclusion means no more than it says; what compiles to nothing is measured."""
        assert find(spec_of(*overrides), device, "2.13.0") is None

    @pytest.mark.parametrize("version", ["2.9.0", "2.11.0+cu130", "2.14.0.dev20260101", "2.9.0a0+git1234"])
    def test_local_versions_and_pre_releases_count_as_their_version(self, version):
        """torch.__version__ of any build may be given."""
        assert find(spec_of("optimizer.differentiable=true"), "cpu", version)

    def test_another_version_is_not_meant(self):
        """The range is the one in which it was seen."""
        assert find(spec_of("optimizer.differentiable=true"), "cpu", "2.8.0") is None


def workload(name, *overrides):
    """Return a tiny optimizer of torch's own, with gradients."""
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    parameter.grad = torch.ones(2, 2)
    keywords = spec_of(f"optimizer={name}", *overrides).optimizer.keywords()
    return getattr(torch.optim, OPTIMIZERS[name].torch_class)([parameter], **keywords)


def with_flag(flag):
    return [name for name, kind in OPTIMIZERS.items() if flag in {f.name for f in fields(kind)}]


class TestTruth:
    """When one of these fails with a new torch, the range of its entry needs an end."""

    @pytest.mark.parametrize("name", with_flag("differentiable"))
    def test_no_step_is_differentiable(self, name):
        """The parameters of a training are leaves."""
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            workload(name, "optimizer.differentiable=true").step()

    @pytest.mark.parametrize("name", with_flag("capturable"))
    def test_no_eager_step_is_capturable_on_the_cpu(self, name):
        """torch asserts an accelerator."""
        with pytest.raises(AssertionError, match="If capturable=True"):
            workload(name, "optimizer.capturable=true").step()

    def test_a_baseline_needs_the_argument_that_asks_for_it(self):
        """Which of torch's constructors have it."""
        for name, kind in OPTIMIZERS.items():
            if kind.torch_class is None:
                continue
            takes = inspect.signature(getattr(torch.optim, kind.torch_class)).parameters
            for baseline, argument in (("forloop", "foreach"), ("foreach", "foreach"), ("fused", "fused")):
                how = spec_of(f"optimizer={name}", f"measure.baseline={baseline}")
                assert (find(how, "cuda", "2.13.0") is None) == (argument in takes), (name, baseline)

    def test_sparseadam_takes_no_dense_gradient(self):
        """Those of linear layers and convolutions are dense."""
        with pytest.raises(RuntimeError, match="does not support dense gradients"):
            workload("sparseadam").step()

    def test_lbfgs_learns_nothing_from_a_fixed_gradient(self):
        """Which is all that shapes give it: its history stays empty, as in no training."""
        optimizer = workload("lbfgs")
        ((parameter,),) = (group["params"] for group in optimizer.param_groups)
        optimizer.step(closure([parameter]))
        assert optimizer.state[parameter]["old_dirs"] == []

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch.jit
    @pytest.mark.parametrize("scheduler", [False, True])
    @pytest.mark.parametrize("name", ["adam", "lbfgs", "sparseadam", "muon", "adafactor"])
    def test_only_two_steps_are_one_graph(self, name, scheduler):
        """And they too are none with a scheduler."""
        torch.compiler.reset()
        optimizer = workload(name)
        if scheduler:
            torch.optim.lr_scheduler.StepLR(optimizer, 2)
        arguments = [lambda: torch.tensor(1.0)] if name == "lbfgs" else []
        step = torch.compile(lambda: optimizer.step(*arguments), backend="eager", fullgraph=True)
        if name in ("muon", "adafactor") and not scheduler:
            step()
        else:
            with pytest.raises(torch._dynamo.exc.Unsupported):
                step()


ENTRY = {
    "match": "{device: cpu}",
    "torch": "'>=2.9'",
    "status": "unsupported",
    "reason": "because",
    "source": "somewhere",
}


def loaded(path: Path, **changes):
    """Return what a file of one changed entry gives; a change to None leaves the key out."""
    entry = {k: v for k, v in (ENTRY | changes).items() if v is not None}
    path.write_text("- " + "\n  ".join(f"{k}: {v}" for k, v in entry.items()) + "\n")
    return load(path)


class TestLoad:
    def test_the_file_of_the_package_is_right(self):
        """Every entry has a source."""
        assert load()
        assert all(e.source and e.reason for e in load())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"reasons": "x"},
                "reasons is not a key: there are match, torch, status, reason, source, unless",
            ),
            ({"reason": None}, "reason has no value: set it"),
            ({"reason": "[a]"}, "reason must be text: got ['a']"),
            ({"match": "{}"}, "match has no value: set it"),
            ({"match": "[device]"}, "match must be a mapping of keys to values: got ['device']"),
            (
                {"match": "{optimizer.capturabel: true}"},
                "match: optimizer.capturabel is not a key of any choice",
            ),
            ({"match": "{optimizer: adam}"}, "match: optimizer is not a key of any choice"),
            ({"unless": "{scheduler.nope: 1}"}, "unless: scheduler.nope is not a key of any choice"),
            ({"torch": "'2.9'"}, "torch must be a range of versions such as >=2.9,<2.12: got '2.9'"),
            ({"torch": "2.9"}, "torch must be text: got 2.9"),
            ({"status": "broken"}, "status must be one of unsupported, excluded: got 'broken'"),
        ],
    )
    def test_a_mistake_is_told_with_the_file_and_the_entry(self, changes, message, tmp_path):
        """Whoever edits the file finds the line."""
        file = tmp_path / "exclusions.yaml"
        with pytest.raises(ExclusionsError) as caught:
            loaded(file, **changes)
        told = str(caught.value)
        assert told.startswith(f"{file}, entry 1")
        assert told.removeprefix(f"{file}, entry 1").lstrip(": ").startswith(message)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: [", "while parsing"),
            ("a: 1\n", "must be a list of exclusions: got {'a': 1}"),
            ("", "must be a list"),
        ],
    )
    def test_a_file_of_something_else(self, text, message, tmp_path):
        """It is told by its name."""
        file = tmp_path / "exclusions.yaml"
        file.write_text(text)
        with pytest.raises(ExclusionsError) as caught:
            load(file)
        assert str(caught.value).startswith(str(file))
        assert message in str(caught.value)

    def test_values_may_be_lists_and_null(self, tmp_path, monkeypatch):
        """One of the values fits, null among them."""
        (entry,) = loaded(tmp_path / "e.yaml", match="{optimizer.name: [adam, sgd], optimizer.foreach: null}")
        monkeypatch.setattr(exclusions, "load", lambda: (entry,))
        assert find(spec_of(), "cpu", "2.13.0") is entry
        assert find(spec_of("optimizer.foreach=false"), "cpu", "2.13.0") is None
        assert find(spec_of("optimizer=adamw"), "cpu", "2.13.0") is None
        assert find(spec_of("optimizer=lbfgs"), "cpu", "2.13.0") is None


class TestRules:
    """Rules of the user's own: `exclude`."""

    @pytest.mark.parametrize(
        ("rule", "overrides", "told"),
        [
            ("{optimizer: sgd}", ["optimizer=sgd"], "exclude: {optimizer: sgd}"),
            ("{optimizer: sgd}", ["optimizer=adam"], None),
            (
                "{optimizer: sgd, scheduler: onecycle}",
                ["optimizer=sgd", "scheduler=onecycle"],
                "exclude: {optimizer: sgd, scheduler: onecycle}",
            ),
            ("{optimizer: sgd, scheduler: onecycle}", ["optimizer=sgd"], None),
            ("{optimizer: [sgd, adam]}", ["optimizer=adam"], 'exclude: {optimizer: ["sgd", "adam"]}'),
            ("{optimizer.lr: 0.5}", ["optimizer.lr=0.5"], "exclude: {optimizer.lr: 0.5}"),
            ("{optimizer.lr: 0.5}", ["optimizer.lr=0.4"], None),
            ("{optimizer.momentum: 0.0}", ["optimizer=adam"], None),
            ("{compile: inductor, device: cpu}", [], "exclude: {compile: inductor, device: cpu}"),
            ("{device: cuda}", [], None),
            ("{model: tiny}", ["model=tiny"], "exclude: {model: tiny}"),
            (
                "{compile.mode: max-autotune}",
                ["compile.mode=max-autotune"],
                "exclude: {compile.mode: max-autotune}",
            ),
        ],
    )
    def test_all_keys_of_a_rule_must_fit(self, rule, overrides, told):
        assert exclusions.rule_for(spec_of(*overrides, f"exclude=[{rule}]"), "cpu") == told

    def test_the_first_that_fits_is_told(self):
        rules = "exclude=[{optimizer: sgd}, {optimizer: adam}, {model: small}]"
        assert exclusions.rule_for(spec_of(rules), "cpu") == "exclude: {optimizer: adam}"

    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("{}", "exclude[0] must name at least one key: it would leave out every run"),
            ("{optimzer: sgd}", "exclude[0]: optimzer is not a key: name one of compile, measure, model, "),
            ("{optimizer.momentun: 1}", "exclude[0]: optimizer.momentun is not a key: name one of compile, "),
            ("{optimizer: sdg}", "exclude[0]: optimizer must be one of adadelta, adafactor, "),
            ("{scheduler: [none, nome]}", "exclude[0]: scheduler must be one of chained, constant, "),
            ("{compile: triton}", "exclude[0]: compile must be one of aot_eager, cudagraphs, eager, "),
            ("{optimizer: {name: sgd}}", "exclude[0]: optimizer must be a value or a list of values: got {"),
        ],
    )
    def test_one_that_no_run_could_fit_is_refused(self, rule, told):
        with pytest.raises(SpecError) as caught:
            exclusions.check_rules(spec_of(f"exclude=[{rule}]"), {})
        assert str(caught.value).startswith(told)

    def test_a_class_of_the_users_own_has_a_name_in_the_sweep(self):
        rules = spec_of("exclude=[{optimizer: mine.Lion}]")
        exclusions.check_rules(rules, {"optimizer": {"mine.Lion"}})
        with pytest.raises(SpecError):
            exclusions.check_rules(rules, {})

    def test_rules_are_no_part_of_what_is_measured(self):
        assert spec_of("exclude=[{optimizer: sgd}]").run_key() == spec_of().run_key()
