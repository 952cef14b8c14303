"""Reasons of recompiles, made short."""

from src.analysis import recompiles
from src.analysis.cells import cells_of
from tests.rows import row


class TestGuard:
    def test_keeps_variable_and_value(self):
        """The number of the recompile, the source line and the file are left out."""
        text = "2/0: self.param_groups[0]['lr'] == 0.00333  # for group in x:  # optim/adam.py:142 in step"
        assert recompiles.guard(text) == "self.param_groups[0]['lr'] == 0.00333"

    def test_a_reason_of_many_lines_is_its_first(self):
        """A footnote is one line."""
        assert recompiles.guard("\n - 0/1: len(x) == 2\n  more") == "len(x) == 2"

    def test_an_empty_reason_says_so(self):
        """Nothing recorded is not an empty footnote."""
        assert recompiles.guard("") == "no reason recorded"


def trace(**changes):
    return cells_of([row(**changes)])[0].trace


class TestSentences:
    def test_the_line_that_the_row_has_comes_first(self):
        """Then its causes, then the guards."""
        found = {"recompiles": 2, "recompile_reasons": ["lr == 1", "lr == 2"]}
        causes = {"recompile_causes": ["the lr", "the lr"]}
        assert recompiles.sentences(trace(**found, **causes, recompile_summary="2: the lr")) == ["2: the lr"]
        assert recompiles.sentences(trace(**found, **causes)) == ["2 of 2 recompiles: the lr"]
        assert recompiles.sentences(trace(**found)) == ["guard that failed in 2 of 2 recompiles: lr == 1"]

    def test_no_recompiles_need_no_line(self):
        """A summary of nothing is not a footnote."""
        assert recompiles.sentences(trace(recompile_summary="no recompiles")) == []


class TestMainCause:
    def test_is_the_commonest(self):
        """One footnote, not a list."""
        cause = recompiles.main_cause(trace(recompile_causes=["a", "b", "b"]))
        assert cause == "main cause of the recompiles: b"
        assert recompiles.main_cause(trace(recompile_reasons=["x == 1"])) == "guard failed: x == 1"
        assert recompiles.main_cause(trace(recompile_summary="s")) == "s"
        assert recompiles.main_cause(trace()) is None

    def test_a_cause_without_a_word_is_told_by_its_guard(self):
        """`other` explains nothing."""
        found = trace(
            recompiles=1,
            recompile_reasons=["x == 1"],
            recompile_causes=["other"],
            recompile_summary="1 recompiles: 1 x other",
        )
        assert recompiles.main_cause(found) == "guard failed: x == 1"
        assert recompiles.sentences(found) == [
            "1 recompiles: 1 x other",
            "guard that failed in 1 of 1 recompiles: x == 1",
        ]


class TestExplained:
    def test_reasons_that_differ_in_the_value_are_one(self):
        """A schedule fails the same guard with another value each time."""
        reasons = ["lr == 0.1", "lr == 0.2", "len(self.state) != 0", "lr == 0.3"]
        assert recompiles.explained(reasons, most=1) == ["guard that failed in 3 of 4 recompiles: lr == 0.1"]

    def test_an_index_is_part_of_the_variable(self):
        """`x[0]` and `x[1]` are two variables."""
        assert len(recompiles.explained(["x[0] == 1", "x[1] == 1"])) == 2

    def test_no_recompiles_need_no_words(self):
        """Silence where nothing happened."""
        assert recompiles.explained([]) == []
