"""`python -m src.report`, mostly without a process."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from src import report, store
from tests.rows import START, row

ROOT = Path(__file__).parents[1]


@pytest.fixture
def runs(tmp_path):
    earlier = row(sweep_id="second", started_at=START - timedelta(days=1))
    for each in (row(), row(job=1, optimizer="sgd"), earlier):
        store.write(tmp_path, each)
    return tmp_path / "runs"


class TestMain:
    def test_the_page_lies_beside_the_summary_unless_told(self, runs, capsys):
        """Of the newest sweep."""
        assert report.main([str(runs)]) == 0
        page = runs.parent / "summaries" / "first" / "report.html"
        assert page.read_text().startswith("<!DOCTYPE html>")
        assert capsys.readouterr().err == f"wrote {page}\n"

    def test_it_goes_where_it_is_told(self, runs, tmp_path):
        """The folder is made."""
        assert report.main([str(runs), "--all", "-o", str(tmp_path / "a" / "b.html")]) == 0
        assert "2 sweeps" in (tmp_path / "a" / "b.html").read_text()

    def test_figures_are_written_as_png_svg_and_pdf(self, runs, tmp_path, capsys):
        """Each chart that the page shows."""
        out, figures = tmp_path / "r.html", tmp_path / "figures"
        assert report.main([str(runs), "-o", str(out), "--figures", str(figures)]) == 0
        ends = {path.suffix for path in figures.iterdir()}
        assert ends == {".png", ".svg", ".pdf"}
        assert f"{len(list(figures.iterdir()))} figures in {figures}" in capsys.readouterr().err
        assert {path.stem for path in figures.iterdir()} >= {"speedups", "times"}

    def test_conditions_choose_the_rows(self, runs, tmp_path):
        """As for aggregate."""
        assert report.main([str(runs), "--where", "optimizer=sgd", "-o", str(tmp_path / "r.html")]) == 0
        assert "Only rows with optimizer=sgd." in (tmp_path / "r.html").read_text()

    def test_an_unreadable_file_is_named_and_the_rest_reported(self, runs, tmp_path, capsys):
        """Exit code 1."""
        (runs / "sweep=first" / "broken.parquet").write_text("no parquet")
        assert report.main([str(runs), "-o", str(tmp_path / "r.html")]) == 1
        assert "skipped" in capsys.readouterr().err
        assert (tmp_path / "r.html").exists()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["nowhere"], "no such file or folder: nowhere"),
            (["{runs}", "--where", "optimiser=adam"], "there is no column 'optimiser', some are: optimizer"),
            (["{runs}", "-o", "{runs}"], "-o must be a file: "),
        ],
    )
    def test_mistakes_are_told_without_a_traceback(self, runs, capsys, arguments, said):
        """Exit code 2."""
        assert report.main([argument.format(runs=runs) for argument in arguments]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith("error: ")
        assert said in shown

    def test_a_page_that_cannot_be_written_is_told(self, runs, tmp_path, capsys):
        """A file where a folder is needed."""
        (tmp_path / "file").write_text("")
        assert report.main([str(runs), "-o", str(tmp_path / "file" / "r.html")]) == 2
        assert "cannot write" in capsys.readouterr().err


def test_it_works_as_a_command(runs, tmp_path):
    """In a process of its own."""
    command = [sys.executable, "-m", "src.report", str(runs), "-o", str(tmp_path / "r.html"), "--no-charts"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {tmp_path / 'r.html'}\n")
