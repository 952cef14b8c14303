"""A document: heads above columns, footnotes."""

from src.analysis.document import Column, Grid


def grid(*heads):
    columns = tuple(Column(f"c{i}", (f"c{i}",), number=True, heads=each) for i, each in enumerate(heads))
    return Grid("", (), columns, ())


class TestSpans:
    def test_neighbours_with_the_same_head_share_one(self):
        """On each level."""
        made = grid(("a", "x"), ("a", "x"), ("a", "y"), ("b", "y"))
        assert made.levels == 2
        assert made.spans(0) == [("a", 3), ("b", 1)]
        assert made.spans(1) == [("x", 2), ("y", 1), ("y", 1)]

    def test_an_empty_head_stands_alone(self):
        """Nothing says that two columns without one belong together."""
        assert grid(("",), ("",), ("a",), ("",)).spans(0) == [("", 1), ("", 1), ("a", 1), ("", 1)]

    def test_a_table_without_heads_has_no_level(self):
        """As most have none."""
        assert grid((), ()).levels == 0

    def test_one_line_of_titles_says_the_heads_too(self):
        """For Markdown, which has no others."""
        assert Column("x", ("x",), number=True, heads=("a", "", "b")).whole == "a, b, x"
