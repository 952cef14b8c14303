"""Rows by the column say what rows one by one say."""

import numpy as np
import pytest

from src.analysis.rows import Rows
from tests import synthetic
from tests.rows import row


class TestTable:
    def test_each_row_is_what_arrow_makes_of_it(self):
        """Every type of column, nulls and lists included."""
        table = synthetic.rows(60)
        assert [dict(each) for each in Rows(table)] == table.to_pylist()

    def test_of_a_table_in_pieces_that_do_not_begin_at_its_start(self):
        """Lists lie behind each other in a table, whatever part of it is looked at."""
        table = synthetic.rows(1010).slice(995)
        assert [dict(each) for each in Rows(table)] == table.to_pylist()

    def test_an_order_chooses_and_sorts(self):
        """Also texts, numbers and lists, and what is never kept."""
        table = synthetic.rows(30)
        rows = Rows(table, np.array([7, 3, 29]))
        assert [dict(each) for each in rows] == table.take([7, 3, 29]).to_pylist()
        assert rows.numbers("job").tolist() == [7, 3, 29]
        assert len(rows) == 3

    def test_numbers_have_nan_where_there_is_null(self):
        """Null where there is none, in an array of floats."""
        table = synthetic.rows(400)
        column = table.column("speedup").to_pylist()
        assert None in column
        expected = [float("nan") if v is None else v for v in column]
        np.testing.assert_array_equal(Rows(table).numbers("speedup"), expected)

    def test_equal_texts_are_one_object(self):
        """A hundred thousand names of one optimizer are one name."""
        rows = Rows(synthetic.rows(1000))
        assert len({id(name) for name in rows.column("optimizer_args")}) == len(
            set(rows.column("optimizer_args"))
        )

    def test_is_a_sequence(self):
        """Indices from the end, slices, and an end."""
        rows = Rows(synthetic.rows(10))
        assert rows[-1]["job"] == 9
        assert [each["job"] for each in rows[2:4]] == [2, 3]
        with pytest.raises(IndexError):
            rows[10]

    def test_a_column_that_is_not_there_is_a_key_error(self):
        """As of a mapping."""
        rows = Rows(synthetic.rows(1).select(["job"]))
        with pytest.raises(KeyError):
            rows[0]["width"]
        assert rows[0].get("width") is None


class TestGiven:
    def test_mappings_have_columns_as_well(self):
        """Such as the rows of a run that has just ended."""
        rows = Rows.of([row(job=0), row(job=1, speedup=None)])
        assert rows.column("job") == [0, 1]
        np.testing.assert_array_equal(rows.numbers("speedup"), [2.0, float("nan")])
        assert dict(rows[1]) == row(job=1, speedup=None)

    def test_rows_by_the_column_stay_what_they_are(self):
        """No copy."""
        rows = Rows(synthetic.rows(2))
        assert Rows.of(rows) is rows
