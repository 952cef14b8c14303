"""`python -m src.aggregate`, mostly without a process."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from src import aggregate, paths, store
from tests.rows import START, bad, explained, row, traced

ROOT = Path(__file__).parents[1]


@pytest.fixture
def runs(tmp_path):
    """Return a runs folder with two sweeps; one run of the newer one failed."""
    store.write(tmp_path, row(sweep_id="old"))
    later = START + timedelta(days=1)
    store.write(tmp_path, row(sweep_id="new", started_at=later))
    store.write(tmp_path, bad("failed", "OOM", sweep_id="new", job=1, started_at=later, optimizer="sgd"))
    return tmp_path / "runs"


def run_module(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "src.aggregate", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


class TestMain:
    def test_prints_the_newest_sweep_and_writes_its_files(self, runs, capsys):
        """A failed run inside is part of the table, not of the exit code."""
        assert aggregate.main([str(runs)]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("Sweep new\n")
        assert "2 runs: 1 ok, 1 failed." in shown.out
        folder = runs.parent / "summaries" / "new"
        assert sorted(os.listdir(folder)) == [
            f"summary.{end}" for end in ("csv", "html", "md", "parquet", "tex")
        ]
        assert f"wrote {folder}" in shown.err

    def test_the_files_agree(self, runs, capsys):
        """Parquet and CSV have a line for each cell."""
        aggregate.main([str(runs)])
        capsys.readouterr()
        folder = runs.parent / "summaries" / "new"
        frame, table = pd.read_parquet(folder / "summary.parquet"), pd.read_csv(folder / "summary.csv")
        assert list(frame["optimizer"]) == list(table["optimizer"]) == ["adam", "sgd"]

    def test_the_default_path_is_the_output_folder(self, runs, capsys, monkeypatch):
        """Without PATH the project's own runs are read."""
        monkeypatch.setattr(paths, "output_dir", lambda: runs.parent)
        assert aggregate.main([]) == 0
        assert "Sweep new" in capsys.readouterr().out

    def test_all_and_sweep_and_where(self, runs, capsys):
        """The options choose rows, and --all has a folder of its own."""
        assert aggregate.main([str(runs), "--all"]) == 0
        assert "3 runs" in capsys.readouterr().out
        assert (runs.parent / "summaries" / "all" / "summary.md").exists()
        assert aggregate.main([str(runs), "--sweep", "old"]) == 0
        assert "Sweep old" in capsys.readouterr().out
        assert aggregate.main([str(runs), "--where", "optimizer=adam"]) == 0
        assert "Only rows with optimizer=adam." in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("kind", "start"),
        [
            ("text", "Sweep new"),
            ("markdown", "## Sweep new"),
            ("latex", "% needs"),
            ("csv", '"model","model_args","width"'),
            ("html", "<!DOCTYPE html>"),
        ],
    )
    def test_formats(self, runs, capsys, kind, start):
        """What is printed is what the option says."""
        assert aggregate.main([str(runs), "--format", kind]) == 0
        assert capsys.readouterr().out.startswith(start)

    @pytest.mark.parametrize(
        ("kind", "start"),
        [
            ("text", "Recompiles: "),
            ("markdown", "## Recompiles: "),
            ("latex", "% needs"),
            ("csv", "combination,"),
        ],
    )
    def test_matrix(self, tmp_path, capsys, kind, start):
        """It is printed instead of the table, and written beside it."""
        store.write(tmp_path, traced())
        store.write(tmp_path, traced(optimizer="sgd", scheduler="linear", recompiles=4, job=1))
        assert aggregate.main([str(tmp_path / "runs"), "--matrix", "recompiles", "--format", kind]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(start)
        assert shown.err.endswith(
            "summary.parquet, .csv, .md, .tex, .html and recompiles.csv, .md, .tex, .html\n"
        )
        written = os.listdir(tmp_path / "summaries" / "first")
        assert {"recompiles.csv", "recompiles.md", "recompiles.tex", "recompiles.html"} <= set(written)

    @pytest.mark.parametrize(
        ("kind", "start"),
        [
            ("text", "Why: "),
            ("markdown", "## Why: "),
            ("latex", "% needs"),
            ("csv", '"model","model_args","width"'),
        ],
    )
    def test_why(self, tmp_path, capsys, kind, start):
        """It is printed instead of the table, and written beside it."""
        store.write(tmp_path, row(**explained("eager", 240.0, device_us=90.0)))
        assert aggregate.main([str(tmp_path / "runs"), "--why", "--format", kind]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(start)
        assert shown.err.endswith("summary.parquet, .csv, .md, .tex, .html and why.csv, .md, .tex, .html\n")
        frame = pd.read_csv(tmp_path / "summaries" / "first" / "why.csv")
        assert list(frame["arm"]) == ["eager", "compiled"]
        assert {"why.md", "why.tex", "summary.csv"} <= set(os.listdir(tmp_path / "summaries" / "first"))

    @pytest.mark.parametrize(
        ("kind", "start"),
        [
            ("text", "Mine (sweep one)\n"),
            ("markdown", "## Mine (sweep one)\n"),
            ("latex", "% needs"),
            ("csv", "optimizer,content,unit,value,low,high"),
            ("html", "<!DOCTYPE html>"),
        ],
    )
    def test_table(self, tmp_path, capsys, kind, start):
        """It is printed instead of the summary of the same rows, and written beside it."""
        store.write(tmp_path, row(sweep_id="one", experiment="mine"))
        store.write(tmp_path, row(sweep_id="two", started_at=START + timedelta(days=1)))
        layout = {"rows": "optimizer", "cells": ["eager_us", "speedup"], "where": "optimizer=adam"}
        file = tmp_path / "mine.yaml"
        file.write_text(json.dumps({"experiment": {"name": "mine", "title": "Mine", "table": layout}}))
        assert aggregate.main([str(tmp_path / "runs"), "--table", str(file), "--format", kind]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(start)
        assert shown.err.endswith(
            "summary.parquet, .csv, .md, .tex, .html and mine-table.csv, .md, .tex, .html\n"
        )
        folder = tmp_path / "summaries" / "one"
        assert pd.read_csv(folder / "mine-table.csv")["value"].tolist() == [240.0, 2.0]
        assert "Only rows with optimizer=adam." in (folder / "mine-table.md").read_text()
        assert list(pd.read_parquet(folder / "summary.parquet")["eager_us"]) == [240.0]

    def test_a_name_of_an_experiment_does_not_lead_out_of_the_folder(self, tmp_path, capsys):
        """Names in files are data."""
        store.write(tmp_path, row(experiment="../../x"))
        file = tmp_path / "mine.yaml"
        file.write_text(json.dumps({"experiment": {"name": "../../x", "table": {"cells": "eager_us"}}}))
        assert aggregate.main([str(tmp_path / "runs"), "--table", str(file)]) == 0
        capsys.readouterr()
        assert [p.parent for p in tmp_path.rglob("*-table.md")] == [tmp_path / "summaries" / "first"]

    def test_figure(self, tmp_path, capsys):
        """It is written beside the table, which is printed as ever."""
        store.write(tmp_path, row())
        store.write(tmp_path, row(job=1, model="tiny", width=8, depth=2, parameters=128, tensors=2))
        assert aggregate.main([str(tmp_path / "runs"), "--figure", "model_sizes"]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("Sweep first")
        assert shown.err.endswith("summary.parquet, .csv, .md, .tex, .html and model_sizes.png, .svg, .pdf\n")
        written = set(os.listdir(tmp_path / "summaries" / "first"))
        assert {"model_sizes.png", "model_sizes.svg", "model_sizes.pdf", "summary.csv"} <= written

    def test_a_row_of_schema_version_1_meets_the_condition_that_it_was_measured_under(self, tmp_path, capsys):
        """It lacks the column, not the value."""
        store.write(tmp_path, row(param_groups=None, schema_version=1))
        assert aggregate.main([str(tmp_path / "runs"), "--where", "param_groups=one"]) == 0
        assert "1 run: 1 ok." in capsys.readouterr().out

    def test_out_is_the_folder_of_the_files(self, runs, tmp_path, capsys):
        """Folders are made as needed."""
        assert aggregate.main([str(runs), "--out", str(tmp_path / "a" / "b")]) == 0
        capsys.readouterr()
        assert (tmp_path / "a" / "b" / "summary.tex").exists()

    def test_a_sweep_name_from_a_file_does_not_lead_out_of_the_folder(self, tmp_path, capsys):
        """Names in files are data."""
        path = store.write(tmp_path, row(sweep_id="x"))
        table, _ = store.read([path])
        rows = table.to_pylist()
        rows[0]["sweep_id"] = "../../escaped"
        pd.DataFrame(rows).to_parquet(path)
        assert aggregate.main([str(tmp_path / "runs")]) == 0
        capsys.readouterr()
        assert [p.parent for p in tmp_path.rglob("summary.md")] == [tmp_path / "summaries" / "_.._escaped"]


class TestErrors:
    @pytest.mark.parametrize(
        "options",
        [
            ["--matrix", "recompiles"],
            ["--why"],
            ["--figure", "model_sizes"],
            ["--where", "optimzer=adam"],
            ["--where", "optimizer=lion"],
            ["--sweep", "none"],
            ["--where", "x"],
            ["--table", "compiling_optimizr"],
            ["--table", "compiling_optimizer"],
            ["--table", "no/such.yaml"],
        ],
    )
    def test_a_mistake_is_one_or_two_lines_and_exit_2(self, runs, capsys, options):
        """No traceback for the user's own mistake, and nothing printed as a result."""
        assert aggregate.main([str(runs), *options]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("error: ")
        assert shown.err.count("\n") <= 2

    def test_no_such_path(self, tmp_path, capsys):
        """The message has the path and what makes one."""
        assert aggregate.main([str(tmp_path / "nowhere")]) == 2
        assert "python -m src.run -m" in capsys.readouterr().err

    def test_a_corrupt_file_is_named_and_the_rest_summarised(self, runs, capsys):
        """Exit 1: there is a result, but not of everything."""
        (runs / "sweep=new" / "bad.parquet").write_bytes(b"x")
        assert aggregate.main([str(runs)]) == 1
        shown = capsys.readouterr()
        assert "Sweep new" in shown.out
        assert "bad.parquet: " in shown.err

    def test_a_table_that_refuses_mixed_cells(self, tmp_path, capsys):
        """Instead of one number of two versions."""
        for job, version in enumerate(("2.12", "2.13")):
            store.write(tmp_path, row(job=job, torch_version=version))
        file = tmp_path / "mine.yaml"
        file.write_text(json.dumps({"experiment": {"table": {"cells": "eager_us", "mixed": "refuse"}}}))
        assert aggregate.main([str(tmp_path / "runs"), "--table", str(file)]) == 2
        assert "differ in torch: 2.12; 2.13" in capsys.readouterr().err

    def test_only_corrupt_files(self, tmp_path, capsys):
        """Nothing to summarise is exit 2, with the reason."""
        (tmp_path / "bad.parquet").write_bytes(b"x")
        assert aggregate.main([str(tmp_path)]) == 2
        assert "bad.parquet" in capsys.readouterr().err

    def test_a_folder_that_cannot_be_written(self, runs, tmp_path, capsys):
        """One line with the folder and the reason."""
        (tmp_path / "file").write_text("")
        assert aggregate.main([str(runs), "--out", str(tmp_path / "file" / "sub")]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith(f"error: cannot write {tmp_path / 'file' / 'sub'}: ")
        assert shown.count("\n") == 1

    def test_a_full_disk_leaves_no_half_file(self, runs, tmp_path, capsys, monkeypatch):
        """Each file appears whole or not at all."""

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        assert aggregate.main([str(runs), "--out", str(tmp_path / "out")]) == 2
        assert "No space left" in capsys.readouterr().err
        assert list((tmp_path / "out").iterdir()) == []


class TestProcess:
    def test_loads_neither_torch_nor_hydra(self, runs, tmp_path):
        """Offline analysis starts at once and works where torch is not installed."""
        script = (
            "import sys; from src import aggregate; "
            f"code = aggregate.main([{str(runs)!r}, '--out', {str(tmp_path / 'out')!r}]); "
            "bad = {'torch', 'hydra', 'omegaconf', 'vl_convert', 'altair'} & set(sys.modules); "
            "sys.exit(f'loaded {bad}' if bad else code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.startswith("wrote")) == (0, True), done.stderr

    def test_help_has_examples(self):
        """`--help` shows how it is used."""
        done = run_module("--help")
        assert done.returncode == 0
        assert "--where optimizer=adam,sgd" in done.stdout

    def test_a_terminal_without_unicode_gets_ascii(self, runs):
        """No crash and no replacement characters."""
        done = run_module(runs, PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stdout.isascii()) == (0, True)

    def test_a_closed_pipe_is_no_error(self, runs):
        """`| head` has enough after a line."""
        process = subprocess.Popen(
            [sys.executable, "-m", "src.aggregate", str(runs)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            process.stdout.close()
            errors = process.stderr.read()
        assert "Traceback" not in errors
        assert "BrokenPipe" not in errors
        assert process.returncode == 0
