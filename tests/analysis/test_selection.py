"""Which rows a summary is about."""

import os
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import record, store
from src.analysis.selection import SelectionError, condition, select
from tests.rows import START, row


@pytest.fixture
def runs(tmp_path):
    """Return a runs folder with an old, a new and a middle sweep; the files of the old are newest."""
    for sweep, days in (("new", 9), ("middle", 5), ("old", 1)):
        for job in (1, 0):
            start = START + timedelta(days=days, seconds=job)
            store.write(tmp_path, row(sweep_id=sweep, job=job, started_at=start, seed=job))
    return tmp_path / "runs"


class TestSelect:
    def test_the_newest_sweep_is_the_one_whose_runs_started_last(self, runs):
        """Copying files changes their dates, not what is newest; rows come in the order of the runs."""
        rows = select(runs).rows
        assert [(r["sweep_id"], r["job"]) for r in rows] == [("new", 0), ("new", 1)]

    def test_all_sweeps_come_in_the_order_of_their_start(self, runs):
        """Everything, oldest first."""
        rows = select(runs, everything=True).rows
        assert [r["sweep_id"] for r in rows] == ["old"] * 2 + ["middle"] * 2 + ["new"] * 2

    def test_a_sweep_by_name(self, runs):
        """One sweep, whatever its age."""
        assert {r["sweep_id"] for r in select(runs, sweep="old").rows} == {"old"}

    def test_the_folder_of_one_sweep(self, runs):
        """A path may be a sweep."""
        assert {r["sweep_id"] for r in select(runs / "sweep=middle").rows} == {"middle"}

    def test_one_file(self, runs):
        """A path may be a single run."""
        assert len(select(next(runs.rglob("*.parquet"))).rows) == 1

    def test_one_file_of_many_sweeps(self, runs, tmp_path):
        """Rows put together by other tools are told apart by their columns."""
        table, _ = store.read(store.row_files(runs))
        pq.write_table(table, tmp_path / "all.parquet")
        assert {r["sweep_id"] for r in select(tmp_path / "all.parquet").rows} == {"new"}
        assert len(select(tmp_path / "all.parquet", everything=True).rows) == 6

    def test_rows_without_a_start_fall_back_to_the_folder(self, tmp_path):
        """Without times in the rows the younger folder is the newer sweep."""
        for age, sweep in ((0, "a"), (1000, "b")):
            folder = store.write(tmp_path, row(sweep_id=sweep, started_at=None)).parent
            os.utime(folder, (2_000_000_000 - age,) * 2)
        assert select(tmp_path / "runs").rows[0]["sweep_id"] == "a"

    def test_a_corrupt_file_is_reported_beside_the_rows(self, runs):
        """The rest is summarised."""
        (runs / "sweep=new" / "bad.parquet").write_bytes(b"x")
        selection = select(runs)
        assert len(selection.rows) == 2
        assert [p.name for p in selection.unreadable] == ["bad.parquet"]

    def test_conditions_must_all_hold(self, runs):
        """Of six rows two have seed 1 in the sweeps old and new."""
        where = [condition("sweep_id=old,new"), condition("seed=1")]
        assert len(select(runs, everything=True, where=where).rows) == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sweep": "none"}, "there is no sweep 'none', there are: middle, new, old"),
            (
                {"where": [condition("optimizer=lion")]},
                "meets optimizer=lion\nin these rows optimizer has adam",
            ),
        ],
    )
    def test_what_is_not_there_is_said_with_what_is(self, runs, options, message):
        """A mistake is answered with the choices."""
        with pytest.raises(SelectionError) as caught:
            select(runs, **options)
        assert message in str(caught.value)

    def test_no_path_and_no_rows_are_said(self, tmp_path):
        """An empty folder and a missing one are different mistakes."""
        with pytest.raises(SelectionError, match="no such file or folder"):
            select(tmp_path / "nowhere")
        with pytest.raises(SelectionError, match="no rows in"):
            select(tmp_path)


class TestCondition:
    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("optimizer=adam,sgd", ("adam", "sgd")),
            ("width=8", (8,)),
            ("bias=True", (True,)),
            ("compile_dynamic=null,false", (None, False)),
            ("run_key=a=b", ("a=b",)),
            ("pinned_cpus=0,1", ("0,1",)),
            ("pinned_cpus=[0,1]", ("0,1",)),
            ("pinned_cpus=null", (None,)),
        ],
    )
    def test_values_have_the_type_of_their_column(self, text, values):
        """`width=8` is a number, `bias=true` a truth value."""
        assert condition(text).values == values

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("optimizer", "must be AXIS=VALUE"),
            ("optimzer=adam", "no column 'optimzer', some are: optimizer"),
            ("zzz=1", "some are: model, width"),
            ("width=wide", "must be a whole number or null, of 64 bits: got 'wide'"),
            ("bias=1", "must be true, false or null: got '1'"),
            ("speedup=2", "must be a column of text, whole numbers or true/false"),
        ],
    )
    def test_mistakes_name_the_rule_and_what_came(self, text, message):
        """The message has what is allowed."""
        with pytest.raises(SelectionError, match=message):
            condition(text)

    def test_every_axis_can_be_asked_for(self):
        """Axes are text, whole numbers or truth values."""
        examples = {pa.string(): "x", pa.int64(): "1", pa.bool_(): "true"}
        types = {column.name: column.type for column in record.COLUMNS}
        for name in record.AXES:
            assert condition(f"{name}={examples[types[name]]}").column == name


class TestQuantities:
    @pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -float("inf"), 1e300, 5e-324, -1e31])
    def test_a_number_that_nothing_measures_is_none(self, tmp_path, absurd):
        """One such row would be in every mean, and on every scale of a chart."""
        store.write(tmp_path, row(speedup=absurd, eager_us_low=absurd))
        store.write(tmp_path, row(job=1, optimizer="sgd"))
        rows = select(tmp_path / "runs", everything=True).rows
        assert [r["speedup"] for r in rows] == [None, 2.0]
        assert rows[0]["eager_us_low"] is None

    @pytest.mark.parametrize("absurd", [float("nan"), float("inf"), 1e300, 5e-324, 0.0, -1.0])
    def test_a_row_with_one_in_every_number_breaks_nothing(self, tmp_path, absurd, capsys):
        """Neither the table, nor why, nor the page."""
        from src import aggregate, report

        numbers = {c.name: absurd for c in record.COLUMNS if c.type == pa.float64()}
        store.write(tmp_path, row(**numbers))
        store.write(tmp_path, row(job=1, optimizer="sgd"))
        runs = str(tmp_path / "runs")
        assert aggregate.main([runs, "--all", "--out", str(tmp_path / "a")]) == 0
        assert aggregate.main([runs, "--all", "--out", str(tmp_path / "b"), "--table", "adam_sizes"]) in (
            0,
            2,
        )
        assert report.main([runs, "--all", "-o", str(tmp_path / "r.html")]) == 0
        assert "nan" not in capsys.readouterr().out.lower().split()


class TestTwice:
    def test_a_row_that_is_there_twice_counts_once(self, tmp_path):
        """A copied file is no second run."""
        file = store.write(tmp_path, row())
        (file.parent / "copy.parquet").write_bytes(file.read_bytes())
        assert len(select(tmp_path / "runs", everything=True).rows) == 1

    def test_rows_that_differ_in_anything_are_two(self, tmp_path):
        """Whatever their names say."""
        store.write(tmp_path, row())
        store.write(tmp_path, row(compiled_us=119.0))
        assert len(select(tmp_path / "runs", everything=True).rows) == 2

    def test_a_number_too_large_for_its_column_is_told(self):
        """It can be in no row."""
        with pytest.raises(SelectionError, match="must be a whole number or null, of 64 bits"):
            condition("seed=99999999999999999999")
