"""The row's schema holds what it promises."""

import re
from pathlib import Path

import pytest

from src import record, vocabulary
from tests.rows import row

WRITTEN = {"GB/s": "gbps", "samples/s": "samples_per_s", "MHz": "mhz", "C": "c", "W": "w"}
"""Units that a column's name cannot have as they are written."""

KNOWN_NAMES = {"load_average"}
"""Quantities that keep the name by which everyone knows them."""


class TestSchema:
    def test_every_column_has_a_meaning_and_a_name_of_its_own(self):
        """Nobody has to guess what a column is."""
        names = [column.name for column in record.COLUMNS]
        assert len(names) == len(set(names))
        assert all(column.meaning for column in record.COLUMNS)

    def test_units_stand_in_the_names(self):
        """A column with a unit ends in it, or carries it before its end of an interval or of the timing."""
        for column in record.COLUMNS:
            if column.unit and column.name not in KNOWN_NAMES:
                unit = WRITTEN.get(column.unit, column.unit)
                assert re.search(rf"_{unit}(_low|_high|_before|_after)?$", column.name), column.name

    def test_units_and_meanings_travel_in_the_file_metadata(self):
        """Any Parquet reader finds the documentation in the fields."""
        field = record.schema().field("eager_us")
        assert field.metadata[b"unit"] == b"us"
        assert b"median" in field.metadata[b"meaning"]

    def test_axes_and_machine_facts_are_columns(self):
        """What cells are made from exists."""
        assert set(record.AXES) | set(record.MACHINE_FACTS) <= {c.name for c in record.COLUMNS}


class TestWarnings:
    def test_each_has_a_sentence(self):
        """A name alone tells a reader nothing."""
        assert all(re.fullmatch(r"[a-z_]+", name) and text for name, text in vocabulary.WARNINGS.items())


class TestToTable:
    def test_missing_columns_are_null(self):
        """A value that does not exist is null."""
        table = record.to_table({"status": "ok"})
        assert table.column("speedup").to_pylist() == [None]
        assert table.schema.equals(record.schema())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"speeedup": 2.0}, "unknown columns: speeedup"),
            ({"status": "fine"}, "status must be one of ok, failed"),
            ({"width": "wide"}, "width does not fit int64"),
            ({"eager_block_us": 3.0}, "eager_block_us does not fit list"),
        ],
    )
    def test_what_does_not_fit_is_refused_by_name(self, changes, message):
        """The message names the column and the rule."""
        with pytest.raises(record.RecordError, match=message):
            record.to_table(row() | changes)


class TestMarkdown:
    def test_the_page_of_columns_is_current(self):
        """`make docs` has been run since the schema changed."""
        page = Path(__file__).parent.parent / "docs" / "columns.md"
        assert record.markdown() == page.read_text(encoding="utf-8")
