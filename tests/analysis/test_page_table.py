"""The table of a page: numbers to sort by beside the words that are shown."""

from src.analysis.page_table import table_of
from src.analysis.summary import summarize
from tests.rows import bad, best, explained, row, times, traced


def column(table, title):
    """Return the entries of a column."""
    at = [each["title"] for each in table["columns"]].index(title)
    return [line["e"][at] for line in table["rows"]]


class TestNumbers:
    def test_a_number_sorts_by_its_value_and_shows_its_unit_and_interval(self):
        """By hand: 2400 us are 2.40 ms, +-1 % of them the interval."""
        table = table_of(summarize([row(**times(2400.0, 120.0))]))
        assert column(table, "eager") == [[2400.0, "2.40 ms", "±1.0 %"]]
        assert column(table, "speedup") == [[20.0, "20.00x", "[19.80, 20.20]"]]

    def test_each_number_has_the_unit_that_suits_it(self):
        """A page may span models of all sizes."""
        rows = [row(), row(job=1, model="large", **times(24_000.0, 12_000.0))]
        assert [entry[1] for entry in column(table_of(summarize(rows)), "eager")] == ["240 us", "24.0 ms"]

    def test_what_a_cell_lacks_is_no_number(self):
        """It is none, and neither zero nor text."""
        rows = [row(), bad("failed", "it raised", job=1, optimizer="sgd")]
        assert column(table_of(summarize(rows)), "speedup")[1] is None

    def test_a_column_that_no_cell_has_is_left_out(self):
        """Such as times where nothing was timed."""
        titles = [each["title"] for each in table_of(summarize([traced()]))["columns"]]
        assert titles == ["recompiles", "compile"]

    def test_what_a_column_sorts_by_is_no_longer_than_it_need_be(self):
        """Twenty thousand cells of ten numbers are most of a page: by hand, 240.123456 us."""
        table = table_of(summarize([row(**times(240.123456, 120.0))]))
        assert column(table, "eager")[0][:2] == [240.123, "240 us"]

    def test_a_count_that_differs_between_runs_is_a_range(self):
        """And sorts by its most."""
        rows = [row(recompiles=1), row(job=1, seed=1, recompiles=4)]
        assert column(table_of(summarize(rows)), "recompiles") == [[4.0, "1-4", ""]]

    def test_an_attained_fraction_is_in_per_cent(self):
        """By hand: 66.0 of 120 us."""
        table = table_of(summarize([row(**explained("compiled", 120.0))]))
        ((_, words, _),) = column(table, "compiled attained")
        assert words == "55 %"


class TestWords:
    def test_equal_texts_are_there_once(self):
        """Labels, outcomes and notes are numbers of texts."""
        rows = [
            row(job=n, optimizer=o, compile_mode=m)
            for n, (o, m) in enumerate([("adam", "default"), ("sgd", "default"), ("adam", "max")])
        ]
        table = table_of(summarize(rows))
        assert [each["title"] for each in table["labels"]] == ["optimizer", "mode"]
        assert [each["texts"] for each in table["labels"]] == [["adam", "sgd"], ["default", "max"]]
        assert [line["l"] for line in table["rows"]] == [[0, 0], [0, 1], [1, 0]]
        assert table["outcomes"] == ["faster"]

    def test_the_outcome_says_what_became_of_the_run(self):
        """Also that it was only traced."""
        rows = [row(), bad("timeout", "600 s", job=1, optimizer="sgd")]
        assert table_of(summarize(rows))["outcomes"] == ["faster", "timeout"]
        assert table_of(summarize([traced()]))["outcomes"] == ["traced"]

    def test_notes_are_the_doubts_and_the_best_eager_step(self):
        """With the number of runs where it is not one."""
        rows = [row(warnings=["noisy"], **best("fused", 130.0)), row(job=1, seed=1, **best("fused", 130.0))]
        table = table_of(summarize(rows))
        (line,) = table["rows"]
        notes = [table["notes"][number] for number in line["n"]]
        assert notes[0] == "2 of 2 runs are in the numbers"
        assert any(note.startswith("noisy: ") for note in notes)
        assert notes[-1] == "best eager implementation: fused"

    def test_what_could_steer_a_reader_is_written_as_an_escape(self):
        """A right-to-left mark in a label."""
        rows = [row(), row(job=1, optimizer="a\u202eb")]
        assert table_of(summarize(rows))["labels"][0]["texts"] == ["adam", "a\\u202eb"]
