"""What an entry says and writes."""

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


class TestRun:
    def test_an_entry_ends_its_process_with_its_exit_code(self):
        """What it makes has no cycles to look for."""
        code = "import gc; from src import console; console.run(lambda: 3 if gc.isenabled() else 4)"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 4)


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
