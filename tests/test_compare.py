"""`python -m src.compare`, mostly without a process."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import compare, record, store
from tests.rows import START, bad, row, times, traced

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
LATER = {"sweep_id": "second", "torch_version": "2.14.0", "started_at": START + timedelta(days=1)}


def write(folder, *rows):
    for each in rows:
        store.write(folder, each)
    return folder / "runs"


@pytest.fixture
def base(tmp_path):
    """Return runs of one sweep: two cells, one with recompiles."""
    return write(tmp_path / "base", row(**narrow(2.0)), row(job=1, optimizer="sgd", **narrow(1.5)))


@pytest.fixture
def new(tmp_path):
    """Return runs of the next torch: adam is 10 % worse and recompiles, sgd failed."""
    worse = row(**narrow(1.8), **LATER, recompiles=4)
    return write(tmp_path / "new", worse, bad("failed", "OOM", job=1, optimizer="sgd", **LATER))


def narrow(speedup):
    return times(240.0, 240.0 / speedup, 0.006)


def ran(*arguments):
    return compare.main([str(argument) for argument in arguments])


class TestMain:
    def test_prints_the_newest_sweeps_and_writes_nothing(self, base, new, capsys):
        """A regression alone does not change the exit code."""
        before = sorted(base.parents[1].rglob("*"))
        assert ran(base, new) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("Change of speedup: sweep first -> sweep second\n")
        assert "Verdicts: 1 regression, 1 untested." in shown.out
        assert shown.err == ""
        assert sorted(base.parents[1].rglob("*")) == before

    def test_out_gets_a_file_of_each_kind_and_they_agree(self, base, new, tmp_path, capsys):
        """Parquet and CSV have a line for each cell."""
        out = tmp_path / "a" / "b"
        assert ran(base, new, "--out", out) == 0
        assert capsys.readouterr().err == f"wrote {out}/comparison.csv, .md, .tex, .html and .parquet\n"
        assert sorted(os.listdir(out)) == [
            f"comparison.{end}" for end in ("csv", "html", "md", "parquet", "tex")
        ]
        frame, table = pd.read_parquet(out / "comparison.parquet"), pd.read_csv(out / "comparison.csv")
        assert list(frame["verdict"]) == list(table["verdict"]) == ["regression", "untested"]

    @pytest.mark.parametrize(
        ("kind", "start"),
        [
            ("text", "Change of"),
            ("markdown", "## Change of"),
            ("latex", "% needs"),
            ("csv", '"cell","metric"'),
            ("html", "<!DOCTYPE html>"),
        ],
    )
    def test_formats(self, base, new, capsys, kind, start):
        """What is printed is what the option says."""
        assert ran(base, new, "--format", kind) == 0
        assert capsys.readouterr().out.startswith(start)

    def test_sweeps_of_one_folder_by_their_names(self, tmp_path, capsys):
        """One folder has both."""
        runs = write(tmp_path, row(**narrow(2.0)), row(**narrow(2.2), **LATER))
        assert ran(runs, runs, "--base-sweep", "first", "--new-sweep", "second") == 0
        assert "1 improvement" in capsys.readouterr().out
        assert ran(runs, runs) == 0
        assert "1 no change" in capsys.readouterr().out
        assert (
            ran(runs, runs, "--all", "--base-where", "sweep_id=first", "--new-where", "sweep_id=second") == 0
        )
        shown = capsys.readouterr().out
        assert "1 improvement" in shown
        assert "Only rows with base: sweep_id=first, new: sweep_id=second." in shown

    def test_where_applies_to_both(self, base, new, capsys):
        """And says so."""
        assert ran(base, new, "--where", "optimizer=adam") == 0
        shown = capsys.readouterr().out
        assert "1 cell on both sides." in shown
        assert "Only rows with optimizer=adam." in shown

    def test_ignore_matches_cells_that_differ(self, base, capsys):
        """Two cells of one sweep against each other."""
        chosen = ("--base-where", "optimizer=adam", "--new-where", "optimizer=sgd")
        assert ran(base, base, *chosen, "--ignore", "optimizer") == 0
        shown = capsys.readouterr().out
        assert "Differs: optimizer adam -> sgd." in shown
        assert "-25.0 %" in shown

    def test_metric_and_min_effect(self, base, new, capsys):
        """Absolute times of another process, and a least effect of one's own."""
        assert ran(base, new, "--metric", "compiled_us") == 0
        assert "Times of different processes" in capsys.readouterr().out
        assert ran(base, new, "--min-effect", "0.2") == 0
        assert "min_effect (20 %)" in capsys.readouterr().out


class TestFailOn:
    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            (["regression"], 1),
            (["regression:5%"], 1),
            (["regression:20%"], 0),
            (["recompiles"], 1),
            (["failed"], 1),
            (["vanished"], 0),
            (["vanished", "regression:20%", "failed"], 1),
        ],
    )
    def test_the_exit_code_follows_the_conditions(self, base, new, capsys, asked, code):
        """What was met is said on stderr, after the comparison."""
        options = [part for each in asked for part in ("--fail-on", each)]
        assert ran(base, new, *options) == code
        shown = capsys.readouterr()
        assert ("failed on " in shown.err) == bool(code)
        assert shown.out.startswith("Change of speedup")

    def test_the_message_names_the_cells(self, base, new, capsys):
        """For the log of a CI."""
        ran(base, new, "--fail-on", "regression:5%", "--fail-on", "failed")
        told = capsys.readouterr().err.splitlines()
        assert told == ["failed on regression beyond 5 % in 1: adam", "failed on failed in 1: sgd"]

    def test_a_better_new_side_passes_all(self, base, capsys):
        """The same rows, with all conditions."""
        options = [
            part
            for each in ("regression", "recompiles", "failed", "vanished")
            for part in ("--fail-on", each)
        ]
        assert ran(base, base, *options) == 0
        assert capsys.readouterr().err == ""


class TestErrors:
    @pytest.mark.parametrize(
        "options",
        [
            ["--where", "optimzer=adam"],
            ["--base-where", "optimizer=lion"],
            ["--new-sweep", "none"],
            ["--ignore", "optimzer"],
            ["--ignore", "optimizer"],
            ["--fail-on", "regresion"],
            ["--fail-on", "regression:5"],
        ],
    )
    def test_a_mistake_is_one_or_two_lines_and_exit_2(self, base, new, capsys, options):
        """No traceback for the user's own mistake, and nothing printed as a result."""
        assert ran(base, new, *options) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("error: ")
        assert shown.err.count("\n") <= 2

    @pytest.mark.parametrize("effect", ["-0.1", "nan", "inf", "x"])
    def test_an_effect_that_is_none(self, base, new, capsys, effect):
        """argparse says so, with the same exit code."""
        with pytest.raises(SystemExit) as ended:
            ran(base, new, f"--min-effect={effect}")
        assert ended.value.code == 2
        assert "--min-effect" in capsys.readouterr().err

    def test_the_side_that_is_wrong_is_named(self, base, tmp_path, capsys):
        """Two paths, one message."""
        assert ran(base, tmp_path / "nowhere") == 2
        assert capsys.readouterr().err.startswith("error: NEW: no such file or folder")

    def test_no_common_cell_is_a_mistake_that_is_explained(self, base, tmp_path, capsys):
        """What there is on either side is printed all the same."""
        other = write(tmp_path / "other", row(compile_mode="max-autotune"))
        assert ran(base, other) == 2
        shown = capsys.readouterr()
        assert (
            "No cell is on both sides. Base: adam, default; sgd, default. New: adam, max-autotune."
            in " ".join(shown.out.split())
        )
        assert (
            shown.err == "error: no cell is on both sides; cells would match with --ignore compile_mode (1)\n"
        )

    def test_a_corrupt_file_is_named_and_the_rest_compared(self, base, new, capsys):
        """Exit 1: there is a result, but not of everything."""
        (new / "sweep=second" / "bad.parquet").write_bytes(b"x")
        assert ran(base, new) == 1
        shown = capsys.readouterr()
        assert "1 regression" in shown.out
        assert "skipped " in shown.err
        assert "bad.parquet" in shown.err

    def test_a_folder_that_cannot_be_written(self, base, new, tmp_path, capsys):
        """One line with the folder and the reason."""
        (tmp_path / "file").write_text("")
        assert ran(base, new, "--out", tmp_path / "file" / "sub") == 2
        assert capsys.readouterr().err.startswith(f"error: cannot write {tmp_path / 'file' / 'sub'}: ")


class TestCommittedRows:
    def test_an_older_schema_matches_a_newer_one(self, capsys):
        """Arguments that only the later one records do not stand in the way."""
        assert ran(RESULTS / "h200_modes.parquet", RESULTS / "h200_adam_sizes.parquet") == 0
        shown = capsys.readouterr().out
        assert "9 cells on both sides, 15 in the base alone." in shown
        assert "optimizer_args.differentiable unknown -> false" in shown
        assert "schema_version 1 -> 3" in shown
        assert "Verdicts: 9 no change." in shown

    @pytest.mark.parametrize("metric", ["speedup", "eager_us", "compiled_us"])
    @pytest.mark.parametrize(("name", "model"), [("h200", "tutorial"), ("cpu", "tutorial"), ("cpu", "small")])
    def test_halves_of_twenty_runs_of_two_equal_arms_are_equal(self, capsys, name, model, metric):
        """The H200's first ten runs had a host of several speeds, the last ten one that ran steadily."""
        file = RESULTS / f"{name}_two_eager_arms.parquet"
        halves = [",".join(map(str, seeds)) for seeds in (range(10), range(10, 20))]
        sides = ("--base-where", f"seed={halves[0]}", "--new-where", f"seed={halves[1]}")
        assert ran(file, file, *sides, "--where", f"model={model}", "--metric", metric) == 0
        assert "Verdicts: 1 no change." in capsys.readouterr().out

    def test_a_gpu_against_a_cpu(self, capsys):
        """Recompiles on two devices and two torches, most of which differ."""
        files = (RESULTS / "h200_recompiles.parquet", RESULTS / "cpu_recompiles.parquet")
        assert ran(*files, "--fail-on", "recompiles") == 0
        shown = capsys.readouterr().out
        assert "70 cells on both sides" in shown
        assert "device cuda -> cpu" in shown


class TestScale:
    def test_no_file_is_opened_twice(self, base, new, capsys, monkeypatch):
        """Each file of either side is read once."""
        opened = []
        whole = pq.ParquetFile

        def counting(path, *arguments, **options):
            opened.append(path)
            return whole(path, *arguments, **options)

        monkeypatch.setattr(pq, "ParquetFile", counting)
        assert ran(base, new) == 0
        assert len(opened) == len(set(opened))

    def test_many_cells_alone_are_told_in_few_lines(self, tmp_path, capsys):
        """Three hundred vanished cells do not scroll the verdicts away."""
        rows = [traced(width=n) for n in range(301)]
        for name, part in (("base", rows), ("new", rows[:1])):
            table = pa.concat_tables([record.to_table(each) for each in part])
            pq.write_table(table, tmp_path / f"{name}.parquet")
        assert ran(tmp_path / "base.parquet", tmp_path / "new.parquet") == 0
        shown = capsys.readouterr().out
        assert "and 295 more" in shown
        assert len(shown.splitlines()) < 25


class TestProcess:
    def test_loads_neither_torch_nor_hydra(self, base, new):
        """Offline analysis works where torch is not installed."""
        script = (
            "import sys; from src import compare; "
            f"code = compare.main([{str(base)!r}, {str(new)!r}]); "
            "bad = {'torch', 'hydra', 'omegaconf'} & set(sys.modules); "
            "sys.exit(f'loaded {bad}' if bad else code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_help_has_examples(self):
        """`--help` shows how it is used."""
        done = subprocess.run(
            [sys.executable, "-m", "src.compare", "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        assert "--fail-on regression:5%" in done.stdout
