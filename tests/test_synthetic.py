"""The rows that stand in for a hundred thousand measured ones."""

import json
from collections import Counter

import pytest

from src import record, store, vocabulary
from tests import synthetic


class TestRows:
    def test_have_the_schema_of_a_row(self):
        """Also where there are none."""
        assert synthetic.rows(7).schema.equals(record.schema())
        assert synthetic.rows(0).schema.equals(record.schema())

    def test_the_same_arguments_give_the_same_rows_and_a_longer_table_begins_with_a_shorter(self):
        """Over a chunk and into the next."""
        assert synthetic.rows(1700).slice(0, 1100).equals(synthetic.rows(1100))

    def test_no_run_is_there_twice(self):
        """Five seeds a cell, unless told otherwise."""
        table = synthetic.rows(3000)
        rows = table.select([*record.AXES, "torch_version"]).to_pylist()
        told = [row for row in rows if row["torch_version"]]
        assert len({tuple(row.values()) for row in told}) == len(told)
        assert table.column("seed").unique().to_pylist() == [0, 1, 2, 3, 4]
        assert synthetic.rows(3000, seeds=1).column("seed").unique().to_pylist() == [0]

    def test_some_end_badly_and_some_are_not_to_be_trusted(self):
        """Every kind of row that a summary must tell apart, and words that a row may have."""
        rows = synthetic.rows(5000).select(["status", "verdict", "warnings", "recompiles"]).to_pylist()
        statuses = Counter(row["status"] for row in rows)
        assert set(statuses) == {"ok", "failed", "timed_out", "crashed", "unsupported"}
        assert {row["verdict"] for row in rows} == {*vocabulary.VERDICTS, None}
        assert {name for row in rows for name in row["warnings"] or ()} <= set(vocabulary.WARNINGS)
        assert all(row["recompiles"] is None for row in rows if row["status"] != "ok")

    def test_a_configuration_is_json_with_the_experiment(self):
        """As long as a real one, about."""
        (text,) = synthetic.rows(1, experiment="sizes").column("config").to_pylist()
        assert json.loads(text)["experiment"]["name"] == "sizes"
        assert 800 < len(text) < 2500

    def test_a_factor_slows_the_compiled_step_alone(self):
        """By that factor exactly."""
        base, new = synthetic.rows(50), synthetic.rows(50, factor=1.03)
        for name, factor in (("eager_us", 1.0), ("compiled_us", 1.03)):
            pairs = zip(base.column(name).to_pylist(), new.column(name).to_pylist(), strict=True)
            assert [b and pytest.approx(b * factor) for b, _ in pairs] == new.column(name).to_pylist()

    def test_more_rows_than_there_are_cells_for_are_refused(self):
        """They would repeat runs."""
        with pytest.raises(ValueError, match="n must be at most 138240"):
            synthetic.rows(138_241, seeds=1)


class TestWrite:
    @pytest.mark.parametrize(("rows_per_file", "files"), [(1000, 2), (500, 3), (1, 40)])
    def test_files_are_read_back_as_what_was_made(self, tmp_path, rows_per_file, files):
        """One file a run, or compacted; a sweep begins a new one."""
        table = synthetic.rows(1200 if rows_per_file > 1 else 40)
        written = synthetic.write(tmp_path, table, rows_per_file)
        assert len(written) == files
        back, unreadable = store.read(written)
        assert unreadable == {}
        assert back.equals(table)
