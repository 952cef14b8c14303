"""The recompile matrix; its golden files are in test_tables."""

import csv
import io
import re

import pytest

from src.analysis import latex, matrix, tables, text
from src.analysis.summary import summarize
from tests.rows import bad, row, traced

PAIR = [traced(), traced(optimizer="sgd", scheduler="step")]
WIDE = [traced(scheduler=f"scheduler_{i}", optimizer=o, recompiles=i) for i in range(17) for o in "ab"]


def entry(*rows):
    """Return what stands for `rows`, which must be runs of adam without a scheduler."""
    return "".join(matrix.matrix_of(summarize([*rows, *PAIR[1:]])).grids[0].lines[0].entries[0])


class TestEntry:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"recompiles": 7}, "7"),
            ({"recompiles": 7, "recompile_limit_hit": True, "eager_from_step": 8}, "7@8"),
            ({"recompiles": 7, "compiled_path": "eager_fallback"}, "7*"),
            ({"recompiles": 7, "compiled_path": "recompiling"}, "7+"),
            ({"compiled_path": "partly"}, "0~"),
            ({"compiled_path": "never_compiled"}, "-"),
            ({"compiled_path": None, "graphs": 0}, "-"),
            ({"recompiles": 2, "parity": "failed"}, "2x"),
            ({"recompiles": None}, "?"),
        ],
    )
    def test_says_what_the_trace_found(self, changes, expected):
        """In as few characters as it takes."""
        assert entry(traced(**changes)) == expected

    @pytest.mark.parametrize(
        ("status", "expected"),
        [("unsupported", "u"), ("excluded", "e"), ("failed", "!"), ("crashed", "!"), ("timed_out", "!")],
    )
    def test_says_why_there_is_no_count(self, status, expected):
        """A run that was not traced is not blank."""
        assert entry(bad(status, "why", measure="trace")) == expected

    def test_runs_that_disagree(self):
        """Fewest and most; a failed one is told beside the count."""
        assert entry(traced(recompiles=1), traced(recompiles=2, seed=1)) == "1-2"
        assert entry(traced(recompiles=1), bad("failed", "OOM", measure="trace", seed=1)) == "1!"

    def test_a_run_with_invalid_times_has_a_count(self):
        """The matrix is about recompiles, which are often why they are invalid."""
        fallen = row(measure="trace", verdict="invalid", recompiles=7, compiled_path="eager_fallback")
        assert entry(fallen) == "7*"


class TestMatrixOf:
    def test_two_sides_must_vary(self):
        """The message says what does."""
        with pytest.raises(matrix.MatrixError, match="here optimizer does"):
            matrix.matrix_of(summarize([traced(), traced(optimizer="sgd")]))
        with pytest.raises(matrix.MatrixError, match="here none does"):
            matrix.matrix_of(summarize([traced()]))

    def test_some_count_must_be_known(self):
        """A matrix of question marks is none."""
        with pytest.raises(matrix.MatrixError, match="here none did"):
            matrix.matrix_of(summarize([{**row, "recompiles": None} for row in PAIR]))

    def test_learning_rates_are_the_columns_of_one_scheduler(self):
        """Columns are what varies."""
        rows = [traced(optimizer=o, lr_as_tensor=t) for o in ("adam", "sgd") for t in (False, True)]
        (grid,) = matrix.matrix_of(summarize(rows)).grids
        assert (grid.label_titles, [c.title for c in grid.columns]) == (("optimizer",), ["float", "tensor"])

    def test_other_axes_make_a_matrix_each(self):
        """Nothing of two devices or modes is put into one entry; what was not run there has no column."""
        rows = [*PAIR, traced(compile_mode="max-autotune", recompiles=5)]
        first, second = matrix.matrix_of(summarize(rows)).grids
        assert (first.title, second.title) == ("mode=default", "mode=max-autotune")
        assert ([c.title for c in second.columns], second.lines[0].entries) == (["none"], (("5",),))

    def test_the_legend_has_the_marks_in_use(self):
        """Each mark is explained, and no other."""
        legend = dict(matrix.matrix_of(summarize([*PAIR, bad("failed", "OOM", measure="trace")])).legend)
        assert list(legend) == ["n", "!", "blank"]

    def test_reasons_that_differ_in_a_number_share_a_footnote(self):
        """Seventeen schedulers fail one guard with seventeen values."""
        rows = [traced(scheduler=f"s{v}", optimizer=f"o{v}", recompiles=1, recompile_reasons=[f"lr == 0.{v}"])
                for v in (1, 2)]  # fmt: skip
        assert matrix.matrix_of(summarize(rows)).footnotes == (
            "guard failed: lr == 0.1 (an example: the number differs)",
        )


class TestFormats:
    @pytest.mark.parametrize("width", [1, 30, 80, 120, 400])
    def test_no_width_loses_a_column(self, width):
        """Schedulers that do not fit go below."""
        rendered = text.render(matrix.matrix_of(summarize(WIDE)), width, unicode=False)
        lines = [line.split() for line in rendered.splitlines() if re.match(r"a +\d", line)]
        assert [n for line in lines for n in line[1:]] == [str(i) for i in range(17)]
        assert len(lines) == {1: 17, 400: 1}.get(width, len(lines))
        assert rendered.isascii()

    def test_csv_has_a_column_for_each_scheduler(self):
        """One file for all combinations; what was not run is empty."""
        document = matrix.matrix_of(summarize([*PAIR, traced(compile_mode="x", scheduler="cosine")]))
        rows = list(csv.DictReader(io.StringIO(matrix.to_csv(document))))
        assert list(rows[0]) == ["combination", "optimizer", "none", "step", "cosine"]
        assert [r["combination"] for r in rows] == ["mode=default", "mode=default", "mode=x"]
        assert [r["none"] for r in rows] == ["0", "", ""]

    def test_hostile_names_stay_data(self):
        """As many cells in each line of a table as it has titles."""
        hostile = "a & b | c _ d % e \x1b[31m"
        document = matrix.matrix_of(summarize([*PAIR, traced(scheduler=hostile, optimizer=hostile)]))
        assert "\x1b" not in text.render(document, 80)
        lines = [line for line in tables.to_markdown(document).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
        lines = [line for line in latex.to_latex(document).splitlines() if line.endswith("\\\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {3}


class TestEmptyNames:
    def test_a_name_of_nothing_is_a_column_all_the_same(self):
        """A row may hold any text."""
        rows = [traced(), traced(job=1, scheduler=""), traced(job=2, optimizer="sgd")]
        document = matrix.matrix_of(summarize(rows))
        assert "" in [column.title for column in document.grids[0].columns]
