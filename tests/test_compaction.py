"""Many row files of a sweep become one: every row is there at every moment, once."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import store
from src.store import __main__ as command
from src.store import compaction
from src.store.compaction import CompactionError, compact
from tests.rows import bad, row

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a sweep of four good rows and one that crashed."""
    for number in range(4):
        store.write(tmp_path, row(job=number, run_key=f"{number:012x}", eager_block_us=[1.0, 2.0]))
    store.write(tmp_path, bad("crashed", "killed", job=4, run_key=f"{4:012x}"))
    return store.sweep_dir(tmp_path, "first")


def jobs(folder):
    """Return the jobs of all rows, as pandas reads the folder above."""
    return sorted(pd.read_parquet(folder.parent)["job"])


class TestCompact:
    def test_every_row_is_there_as_it_was(self, folder):
        """Good ones in one file, with what the columns mean; what did not end well for itself."""
        before = store.read(store.row_files(folder))[0].to_pylist()
        done = compact(folder)
        assert (done.rows, done.files_before, done.files_after) == (4, 5, 2)
        assert jobs(folder) == [0, 1, 2, 3, 4]
        after = store.read(store.row_files(folder))[0].to_pylist()
        assert sorted(after, key=lambda r: r["job"]) == before
        (packed,) = [f for f in store.row_files(folder) if f.name.startswith("rows-")]
        assert pq.read_schema(packed).field("compile_s").metadata[b"unit"] == b"s"

    def test_once_more_does_nothing_and_new_rows_join(self, folder, tmp_path):
        """A sweep may be resumed and compacted again."""
        compact(folder)
        assert compact(folder).rows == 0
        store.write(tmp_path, row(job=5, run_key=f"{5:012x}"))
        assert compact(folder).files_after == 2
        assert jobs(folder) == list(range(6))

    def test_a_row_that_did_not_end_well_can_still_be_replaced(self, folder, tmp_path):
        """By the next attempt of its run."""
        compact(folder)
        store.write(tmp_path, row(job=4, run_key=f"{4:012x}"), f"{4:012x}.parquet")
        frame = pd.read_parquet(folder)
        assert sorted(zip(frame["job"], frame["status"], strict=True)) == [(n, "ok") for n in range(5)]

    def test_files_with_more_than_is_known_stay(self, folder):
        """Columns of a later version, a foreign file and one that is broken are left as they are."""
        table = pa.table({"schema_version": [9], "run_key": ["a"], "status": ["ok"], "novelty": [1]})
        pq.write_table(table, folder / "later.parquet")
        (folder / "broken.parquet").write_bytes(b"x")
        (folder / "notes.txt").write_text("mine")
        compact(folder)
        names = {path.name for path in folder.iterdir()}
        assert {"later.parquet", "broken.parquet", "notes.txt"} < names
        assert pq.read_table(folder / "later.parquet") == table

    def test_nothing_is_left_beside(self, folder, tmp_path):
        compact(folder)
        assert {path.name for path in tmp_path.iterdir()} == {"runs"}
        assert {path.name for path in folder.parent.iterdir()} == {"sweep=first"}

    def test_a_row_that_is_written_meanwhile_is_kept(self, folder, tmp_path, monkeypatch):
        """By a job whose sweep has gone, at the worst moment: just before the folders are exchanged."""
        plainly = compaction._exchange

        def late(first, second):
            store.write(tmp_path, row(job=7, run_key=f"{7:012x}"))
            plainly(first, second)

        monkeypatch.setattr(compaction, "_exchange", late)
        compact(folder)
        assert jobs(folder) == [0, 1, 2, 3, 4, 7]

    def test_a_write_over_the_exchange_is_done_once_more(self, folder, tmp_path, monkeypatch):
        """Its temporary file is in the folder that has gone."""
        plainly = os.link

        def exchanged_before(*arguments, **more):
            monkeypatch.setattr(os, "link", plainly)
            compact(folder)
            return plainly(*arguments, **more)

        monkeypatch.setattr(os, "link", exchanged_before)
        store.write(tmp_path, row(job=7, run_key=f"{7:012x}"))
        assert jobs(folder) == [0, 1, 2, 3, 4, 7]

    def test_a_sweep_that_runs_is_left_alone(self, folder):
        with (
            compaction.FileLock(folder / compaction.LOCK),
            pytest.raises(CompactionError, match="is running: it can be compacted when it has ended"),
        ):
            compact(folder)
        assert len(store.row_files(folder)) == 5

    def test_a_file_system_that_cannot_exchange_folders(self, folder, monkeypatch, tmp_path):
        """Nothing is changed, and nothing left."""

        class Libc:
            @staticmethod
            def renameat2(*_):
                return -1

        monkeypatch.setattr(compaction.ctypes, "CDLL", lambda *_, **__: Libc)
        with pytest.raises(CompactionError, match="the file system cannot exchange two folders"):
            compact(folder)
        assert len(store.row_files(folder)) == 5
        assert {path.name for path in tmp_path.iterdir()} == {"runs"}


KILLED = """
import os, signal, sys
from pathlib import Path
from src.store import compaction
at, folder = sys.argv[1], Path(sys.argv[2])
plainly = getattr(compaction, at)
def killed(*arguments):
    result = plainly(*arguments) if sys.argv[3] == "after" else None
    os.kill(os.getpid(), signal.SIGKILL)
setattr(compaction, at, killed)
compaction.compact(folder)
"""


class TestKilled:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("at", ["_write", "_link_others", "_flush", "_exchange"])
    def test_every_row_is_there_once_wherever_it_is_killed(self, folder, at, when):
        """And the next compaction does what this one did not."""
        done = subprocess.run([sys.executable, "-c", KILLED, at, folder, when], cwd=ROOT, check=False)
        assert done.returncode == -9
        assert jobs(folder) == [0, 1, 2, 3, 4]
        compact(folder)
        assert jobs(folder) == [0, 1, 2, 3, 4]
        assert len(store.row_files(folder)) == 2
        assert [path.name for path in folder.parent.parent.iterdir()] == ["runs"]

    def test_a_row_that_was_written_at_that_moment_is_taken_back(self, folder):
        """It is in the folder that was exchanged, and nowhere else."""
        arguments = [sys.executable, "-c", KILLED, "_exchange", folder, "after"]
        done = subprocess.run(arguments, cwd=ROOT, check=False)
        assert done.returncode == -9
        (left,) = folder.parent.parent.glob(".compacting-*")
        store.write(left.parent, row(job=9, run_key="f" * 12, sweep_id="left"))
        os.rename(store.sweep_dir(left.parent, "left") / f"{'f' * 12}.parquet", left / "late.parquet")
        compact(folder)
        assert sorted(pd.read_parquet(folder)["job"]) == [0, 1, 2, 3, 4, 9]


class TestCommand:
    def test_all_sweeps_of_a_folder(self, folder, tmp_path, capsys):
        for number in range(3):
            store.write(tmp_path, row(job=number, run_key=f"{number:012x}", sweep_id="second"))
        assert command.main(["compact", str(tmp_path / "runs")]) == 0
        assert capsys.readouterr().out == "sweep=first: 5 files became 2\nsweep=second: 3 files became 1\n"
        assert command.main(["compact", str(folder)]) == 0
        assert capsys.readouterr().out == "sweep=first: nothing to do\n"

    def test_a_folder_without_sweeps(self, tmp_path, capsys):
        assert command.main(["compact", str(tmp_path)]) == 2
        assert capsys.readouterr().err == f"error: no sweep in {tmp_path}\n"

    def test_one_that_cannot_be_compacted_makes_the_exit_code_1(self, folder, tmp_path, capsys):
        store.write(tmp_path, row(sweep_id="second"))
        with compaction.FileLock(folder / compaction.LOCK):
            assert command.main(["compact", str(tmp_path / "runs")]) == 1
        shown = capsys.readouterr()
        assert shown.out == "sweep=second: nothing to do\n"
        assert "is running" in shown.err
