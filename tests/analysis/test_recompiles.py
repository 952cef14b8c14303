"""Reasons of recompiles, made short."""

from src.analysis import recompiles


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
