"""What an entry says and writes."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from src import console

ROOT = Path(__file__).parents[1]


class TestWrite:
    def test_makes_the_folder_and_the_files_with_their_bytes(self, tmp_path):
        """And nothing else beside them."""
        console.write(tmp_path / "a" / "b", {"x.csv": b"1\n", "y.md": "µ".encode()})
        assert {p.name: p.read_bytes() for p in (tmp_path / "a" / "b").iterdir()} == {
            "x.csv": b"1\n",
            "y.md": b"\xc2\xb5",
        }

    def test_a_file_that_cannot_be_put_in_place_leaves_the_old_one(self, tmp_path, monkeypatch):
        """Whole or not at all."""
        (tmp_path / "x.csv").write_bytes(b"old")

        def full(self, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            console.write(tmp_path, {"x.csv": b"new"})
        assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.csv", b"old")]

    def test_what_is_no_file_is_written_to_and_not_replaced(self, tmp_path):
        """A pipe stays a pipe, as a device must stay a device."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        console.write(tmp_path, {"pipe": b"read"})
        assert os.read(reader, 10) == b"read"
        os.close(reader)
        assert pipe.is_fifo()

    def test_a_link_stays_one(self, tmp_path):
        """What it leads to is written."""
        (tmp_path / "there").mkdir()
        (tmp_path / "x.csv").symlink_to(tmp_path / "there" / "real.csv")
        console.write(tmp_path, {"x.csv": b"1"})
        assert (tmp_path / "x.csv").is_symlink()
        assert (tmp_path / "there" / "real.csv").read_bytes() == b"1"


class TestRun:
    def test_the_collector_of_cycles_rests_meanwhile(self):
        """What an entry makes has none to look for; a program that calls it has its own back."""
        assert gc.isenabled()
        assert console.run(lambda: 3 if gc.isenabled() else 4) == 4
        assert gc.isenabled()

    def test_ctrl_c_ends_in_one_line(self, capsys):
        """With the exit code that a shell gives it."""

        def interrupted():
            raise KeyboardInterrupt

        assert console.run(interrupted) == 130
        assert capsys.readouterr().err == "interrupted\n"

    def test_otherwise_the_exit_code_is_that_of_the_entry(self):
        """Whatever it is."""
        assert console.run(lambda: 2) == 2


class TestTelling:
    def test_unreadable_files_are_named_and_make_the_exit_code_1(self, capsys):
        """Those that could be read are summarised all the same."""
        assert console.tell_unreadable({}) == 0
        assert console.tell_unreadable({Path("a.parquet"): "not Parquet"}) == 1
        assert capsys.readouterr() == ("", "skipped a.parquet: not Parquet\n")

    def test_what_could_steer_a_terminal_is_written_as_an_escape(self, capsys):
        """A name of a file is anyone's; lines of a message stay lines."""
        console.tell_unreadable({Path("a\x1b[2J\r\u202eb\udcff.parquet"): "not\x07 Parquet"})
        console.refuse("no sweep \x1b]0;x\nthere are: b")
        assert capsys.readouterr().err == (
            "skipped a\\x1b[2J\\r\\u202eb\\udcff.parquet: not\\x07 Parquet\n"
            "error: no sweep \\x1b]0;x\nthere are: b\n"
        )

    def test_a_refusal_is_one_line_on_stderr_and_exit_code_2(self, capsys):
        """Without a traceback."""
        assert console.refuse("x must be y: got z") == 2
        assert capsys.readouterr() == ("", "error: x must be y: got z\n")


class TestSay:
    def run(self, shell, **environment):
        return subprocess.run(
            ["bash", "-c", shell],
            cwd=ROOT,
            capture_output=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", **environment},
        )

    def test_a_reader_that_has_enough_is_no_error(self):
        """More than a pipe holds, so that the writer meets the closed end."""
        code = "from src import console; console.say('x\\n' * 100000)"
        done = self.run(f'set -o pipefail; {sys.executable} -c "{code}" | head -1')
        assert (done.stdout, done.stderr, done.returncode) == (b"x\n", b"", 0)

    def test_what_the_output_cannot_take_is_written_as_an_escape(self):
        """A terminal of another encoding."""
        code = "from src import console; console.say('a\\u4e2d\\n'); console.tell(str(console.unicode()))"
        done = self.run(f'{sys.executable} -c "{code}"', PYTHONIOENCODING="latin-1")
        assert (done.stdout, done.stderr, done.returncode) == (b"a\\u4e2d\n", b"False\n", 0)

    def test_a_full_disk_is_told_in_one_line(self):
        """The device that is always full."""
        code = "from src import console; console.say('x')"
        done = self.run(f'{sys.executable} -c "{code}" > /dev/full')
        assert (done.stderr, done.returncode) == (
            b"error: cannot write the output: No space left on device\n",
            2,
        )

    def test_a_closed_output_is_no_error(self):
        """Nobody wants to hear it."""
        done = self.run(f"{sys.executable} -c \"from src import console; console.say('x')\" >&-")
        assert (done.stderr, done.returncode) == (b"", 0)
