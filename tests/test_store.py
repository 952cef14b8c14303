"""Rows on disk: whole or not at all, never overwritten, readable from any tool."""

import errno
import os
from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import record, store
from tests.rows import bad, row

HOSTILE = 'a, "b" \'; DROP TABLE\n=cmd() é 漢 \x1b[31m % & _ # { } ~ ^ \\ $'


class TestWrite:
    def test_the_file_is_named_after_sweep_and_run(self, tmp_path):
        """One file a run, in the folder of its sweep."""
        path = store.write(tmp_path, row(run_key="abc"))
        assert path == tmp_path / "runs" / "sweep=first" / "abc.parquet"
        assert os.listdir(path.parent) == ["abc.parquet"]

    def test_a_second_run_of_the_same_key_gets_a_file_of_its_own(self, tmp_path):
        """Nothing that was measured is overwritten."""
        first = store.write(tmp_path, row(run_key="abc", seed=1))
        before = first.read_bytes()
        second = store.write(tmp_path, row(run_key="abc", seed=2))
        third = store.write(tmp_path, row(run_key="abc", seed=3))
        assert [second.name, third.name] == ["abc-2.parquet", "abc-3.parquet"]
        assert before == first.read_bytes()

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path, monkeypatch):
        """An error while flushing is raised, and no file remains, whole or half."""

        def full(_descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(store.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.write(tmp_path, row())
        assert [p for p in tmp_path.rglob("*") if p.is_file()] == []

    def test_a_row_that_does_not_fit_makes_no_file(self, tmp_path):
        """The schema is checked before anything is written."""
        with pytest.raises(record.RecordError):
            store.write(tmp_path, row(width="wide"))
        assert list(tmp_path.iterdir()) == []


class TestReplace:
    def test_a_row_that_did_not_end_well_gives_its_place(self, tmp_path):
        """To the row of the next attempt, under the same name: a reader sees one of them."""
        first = store.write(tmp_path, bad("crashed", "killed", run_key="abc"))
        second = store.write(tmp_path, row(run_key="abc", seed=7), first.name)
        assert second == first
        assert [r["seed"] for r in store.read(store.row_files(tmp_path))[0].to_pylist()] == [7]
        assert os.listdir(first.parent) == [first.name]

    @pytest.mark.parametrize("status", ["ok", "excluded", "unsupported"])
    def test_a_good_row_never_does(self, tmp_path, status):
        """What was measured stays beside what is measured later."""
        first = store.write(tmp_path, row(run_key="abc", status=status))
        second = store.write(tmp_path, row(run_key="abc"), first.name)
        assert [first.name, second.name] == ["abc.parquet", "abc-2.parquet"]

    def test_nor_one_that_has_gone_or_stands_with_others(self, tmp_path):
        """A file of several rows is not replaced by one."""
        folder = store.sweep_dir(tmp_path, "first")
        folder.mkdir(parents=True)
        both = pa.concat_tables([record.to_table(bad("failed", "no", run_key=key)) for key in "ab"])
        pq.write_table(both, folder / "two.parquet")
        names = [
            store.write(tmp_path, row(run_key="a"), name).name for name in ("two.parquet", "gone.parquet")
        ]
        assert names == ["a.parquet", "a-2.parquet"]
        assert len(pq.read_table(folder / "two.parquet")) == 2


class TestRowFiles:
    def test_a_pipe_is_no_row(self, tmp_path):
        """Reading it would wait for ever."""
        os.mkfifo(tmp_path / "x.parquet")
        assert store.row_files(tmp_path) == []

    def test_hidden_and_foreign_files_are_not_rows(self, tmp_path):
        """Temporary files and files of other kinds are passed over."""
        path = store.write(tmp_path, row())
        (path.parent / ".x.parquet").write_bytes(b"half")
        (path.parent / f".{path.name}.1234.tmp").write_bytes(b"half")
        (path.parent / "_metadata.parquet").write_bytes(b"")
        (path.parent / "notes.txt").write_text("hello")
        assert store.row_files(tmp_path / "runs") == [path]


class TestRead:
    def test_gives_back_what_was_written(self, tmp_path):
        """Every column returns with its value and type."""
        written = row(eager_block_us=[1.0, 2.5], warnings=["noisy"], compile_dynamic=None, reason=HOSTILE)
        table, unreadable = store.read([store.write(tmp_path, written)])
        assert unreadable == {}
        assert table.to_pylist() == [written]

    def test_reads_only_the_columns_asked_for(self, tmp_path):
        """The block lists of many runs need not be loaded."""
        table, _ = store.read([store.write(tmp_path, row())], ["status", "speedup"])
        assert table.column_names == ["status", "speedup"]

    def test_no_files_give_an_empty_table_with_every_column(self):
        """Nothing measured is not an error here."""
        table, _ = store.read([])
        assert (table.num_rows, table.column_names) == (0, record.schema().names)

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", b"PAR1" + bytes(50) + b"PAR1"])
    def test_a_corrupt_file_is_named_and_the_rest_is_read(self, tmp_path, content):
        """One broken file does not hide the others."""
        good = store.write(tmp_path, row())
        bad = good.with_name("bad.parquet")
        bad.write_bytes(content)
        table, unreadable = store.read([bad, good])
        assert table.num_rows == 1
        assert list(unreadable) == [bad]
        assert unreadable[bad]

    def test_a_truncated_file_is_named(self, tmp_path):
        """A file that lost its end is corrupt, not half a row."""
        path = store.write(tmp_path, row())
        path.write_bytes(path.read_bytes()[:-100])
        assert list(store.read([path])[1]) == [path]

    def test_a_foreign_file_is_named(self, tmp_path):
        """A Parquet file of something else is not a row."""
        path = tmp_path / "foreign.parquet"
        pq.write_table(pa.table({"a": [1]}), path)
        assert store.read([path])[1] == {path: "not a row file of stepsweep"}

    @pytest.mark.parametrize(
        "table",
        [
            pa.table({"schema_version": [1], "run_key": ["a"], "status": ["ok"], "width": ["wide"]}),
            pa.table(
                [[1], ["a"], ["ok"], [1], [2]], ["schema_version", "run_key", "status", "width", "width"]
            ),
            pa.table({"schema_version": [1], "run_key": ["a"], "status": [b"\xff\xfe"]}),
        ],
        ids=["wrong type", "column twice", "not UTF-8"],
    )
    def test_a_file_whose_columns_do_not_fit_is_named(self, tmp_path, table):
        """A file that only looks like a row is skipped with a reason, not a traceback."""
        path = tmp_path / "odd.parquet"
        pq.write_table(table, path)
        rows, unreadable = store.read([path])
        assert rows.num_rows == 0
        assert unreadable[path]

    def test_a_folder_named_like_a_file_is_named(self, tmp_path):
        """Whatever stands in the folder, reading goes on."""
        (tmp_path / "x.parquet").mkdir()
        assert list(store.read(store.row_files(tmp_path))[1]) == [tmp_path / "x.parquet"]

    def test_what_an_older_schema_lacks_is_null_and_what_a_newer_one_adds_is_left(self, tmp_path):
        """Rows of other versions are read as far as they go."""
        path = tmp_path / "other.parquet"
        table = {"schema_version": [7], "run_key": ["a"], "status": ["ok"], "width": [8], "novelty": [1]}
        pq.write_table(pa.table(table), path)
        rows, unreadable = store.read([path], ["width", "depth"])
        assert rows.to_pylist() == [{"width": 8, "depth": None}]
        assert unreadable == {}


class TestReadWithPandas:
    def test_the_whole_folder_is_one_frame_with_usable_types(self, tmp_path):
        """`pd.read_parquet("outputs/runs")` gives numbers, lists and times, hidden files aside."""
        path = store.write(tmp_path, row(run_key="a", eager_block_us=[1.0, 2.0]))
        store.write(tmp_path, row(run_key="b", sweep_id="second", model=HOSTILE, speedup=None))
        (path.parent / ".c.tmp").write_bytes(b"half")
        frame = pd.read_parquet(tmp_path / "runs")
        assert len(frame) == 2
        assert frame["width"].dtype == "int64"
        assert frame["speedup"].dtype == "float64"
        assert frame["started_at"].max() == datetime(2025, 3, 1, 12, tzinfo=UTC)
        first, second = (frame[frame["run_key"] == key].iloc[0] for key in "ab")
        assert list(first["eager_block_us"]) == [1.0, 2.0]
        assert second["model"] == HOSTILE
        assert pd.isna(second["speedup"])
        assert set(frame["sweep"]) == {"first", "second"}


class TestNames:
    def test_a_file_whose_name_is_not_utf_8_is_read(self, tmp_path):
        """As another system may have named it."""
        file = store.write(tmp_path, row())
        strange = file.with_name(os.fsdecode(b"caf\xe9.parquet"))
        file.rename(strange)
        table, unreadable = store.read([strange])
        assert (len(table), unreadable) == (1, {})
