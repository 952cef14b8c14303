"""What fails around the runs: disks, caches, and a user in a hurry. Each is told in words."""

import os
import signal
import subprocess
import time

import pytest

from tests.e2e.command import ENDLESS, QUICK, ROOT, Command, run
from tests.e2e.disk import fill, small_disk

pytestmark = pytest.mark.slow


class TestDisk:
    def test_one_that_fills_up_costs_no_finished_row(self, tmp_path):
        """It is told, nothing half is left, and once there is room the sweep goes on."""
        with small_disk(tmp_path / "disk", "32m") as disk:
            arguments = ("-m", *QUICK, "optimizer=sgd", "seed=range(6)")
            command = Command(disk, *arguments)
            command.wait_for_files("runs/*/*.parquet", 2)
            ballast = fill(disk)
            done = command.end()
            assert done.code == 1
            assert "No space left on device" in done.out + done.err
            finished = done.rows()
            assert 2 <= len(finished) < 6
            assert set(finished["status"]) <= {"ok", "failed"}
            assert not list((disk / "out").glob("runs/*/.*.tmp"))
            assert done.leaves_no_process()
            ballast.unlink()
            again = run(disk, *arguments, "resume=latest")
            assert (again.code, again.err) == (0, "")
            rows = again.rows()
            assert list(rows["status"]) == ["ok"] * 6
            assert set(finished.loc[finished["status"] == "ok", "started_at"]) <= set(rows["started_at"])

    def test_one_that_is_read_only_is_told_before_anything_starts(self, tmp_path):
        with small_disk(tmp_path / "disk", "4m") as disk:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            done = run(tmp_path, *QUICK, output_dir=disk / "out")
            told = f"error: output_dir cannot be written: {disk}/out: Read-only file system\n"
            assert (done.code, done.out, done.err) == (2, "", told)

    def test_a_cache_that_cannot_be_written_is_the_reason_of_a_run(self, tmp_path):
        """The row is written all the same."""
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "cache").write_text("")
        done = run(tmp_path, *QUICK, "optimizer=sgd")
        (row,) = done.rows().to_dict("records")
        assert (done.code, row["status"], row["stage"]) == (1, "failed", "cache")
        assert row["reason"].startswith("compile cache: ")
        assert "Not a directory" in row["reason"]


class TestTwice:
    def test_a_second_ctrl_c_ends_everything_at_once(self, tmp_path):
        """Also where cleaning up takes long, here for ever; finished rows stay, no process does."""
        slow = tmp_path / "slow"
        slow.mkdir()
        (slow / "sitecustomize.py").write_text(
            "import sys, threading\n"
            "def wait(*_, **__):\n"
            f"    open({str(tmp_path / 'cleaning')!r}, 'w').close()\n"
            "    threading.Event().wait()\n"
            "if any('src.run' in a for a in sys.orig_argv):\n"
            "    from src.sweep import caches\n"
            "    caches.remove_sweep = wait\n"
        )
        path = f"{slow}:{os.environ.get('PYTHONPATH', '')}:{ROOT}"
        command = Command(tmp_path, "-m", *QUICK, "optimizer=sgd", *ENDLESS, python_path=path)
        command.wait_for_files("logs/*/1/run.log")
        os.killpg(command.process.pid, signal.SIGINT)
        deadline = time.monotonic() + 60
        while not (tmp_path / "cleaning").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.6)  # sooner it would be the first signal once more
        os.killpg(command.process.pid, signal.SIGINT)
        done = command.end()
        assert done.code == 130
        assert done.err.startswith("ended at once: finished rows are kept")
        assert "Traceback" not in done.err
        assert list(done.rows()["status"]) == ["ok", "interrupted"]
        assert done.leaves_no_process()
