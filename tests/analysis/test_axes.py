"""Which axes vary, and the words for their values."""

import json

from src.analysis.axes import axes_of, implied
from src.analysis.cells import cells_of
from tests.rows import row


def labels(title, *rows):
    axes = axes_of(cells_of(rows))
    return next(axis.labels for axis in axes if axis.title == title)


def adam(**arguments):
    return row(optimizer_args=json.dumps({"lr": 0.01, **arguments}))


class TestOptimizerLabel:
    def test_names_only_the_arguments_that_differ(self):
        """The learning rate is the same in both: it is not named."""
        assert labels("optimizer", adam(), adam(foreach=True)) == ("adam", "adam(foreach=true)")

    def test_compares_arguments_within_one_optimizer(self):
        """Adam and SGD have other arguments anyway."""
        sgd = row(optimizer="sgd", optimizer_args='{"lr": 0.1, "momentum": 0.9}')
        assert labels("optimizer", adam(eps=1e-8), sgd) == ("adam", "sgd")

    def test_broken_json_leaves_the_name(self):
        """A foreign value never stops a table."""
        assert labels("optimizer", row(optimizer_args="{")) == ("adam",)

    def test_hostile_names_stay_on_one_line(self):
        """Names are shown, not obeyed."""
        assert labels("optimizer", row(optimizer="a\x1b[2J\nb")) == (r"a\x1b[2J b",)


class TestLayers:
    def test_rows_of_schema_version_1_do_not_make_an_axis_vary(self):
        """They lack the columns: that is the value that all had then."""
        old = dict.fromkeys(("param_groups", "frozen_layers", "layers_without_grad"))
        axes = axes_of(cells_of([row(**old), row(optimizer="sgd")]))
        assert [axis.title for axis in axes if axis.varies] == ["optimizer"]
        assert labels("frozen_layers", row(**old), row(frozen_layers=2)) == ("0", "2")


class TestHowItWasTimed:
    AXES = ("pinned_cpus", "grads", "flush_cache")

    def test_rows_of_earlier_schema_versions_do_not_make_an_axis_vary(self):
        """They lack the columns: nothing was pinned, flushed, or said to be static then."""
        axes = axes_of(cells_of([row(**dict.fromkeys(self.AXES)), row(optimizer="sgd")]))
        assert [axis.title for axis in axes if axis.varies] == ["optimizer"]

    def test_cpus_are_one_value_in_brackets(self):
        """A comma in a label would look like the next axis."""
        assert labels("pinned_cpus", row(), row(pinned_cpus="0,1")) == ("null", "[0,1]")

    def test_each_is_an_axis(self):
        """Rows that were timed differently are told apart."""
        rows = [row(), row(grads="static"), row(flush_cache=True)]
        assert labels("grads", *rows) == ("fresh", "static", "fresh")
        assert labels("flush_cache", *rows) == ("false", "false", "true")


class TestBaseline:
    def test_what_the_eager_arm_ran_tells_rows_apart(self):
        """The optimizer stays what it is: its own arguments are those of the compiled arm."""
        rows = [row(), row(baseline="forloop"), row(baseline="fused")]
        assert labels("baseline", *rows) == ("null", "forloop", "fused")
        assert [axis.title for axis in axes_of(cells_of(rows)) if axis.varies] == ["baseline"]


class TestLearningRateLabel:
    def test_says_float_or_where_the_tensor_is(self):
        """The device matters for tensors only."""
        tensor = row(lr_as_tensor=True, lr_device="cpu")
        assert labels("lr", row(), tensor) == ("float", "cpu tensor")


class TestImplied:
    def test_sizes_that_follow_from_the_model_are_not_shown_beside_it(self):
        """A choice of model sets its width; the depth differs within one model and stays."""
        rows = [row(), row(model="wide", width=8), row(model="wide", width=8, depth=2)]
        assert implied(axes_of(cells_of(rows)), "model") == ("width",)

    def test_the_gpu_follows_from_the_device(self):
        """A CPU run has no GPU: that is not another machine."""
        assert implied(axes_of(cells_of([row(), row(device="cpu", gpu=None)])), "device") == ("gpu",)

    def test_two_gpus_are_shown(self):
        """The same device on two GPU models is two machines."""
        rows = [row(), row(gpu="A100"), row(device="cpu", gpu=None)]
        assert implied(axes_of(cells_of(rows)), "device") == ()
