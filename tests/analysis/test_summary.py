"""Rows to a summary."""

import pytest

from src.analysis.summary import cell_label, summarize
from tests.rows import bad, row


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
