"""What the traces of a cell found, in characters and in kinds; the characters are tested in test_matrix."""

import pytest

from src.analysis import marks
from src.analysis.cells import cells_of
from tests.rows import bad, traced


def kind(*rows):
    return marks.kind(cells_of(rows))


class TestKind:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"recompiles": 0}, "0"),
            ({"recompiles": 1}, "1"),
            ({"recompiles": 2}, "2 or 3"),
            ({"recompiles": 3}, "2 or 3"),
            ({"recompiles": 4}, "4 or more"),
            ({"recompiles": 900}, "4 or more"),
            ({"recompiles": 2, "compiled_path": "partly"}, "2 or 3"),
            ({"recompiles": 7, "recompile_limit_hit": True, "eager_from_step": 8}, marks.FALLBACK),
            ({"recompiles": 7, "compiled_path": "eager_fallback"}, marks.FALLBACK),
            ({"recompiles": 7, "compiled_path": "recompiling"}, marks.ENDLESS),
            ({"graphs": 0}, marks.NOTHING),
            ({"recompiles": None}, marks.UNCOUNTED),
            ({"recompiles": 7, "recompile_limit_hit": True, "parity": "failed"}, marks.WRONG),
        ],
    )
    def test_says_the_count_or_what_is_worse(self, changes, expected):
        """A wrong result is worse than any count."""
        assert kind(traced(**changes)) == expected

    @pytest.mark.parametrize(
        ("status", "expected"),
        [("failed", marks.FAILED), ("crashed", marks.FAILED), ("excluded", marks.IMPOSSIBLE),
         ("unsupported", marks.IMPOSSIBLE)],
    )  # fmt: skip
    def test_of_a_run_that_was_not_measured(self, status, expected):
        """A run that failed is no run without recompiles."""
        assert kind(bad(status, "why", measure="trace")) == expected

    def test_of_runs_that_disagree_is_that_of_the_worst(self):
        """One place may hold several runs."""
        assert kind(traced(), traced(recompiles=5, seed=1)) == "4 or more"
        assert kind(traced(), bad("failed", "OOM", measure="trace", seed=1)) == marks.FAILED

    def test_every_kind_has_a_name(self):
        """The chart colours each of them."""
        assert len(set(marks.KINDS)) == 11

    def test_of_nothing_is_refused(self):
        """A blank place has no kind."""
        with pytest.raises(ValueError, match="empty"):
            marks.kind([])
