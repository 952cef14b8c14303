"""What must hold of many rows, in counts: nothing is read or done that need not be, and nothing twice."""

import os
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import aggregate, compare, record, store, vocabulary
from src.analysis import changes_document, changes_table, explanation
from src.analysis.cells import ROW_COLUMNS
from src.analysis.changes import compare as compare_rows
from src.analysis.changes_estimates import METRICS
from src.analysis.charts import charts_of
from src.analysis.contents import CONTENTS
from src.analysis.cut import cut
from src.analysis.grid import document_of
from src.analysis.numbers import to_table
from src.analysis.page import page_of
from src.analysis.rows import Rows
from src.analysis.selection import SelectionError, condition, select
from src.analysis.summary import summarize
from tests import synthetic


@pytest.fixture
def opened(monkeypatch):
    """Return how often each file is opened and which columns are read, as it happens."""
    files, columns = Counter(), []

    class Spy(pq.ParquetFile):
        def __init__(self, source, **options):
            files[os.path.basename(source)] += 1
            super().__init__(source, **options)

        def read(self, columns=None, **options):
            seen.append(columns)
            return super().read(columns=columns, **options)

    seen = columns
    monkeypatch.setattr(pq, "ParquetFile", Spy)
    return files, columns


class TestReading:
    def test_every_file_is_opened_once_and_no_list_of_times_is_read(self, tmp_path, opened, capsys):
        """Block lists are most of what a file has."""
        written = synthetic.write(tmp_path, synthetic.rows(1500), 500)
        assert aggregate.main(["--all", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
        capsys.readouterr()
        files, columns = opened
        assert files == {path.name: 1 for path in written}
        lists = {c.name for c in record.COLUMNS if c.type in (pa.list_(pa.float64()), pa.list_(pa.int64()))}
        assert {"eager_block_us", "compiled_block_us", "process_speedup", "lr_trajectory"} <= lists
        assert [len(names) for names in columns] == [len(ROW_COLUMNS)] * len(written)
        assert set().union(*columns) & lists == set()

    def test_a_table_of_an_experiment_opens_every_file_once(self, tmp_path, opened, capsys):
        """Whose sweeps they are, and what is in them, is read at once."""
        written = synthetic.write(tmp_path, synthetic.rows(1500, experiment="sizes"), 500)
        (tmp_path / "sizes.yaml").write_text(
            "experiment: {name: sizes, table: {rows: optimizer, columns: mode, cells: speedup}}\n"
        )
        table = ["--table", str(tmp_path / "sizes.yaml"), "--out", str(tmp_path / "out"), "--all"]
        aggregate.main([str(tmp_path / "runs"), *table])
        capsys.readouterr()
        assert opened[0] == {path.name: 1 for path in written}

    def test_files_of_other_sweeps_are_not_opened(self, tmp_path, opened):
        """Of three sweeps one: the newest, or the one that is named."""
        synthetic.write(tmp_path, synthetic.rows(2100), 500)
        files, _ = opened
        rows = select(tmp_path / "runs", sweep="20250101-000001").rows
        assert (len(rows), sorted(files)) == (1000, ["0000000003e8.parquet", "0000000005dc.parquet"])
        files.clear()
        assert len(select(tmp_path / "runs").rows) == 100
        assert sum(files.values()) == 4  # the newest file of each of three sweeps tells its start

    def test_one_configuration_is_kept_of_each_experiment_in_a_file(self, tmp_path):
        """All of them are as large as everything else, and one has the title and the published values."""
        table = synthetic.rows(1500, experiment="sizes")
        synthetic.write(tmp_path, table, 500)
        rows = select(tmp_path / "runs", everything=True).rows
        assert sum(row["config"] is not None for row in rows) == 3
        assert summarize(rows).title == "About sizes"

    def test_conditions_are_met_before_a_row_is_made(self, tmp_path):
        """Every row has them, also those of null."""
        table = synthetic.rows(3000)
        synthetic.write(tmp_path, table)
        frame = table.select(["optimizer", "torch_version", "lr_device"]).to_pandas()
        where = [condition("optimizer=sgd,adam"), condition("lr_device=null,cpu")]
        rows = select(tmp_path / "runs", everything=True, where=where).rows
        wanted = frame["optimizer"].isin(["sgd", "adam"]) & (frame["lr_device"] != "cuda")
        assert len(rows) == wanted.sum() > 0
        assert {row["lr_device"] for row in rows} == {None, "cpu"}

    def test_more_columns_can_be_asked_for(self, tmp_path):
        """By a chart that needs them."""
        synthetic.write(tmp_path, synthetic.rows(20))
        rows = select(tmp_path / "runs", columns=("eager_block_us", "status")).rows
        assert {len(row["eager_block_us"] or ()) for row in rows} <= {0, 24}
        assert "compiled_us" not in rows[0]


def calls_of(work):
    """Return how many Python functions are called in `work`."""
    calls = Counter()

    def count(_frame, event, _argument):
        calls[event] += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls["call"]


def copied(table, number):
    """Return the rows as of models of other names, so that the mix of cells is the same in all copies."""
    at = table.schema.get_field_index("model")
    names = pa.array([f"{name}{number}" for name in table.column("model").to_pylist()])
    return table.set_column(at, table.schema.field("model"), names)


class TestWork:
    @pytest.mark.parametrize(("seeds", "least"), [(1, 250), (5, 1000)])
    def test_twice_the_rows_are_twice_the_work(self, seeds, least):
        """Functions called for a summary, its words and its numbers; whatever is not linear shows."""
        rows = synthetic.rows(least, seeds=seeds, experiment="x")
        tables = [pa.concat_tables(map(copied, [rows] * n, range(n))) for n in (1, 2, 4)]

        def work(table):
            summary = summarize(Rows(table))
            to_table(summary)
            cut(document_of(summary), 100, "f")

        work(tables[0])  # what is only done once
        small, middle, large = (calls_of(lambda table=table: work(table)) for table in tables)
        assert middle - small == pytest.approx((large - middle) / 2, rel=0.02)

    def test_twice_the_cells_are_twice_the_work_of_a_page(self):
        """Its table, its charts and what it says of machines and failures."""
        rows = synthetic.rows(1000, seeds=1)
        tables = [pa.concat_tables(map(copied, [rows] * n, range(n))) for n in (1, 2, 4)]

        def work(table):
            summary = summarize(Rows(table))
            page_of(summary, Rows(table), charts_of(summary))

        work(tables[0])  # what is only done once
        small, middle, large = (calls_of(lambda table=table: work(table)) for table in tables)
        assert middle - small == pytest.approx((large - middle) / 2, rel=0.05)

    def test_twice_the_cells_are_twice_the_work_of_a_comparison(self):
        """Matching, testing and the numbers of every cell."""
        rows = synthetic.rows(500, torches=("2.13.0",)), synthetic.rows(500, torches=("2.13.1",), factor=1.1)
        tables = [[pa.concat_tables(map(copied, [side] * n, range(n))) for side in rows] for n in (1, 2, 4)]

        def work(sides):
            compared = compare_rows(*map(Rows, sides))
            changes_table.to_table(compared)
            changes_document.document_of(compared)

        work(tables[0])  # what is only done once
        small, middle, large = (calls_of(lambda sides=sides: work(sides)) for sides in tables)
        assert middle - small == pytest.approx((large - middle) / 2, rel=0.05)

    def test_a_comparison_has_the_cells_of_a_summary_and_nothing_else_of_it(self, monkeypatch):
        """Means over cells and lines beside what was published are for a table of one side."""
        made = []
        for name in ("geomeans_of", "published_lines"):
            monkeypatch.setattr(f"src.analysis.summary.{name}", lambda *_, name=name: made.append(name) or ())
        rows = Rows(synthetic.rows(20, seeds=1))
        compared = compare_rows(rows, rows)
        assert made == []
        assert (compared.base.geomeans, compared.base.published, len(made)) == ((), (), 2)

    def test_the_lines_that_a_comparison_does_not_show_are_not_made(self):
        """The traces are looked at in any case."""
        sides = [Rows(synthetic.rows(500, seeds=1, torches=(torch,))) for torch in ("2.13.0", "2.13.1")]
        compared = compare_rows(*sides)
        changes_document.document_of(compared)  # what is kept of each cell
        few, every = (
            calls_of(lambda most=most: changes_document.document_of(compared, (), most)) for most in (5, None)
        )
        assert 2 * few < every

    def test_one_number_that_explains_a_time_is_not_all_of_them(self):
        """A column of a table asks for one."""
        cells = summarize(Rows(synthetic.rows(500, seeds=1))).cells
        number = CONTENTS["compiled_attained"].number
        [number(cell) for cell in cells], [cell.why for cell in cells]  # what is only done once
        one = calls_of(lambda: [number(cell) for cell in cells])
        assert 5 * one < calls_of(lambda: [cell.why for cell in cells])

    def test_the_lines_that_are_not_shown_are_not_made(self):
        """The words of a cell are most of the work on it."""
        summary = summarize(Rows(synthetic.rows(1000, seeds=1)))
        document_of(summary)  # what is kept of each cell
        few, every = (calls_of(lambda most=most: document_of(summary, most=most)) for most in (20, None))
        assert 3 * few < every


class TestTwentyThousandRows:
    def test_through_the_command(self, tmp_path, capsys):
        """Every cell is in the numbers, as pandas has them; the table shows the first and says so."""
        table = synthetic.rows(20_000)
        synthetic.write(tmp_path, table)
        assert aggregate.main(["--all", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
        shown = capsys.readouterr().out
        cells = pd.read_parquet(tmp_path / "out" / "summary.parquet")
        frame = table.select([*record.AXES, "torch_version", "status", "verdict", "speedup"]).to_pandas()
        told = frame[frame["torch_version"].notna()]
        keys = [*(name for name in record.AXES if name not in ("seed", "optimizer_args", "scheduler_args"))]
        groups = told.groupby([told[name] for name in (*keys, "torch_version")], dropna=False)
        assert len(cells) == groups.ngroups
        assert cells["runs"].sum() == 20_000
        good = told[(told["status"] == "ok") & (told["verdict"] != "invalid")]
        logs = np.log(good["speedup"]).groupby(
            [good[name] for name in (*keys, "torch_version")], dropna=False
        )
        np.testing.assert_allclose(
            np.sort(cells["speedup"].dropna()), np.sort(np.exp(logs.mean())), rtol=1e-12
        )
        assert f"The first 200 of {len(cells):,} lines" in " ".join(shown.split())
        assert len((tmp_path / "out" / "summary.csv").read_text().splitlines()) == len(cells) + 1
        for name in ("summary.md", "summary.tex"):
            assert len((tmp_path / "out" / name).read_text().splitlines()) < 1000

    def test_other_numbers_of_lines(self, tmp_path, capsys):
        """Of 40 cells three, or all; a mistake is told."""
        synthetic.write(tmp_path, synthetic.rows(40, seeds=1))
        arguments = ["--all", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--format", "markdown"]
        assert aggregate.main([*arguments, "--lines", "3"]) == 0
        few = capsys.readouterr().out
        assert aggregate.main([*arguments, "--lines", "all"]) == 0
        every = capsys.readouterr().out
        assert "The first 3 of 40 lines" in few
        assert few.count("\n| ") < every.count("\n| ")
        assert "left out." not in every
        with pytest.raises(SystemExit) as ended:
            aggregate.main([*arguments, "--lines", "0"])
        assert ended.value.code == 2
        assert "must be a whole number from 1 on, or all: got '0'" in capsys.readouterr().err


class TestComparison:
    @pytest.mark.parametrize("metric", METRICS)
    def test_reads_no_column_that_explains_a_time(self, tmp_path, opened, capsys, metric):
        """But for what enqueuing a step takes, which says how much a time moves."""
        synthetic.write(tmp_path, synthetic.rows(40, seeds=2))
        sides = [str(tmp_path / "runs")] * 2
        assert compare.main([*sides, "--all", "--metric", metric, "--out", str(tmp_path)]) == 0
        capsys.readouterr()
        hosts = {f"{arm}_host_us" for arm in vocabulary.TIMED_ARMS}
        assert set().union(*opened[1]) & set(explanation.COLUMNS) == hosts

    def test_has_no_more_lines_than_are_read(self, tmp_path, capsys):
        """Of 40 cells on both sides three; all are in the file."""
        for side, torch in (("base", "2.13.0"), ("new", "2.13.1")):
            synthetic.write(tmp_path / side, synthetic.rows(40, seeds=1, torches=(torch,)))
        sides = [str(tmp_path / side / "runs") for side in ("base", "new")]
        assert compare.main([*sides, "--lines", "3", "--out", str(tmp_path)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        cells = len(pd.read_parquet(tmp_path / "comparison.parquet"))
        assert "The first 3 of " in shown
        assert "are in comparison.csv, which --out writes" in shown
        assert cells == 40


BROKEN = {
    "cut_off": lambda path, good: path.write_bytes(good[:-200]),
    "text": lambda path, good: path.write_text("run_key,status\n1,ok\n"),
    "empty": lambda path, good: path.write_bytes(b""),
    "magic_alone": lambda path, good: path.write_bytes(b"PAR1" + bytes(64) + b"PAR1"),
    "foreign": lambda path, good: pq.write_table(pa.table({"a": [1]}), path),
    "other_type": lambda path, good: pq.write_table(
        pa.table({"schema_version": [3], "run_key": ["a"], "status": ["ok"], "width": ["wide"]}), path
    ),
    "twice": lambda path, good: pq.write_table(
        pa.table([[3], ["a"], ["ok"], [1], [2]], ["schema_version", "run_key", "status", "width", "width"]),
        path,
    ),
    "not_utf8": lambda path, good: pq.write_table(
        pa.table({"schema_version": [3], "run_key": ["a"], "status": [b"\xff\xfe"]}), path
    ),
    "overwritten": lambda path, good: path.write_bytes(good[:200] + bytes(2000) + good[2200:]),
    "folder": lambda path, good: path.mkdir(),
    "nowhere": lambda path, good: path.symlink_to(path.with_name("gone")),
}


class TestBroken:
    @pytest.fixture
    def runs(self, tmp_path):
        """Return a folder with 1,000 good rows in two files, in which something else lies as well."""
        synthetic.write(tmp_path, synthetic.rows(1000), 500)
        return tmp_path / "runs"

    def told(self, runs, capsys):
        """Return the exit code, and the lines on stderr about files."""
        code = aggregate.main(["--all", str(runs), "--out", str(runs.parent / "out")])
        shown = capsys.readouterr()
        assert "1000 runs: " in shown.out
        return code, [line for line in shown.err.splitlines() if not line.startswith("wrote ")]

    @pytest.mark.parametrize("kind", BROKEN)
    def test_a_file_that_is_none_is_named_once_with_a_reason_and_the_rest_summarised(
        self, runs, capsys, kind
    ):
        """Exit code 1 at the end."""
        good = next(runs.rglob("*.parquet")).read_bytes()
        BROKEN[kind](runs / f"{kind}.parquet", good)
        code, lines = self.told(runs, capsys)
        (line,) = lines
        start = f"skipped {runs / kind}.parquet: "
        assert line.startswith(start)
        assert len(line) > len(start) + 5
        assert code == 1

    def test_all_of_them_together(self, runs, capsys):
        """Each is named, whatever the others are."""
        good = next(runs.rglob("*.parquet")).read_bytes()
        for kind, make in BROKEN.items():
            make(runs / f"{kind}.parquet", good)
        code, lines = self.told(runs, capsys)
        assert (code, len(lines)) == (1, len(BROKEN))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_and_a_folder_that_may_not_be_read(self, runs, capsys):
        """The reason is the system's."""
        (runs / "closed.parquet").write_bytes(b"")
        (runs / "closed.parquet").chmod(0)
        (runs / "sweep=closed").mkdir(mode=0)
        code, lines = self.told(runs, capsys)
        (runs / "sweep=closed").chmod(0o700)
        assert [line.rpartition(": ")[2] for line in lines] == ["Permission denied"] * 2
        assert code == 1

    def test_a_folder_that_cannot_be_listed_is_named(self, runs, capsys, monkeypatch):
        """Its rows would be missing in silence."""
        scandir = os.scandir
        (runs / "sweep=closed").mkdir()

        def closed(path):
            if str(path).endswith("sweep=closed"):
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", closed)
        code, lines = self.told(runs, capsys)
        assert [line.partition(":")[0] for line in lines] == [f"skipped {runs / 'sweep=closed'}"]
        assert code == 1

    def test_a_file_that_vanishes_before_it_is_read_is_named(self, runs, capsys, monkeypatch):
        """Somebody tidies up meanwhile."""
        listed = store.row_files
        gone = runs / "gone.parquet"
        monkeypatch.setattr(store, "row_files", lambda folder: [*listed(folder), gone])
        code, lines = self.told(runs, capsys)
        assert (code, lines) == (1, [f"skipped {gone}: No such file or directory"])

    def test_the_newest_file_of_a_sweep_may_vanish_too(self, runs, monkeypatch):
        """While the newest sweep is looked for."""
        synthetic.write(runs.parent, synthetic.rows(2100).slice(1000), 500)
        listed = store.row_files
        gone = runs / "sweep=20250101-000001" / "gone.parquet"
        monkeypatch.setattr(store, "row_files", lambda folder: [*listed(folder), gone])
        assert {row["sweep_id"] for row in select(runs).rows} == {"20250101-000002"}

    def test_the_column_that_has_another_type_is_named(self, runs):
        """With the type it must have."""
        BROKEN["other_type"](runs / "x.parquet", b"")
        (reason,) = select(runs, everything=True).unreadable.values()
        assert reason.startswith("width must be int64: ")

    def test_a_name_is_data(self, tmp_path):
        """Nothing in a file's name steers a terminal."""
        (tmp_path / "a\x1b[31m.parquet").write_bytes(b"x")
        with pytest.raises(SelectionError) as caught:
            select(tmp_path)
        assert "\x1b" not in str(caught.value)
