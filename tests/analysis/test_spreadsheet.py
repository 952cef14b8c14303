"""CSV that a spreadsheet can open."""

import csv
import io

import pyarrow as pa
import pytest

from src.analysis import matrix, spreadsheet
from src.analysis.summary import summarize
from tests.rows import traced

FORMULAS = ["=1+2", "+cmd|' /C calc'!A0", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "＝1", "--x", "-x"]  # noqa: RUF001
HARMLESS = ["adam", "-", "", "-0.5", "+1e9", "1-2", "'=1", "a=b", "[0,1]", "{}"]


class TestGuarded:
    @pytest.mark.parametrize("text", FORMULAS)
    def test_a_formula_becomes_text(self, text):
        """An apostrophe in front, and nothing else changes."""
        assert spreadsheet.guarded(text) == f"'{text}"

    @pytest.mark.parametrize("value", [*HARMLESS, None, -1, -0.5, True])
    def test_numbers_and_names_stay_as_they_are(self, value):
        """Also a dash alone, which stands for a number that is not there."""
        assert spreadsheet.guarded(value) == value


class TestToCsv:
    def test_texts_are_guarded_and_numbers_are_not(self):
        """As `guarded` does one by one; null is an empty field."""
        texts = [*FORMULAS, *HARMLESS, None]
        table = pa.table({"name": texts, "=value": [-float(i) for i in range(len(texts))]})
        read = list(csv.reader(io.StringIO(spreadsheet.to_csv(table), newline="")))
        assert [name for name, _ in read[1:]] == [spreadsheet.guarded(text) or "" for text in texts]
        assert [float(value) for _, value in read[1:]] == [-float(i) for i in range(len(texts))]

    def test_a_column_of_nulls_stays_empty(self):
        """No apostrophe comes from nothing."""
        table = pa.table({"name": pa.array([None, None], pa.string())})
        assert spreadsheet.to_csv(table) == '"name"\n\n\n'

    def test_the_matrix_is_guarded_as_well(self):
        """Names of optimizers and schedulers come from files."""
        rows = [traced(), traced(optimizer="=1+2", scheduler="@x")]
        text = matrix.to_csv(matrix.matrix_of(summarize(rows)))
        assert text.splitlines()[0] == "combination,optimizer,none,'@x"
        assert text.splitlines()[2].startswith(",'=1+2,")
