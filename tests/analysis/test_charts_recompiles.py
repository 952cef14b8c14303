"""The heat map has the places and the marks of the matrix of texts."""

import pytest

from src.analysis import charts_recompiles, matrix
from src.analysis.marks import FAILED, FALLBACK
from src.analysis.summary import summarize
from tests.analysis.charted import chart_of, marks, views
from tests.rows import bad, row, traced

FALLEN = traced(scheduler="cosine", recompiles=7, recompile_limit_hit=True, eager_from_step=8)
FALLEN |= {"recompile_causes": ["lr: value changed"]}
ROWS = [
    traced(),
    FALLEN,
    traced(optimizer="sgd", recompiles=2),
    bad("failed", "OOM", optimizer="sgd", scheduler="cosine", measure="trace"),
]


def entries(view):
    (values,) = [view["data"]["values"]]
    return {(entry["line"], entry["column"]): entry for entry in values}


class TestRecompiles:
    def test_every_place_has_its_mark_and_kind(self):
        """The number, and the colour of what it means."""
        (view,) = views(chart_of(charts_recompiles.recompiles, ROWS))
        assert {place: (entry["text"], entry["kind"]) for place, entry in entries(view).items()} == {
            ("adam", "none"): ("0", "0"),
            ("adam", "cosine"): ("7@8", FALLBACK),
            ("sgd", "none"): ("2", "2 or 3"),
            ("sgd", "cosine"): ("!", FAILED),
        }

    def test_a_tooltip_says_why(self):
        """The cause of the recompiles, or the reason of the failure."""
        (view,) = views(chart_of(charts_recompiles.recompiles, ROWS))
        found = entries(view)
        assert found["adam", "cosine"]["cause"] == "main cause of the recompiles: lr: value changed"
        assert found["sgd", "cosine"]["cause"] == "failed: OOM"
        assert found["adam", "none"]["cause"] == "-"

    def test_marks_are_those_of_the_matrix_of_texts(self):
        """Of the same rows."""
        document = matrix.matrix_of(summarize(ROWS))
        (view,) = views(chart_of(charts_recompiles.recompiles, ROWS))
        found = entries(view)
        for line in document.grids[0].lines:
            for column, entry in zip(document.grids[0].columns, line.entries, strict=True):
                assert found[line.labels[0], column.title]["text"] == "".join(entry)

    def test_a_panel_for_each_kind_of_learning_rate_and_mode(self):
        """Nothing of two of them is put into one place."""
        lrs, optimizers, schedulers = (False, True), ("adam", "sgd"), ("none", "step")
        rows = [traced(optimizer=o, scheduler=s, lr_as_tensor=t, compile_mode=m)
                for m in ("default", "max") for t in lrs for o in optimizers for s in schedulers]  # fmt: skip
        chart = chart_of(charts_recompiles.recompiles, rows)
        assert [view["title"]["text"] for view in views(chart)] == [
            "mode=default, lr=float", "mode=default, lr=tensor", "mode=max, lr=float", "mode=max, lr=tensor"
        ]  # fmt: skip
        assert [len(entries(view)) for view in views(chart)] == [4, 4, 4, 4]

    def test_what_was_not_run_is_blank(self):
        """No entry, rather than a zero."""
        (view,) = views(chart_of(charts_recompiles.recompiles, ROWS[:3]))
        assert ("sgd", "cosine") not in entries(view)

    def test_learning_rates_are_a_side_where_one_scheduler_was_run(self):
        """As in the matrix of texts."""
        rows = [traced(optimizer=o, lr_as_tensor=t) for o in ("adam", "sgd") for t in (False, True)]
        chart = chart_of(charts_recompiles.recompiles, rows)
        assert chart.title == "Recompiles by optimizer and lr"

    def test_a_sweep_of_many_panels_and_lines_is_cut_and_says_so(self):
        """7 modes make 7 panels, 41 optimizers 41 lines."""
        rows = [traced(optimizer=f"o{o}", scheduler=s, compile_mode=f"m{m}")
                for m in range(7) for o in range(41) for s in ("none", "step")]  # fmt: skip
        chart = chart_of(charts_recompiles.recompiles, rows)
        assert len(views(chart)) == 6
        assert len({line for line, _ in entries(views(chart)[0])}) == 40
        told = ["6 of 7 panels", "the first 40 lines and columns of each panel"]
        assert chart.spec["title"]["text"] == told
        assert all(f"Drawn are {note}." in chart.description for note in told)

    def test_the_sentence_counts_the_kinds(self):
        """Over the steps of the trace."""
        words = chart_of(charts_recompiles.recompiles, ROWS).description
        assert "4 combinations in 1 panel; recompiles over the first 12 steps" in words
        assert "0: 1, 2 or 3: 1, fell back to eager (@step): 1, failed (!): 1." in words
        assert "Commonest, in 1: main cause of the recompiles: lr: value changed." in words

    @pytest.mark.parametrize(
        "rows",
        [
            [row()],
            [traced()],
            [traced(), traced(optimizer="sgd")],
            [bad("failed", "x"), bad("failed", "x", optimizer="sgd", scheduler="step")],
        ],
    )
    def test_rows_that_make_no_matrix_make_no_chart(self, rows):
        """The same condition for both."""
        assert chart_of(charts_recompiles.recompiles, rows) is None

    def test_operations_outside_the_graphs_are_explained_where_there_are_any(self):
        """The mark ~ is on the number; no colour stands for it."""
        rows = [*ROWS[:3], traced(optimizer="sgd", scheduler="cosine", compiled_path="partly")]
        for shown, expected in ((ROWS, "recompiles"), (rows, "recompiles (~ part of the step")):
            (view,) = views(chart_of(charts_recompiles.recompiles, shown))
            assert view["layer"][0]["encoding"]["fill"]["title"].startswith(expected)
        assert len(marks(view, "text")[0]) == 4
