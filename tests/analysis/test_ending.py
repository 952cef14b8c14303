"""What a sweep says at its end."""

from src import store
from src.analysis.ending import BadRun, sweep_ending
from tests.rows import bad, row


class TestEnding:
    def test_has_the_table_and_the_runs_that_did_not_end_well(self, tmp_path):
        """Unsupported and excluded runs are no fault; a failed gate is."""
        store.write(tmp_path, row(job=0))
        store.write(tmp_path, bad("failed", "OOM\nmore", job=1, optimizer="sgd"))
        store.write(tmp_path, bad("unsupported", "needs CUDA", job=2, optimizer="lion"))
        store.write(tmp_path, row(job=3, optimizer="nadam", gate="failed", gate_min_speedup=2.5))
        report = sweep_ending(tmp_path, "first", 80)
        assert "4 runs: 2 ok, 1 failed, 1 unsupported." in report.text
        assert report.bad_runs == (
            BadRun("run 1 (sgd)", "failed", "OOM more"),
            BadRun("run 3 (nadam)", "gate failed", "speedup 2, gate.min_speedup=2.5"),
        )

    def test_a_sweep_without_rows_has_a_reason_instead_of_a_table(self, tmp_path):
        """The end of a sweep never raises for want of rows."""
        report = sweep_ending(tmp_path, "nothing", 80)
        assert report.text.startswith("no table: no such file or folder")

    def test_unreadable_files_are_named(self, tmp_path):
        """A broken row is not passed over in silence."""
        path = store.write(tmp_path, row()).with_name("bad.parquet")
        path.write_bytes(b"x")
        assert list(sweep_ending(tmp_path, "first", 80).unreadable) == [path]
