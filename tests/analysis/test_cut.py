"""A document with no more lines than a reader reads."""

import argparse

import pytest

from src.analysis import text
from src.analysis.cut import cut, lines
from src.analysis.document import Column, Document, Grid, Line
from src.analysis.grid import document_of
from src.analysis.summary import summarize
from tests.rows import row


def document(*grids):
    return Document("t", ("head",), grids, ("remark",), ("a", "b", "c", "d"))


def grid(*notes, title=""):
    """Return a table with a line for each of some footnotes."""
    made = tuple(Line((f"line {i}",), ((str(i),),), note) for i, note in enumerate(notes))
    return Grid(title, ("what",), (Column("n", ("n",), number=True),), made)


class TestCut:
    def test_a_document_that_is_short_enough_stays_as_it_is(self):
        """Also where all lines are asked for."""
        short = document(grid((1,), (2,)), grid((3, 4)))
        assert cut(short, 2, "x.csv") is short
        assert cut(short, None, "x.csv") is short

    def test_footnotes_of_lines_that_are_left_out_go_and_the_others_are_numbered_anew(self):
        """Of a, b, c and d the first two lines have a and c."""
        made = cut(document(grid((1,), (3, 1), (2,), (4,))), 2, "x.csv")
        assert made.footnotes == ("a", "c")
        assert [line.notes for line in made.grids[0].lines] == [(1,), (2, 1)]

    def test_a_footnote_that_another_table_needs_stays(self):
        """And so do footnotes of entries."""
        with_entries = Grid(
            "",
            ("what",),
            (Column("n", ("n",), number=True),),
            (Line(("x",), (("1",),), (), ((4,),)), Line(("y",), (("2",),), (), ((3,),))),
        )
        made = cut(document(with_entries, grid((2,))), 1, "x.csv")
        assert made.footnotes == ("a", "b", "d")  # of a no table ever told
        assert made.footnotes[made.grids[0].lines[0].notes_of(0)[0] - 1] == "d"
        assert made.footnotes[made.grids[1].lines[0].notes[0] - 1] == "b"

    def test_a_remark_says_how_many_lines_there_are_and_where(self):
        """Before other remarks; a table with a title is named."""
        made = cut(document(grid((), (), ()), grid((), (), (), title="Methods")), 2, "x.csv")
        first, second, last = made.remarks
        assert first.startswith("The first 2 of 3 lines of the table: 1 more are left out.")
        assert "All cells are in x.csv; --lines all shows every line." in first
        assert "of the table 'Methods'" in second
        assert last == "remark"

    def test_lines_that_were_never_made_are_counted(self):
        """Of five cells, three are made and two shown."""
        summary = summarize([row(width=8 * i, warnings=["noisy"] * (i == 5)) for i in range(1, 6)])
        made = cut(document_of(summary, most=3), 2, "summary.csv")
        assert len(made.grids[0].lines) == 2
        assert made.grids[0].left_out == 3
        assert "The first 2 of 5 lines" in text.render(made, 80)
        assert "noisy" not in text.render(made, 80)

    def test_making_fewer_lines_and_cutting_them_off_is_the_same(self):
        """The first is faster."""
        rows = [row(width=8 * i, warnings=["noisy", "drift"][: i % 3]) for i in range(1, 9)]
        summary = summarize(rows)
        assert cut(document_of(summary, most=3), 3, "f") == cut(document_of(summary), 3, "f")


class TestLines:
    @pytest.mark.parametrize(("asked", "most"), [("1", 1), ("200", 200), ("all", None)])
    def test_a_number_or_all(self, asked, most):
        """None is no end."""
        assert lines(asked) == most

    @pytest.mark.parametrize("asked", ["0", "-1", "1.5", "none", "", "3x"])
    def test_anything_else_is_refused_with_the_rule(self, asked):
        """And what came."""
        with pytest.raises(argparse.ArgumentTypeError, match="from 1 on, or all: got"):
            lines(asked)
