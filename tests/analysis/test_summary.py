"""Rows to a summary."""

import pytest

from src.analysis import charts_sizes
from src.analysis.grid import document_of
from src.analysis.summary import cell_label, summarize
from tests.rows import bad, of_model, row, times


class TestSummarize:
    def test_splits_axes_into_those_that_vary_and_the_rest(self):
        """Only what differs is a column."""
        summary = summarize([row(), row(compile_mode="max-autotune", lr_as_tensor=True)])
        assert [axis.title for axis in summary.shown] == ["lr", "mode"]
        assert ("optimizer", "adam") in summary.constant

    def test_cells_are_grouped_from_left_to_right(self):
        """Rows of a parallel sweep come in any order; values keep the order of their appearance."""
        rows = [row(optimizer=o, compile_mode=m) for m in ("default", "a-mode") for o in ("sgd", "adam")]
        summary = summarize(rows)
        assert [cell_label(summary.shown, i) for i in range(4)] == [
            "sgd, default",
            "sgd, a-mode",
            "adam, default",
            "adam, a-mode",
        ]

    def test_counts_every_row(self):
        """Nothing is dropped in silence."""
        assert summarize([row(), row(seed=1), bad("failed", "OOM", optimizer="sgd")]).rows == 3

    def test_no_rows_are_refused(self):
        """There is nothing to summarise."""
        with pytest.raises(ValueError, match="at least one row"):
            summarize([])


class TestModelsOfAllKinds:
    """Stacks, published models and modules of one's own in one summary."""

    GPT2 = 124_439_808

    def rows(self):
        own = '{{"_target_": "pkg.Net", "depth": {}}}'.format
        return [
            row(),
            row(model="tiny", width=64, depth=2, parameters=8192, tensors=2, **times(50.0, 100.0)),
            of_model("gpt2", self.GPT2, tensors=148, **times(5000.0, 2500.0)),
            of_model("llama_1b", 1_235_814_400, tensors=146, dtype="bfloat16", **times(9000.0, 3000.0)),
            of_model("pkg.Net", 54, model_args=own(1), tensors=4),
            of_model("pkg.Net", 108, model_args=own(2), tensors=8),
        ]

    def test_a_model_is_told_apart_by_its_arguments(self):
        """Two modules of one class are two cells, named by what differs."""
        summary = summarize(self.rows())
        (labels,) = [axis.labels for axis in summary.axes if axis.title == "model"]
        assert labels == ("mlp", "tiny", "gpt2", "llama_1b", "pkg.Net(depth=1)", "pkg.Net(depth=2)")
        assert [axis.title for axis in summary.shown] == ["model"]

    def test_the_head_says_what_each_stands_for(self):
        """A stack its width and depth, others their number of parameters; what is not there is not named."""
        assert "\n".join(document_of(summarize(self.rows())).head).split("Models: ")[1].splitlines()[0] == (
            "mlp (width=1024, depth=10, bias=false, dtype=float32); "
            "tiny (width=64, depth=2, bias=false, dtype=float32); "
            "gpt2 (124,439,808 parameters, dtype=float32); "
            "llama_1b (1,235,814,400 parameters, dtype=bfloat16); "
            "pkg.Net(depth=1) (54 parameters, dtype=float32); "
            "pkg.Net(depth=2) (108 parameters, dtype=float32)."
        )

    def test_without_a_stack_the_head_has_their_parameters(self):
        """Where they differ in nothing else."""
        rows = [of_model("gpt2", self.GPT2), of_model("resnet18", 11_689_512, tensors=62)]
        head = document_of(summarize(rows)).head
        assert "Models: gpt2 (124,439,808 parameters); resnet18 (11,689,512 parameters)." in head

    def test_the_chart_of_sizes_has_all_of_them(self):
        """By their number of parameters."""
        (first,) = charts_sizes._series([c for c in summarize(self.rows()).cells if c.speedup])
        expected = [54, 108, 8192, 10_485_760, self.GPT2, 1_235_814_400]
        assert [cell.parameters for cell in first.cells] == expected
        assert charts_sizes.model_sizes(summarize(self.rows())) is not None

    def test_a_row_of_an_earlier_version_is_of_the_same_cell(self):
        """It has no arguments of a model, as a stack has none now."""
        assert len(summarize([row(schema_version=3, seed=1, model_args=None), row()]).cells) == 1
