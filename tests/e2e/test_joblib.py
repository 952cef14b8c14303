"""Sweeps whose runs are side by side in workers of joblib."""

import os
import re
import signal

import pytest

from tests.e2e.command import Command, cache_files, run
from tests.needed import needed_module

pytestmark = pytest.mark.slow

JOBLIB = (
    *("-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    *("model=tiny", "measure=trace", "measure.trace_steps=2", "compile=aot_eager", "optimizer=sgd"),
)
HANGS, IS_KILLED, RAISES = "0.111", "0.222", "0.333"
PROBE = ("optimizer=custom", "optimizer._target_=gpu_probe.Probe", "optimizer.lr=0.01")


@pytest.fixture(autouse=True)
def _installed():
    needed_module("hydra_plugins.hydra_joblib_launcher")


def threads(done):
    """Return the number of torch's threads that each run has told."""
    logs = sorted(done.output_dir.glob("logs/*/*/run.log"))
    return [set(re.findall("threads=(.*)", log.read_text())) for log in logs]


class TestJoblib:
    def test_runs_are_as_by_themselves(self, tmp_path):
        """As many threads as in a run that is alone, and rows in the order of the runs."""
        alone = run(tmp_path, *PROBE, *JOBLIB[3:-1], output_dir=tmp_path / "alone", faults=True)
        done = run(tmp_path, *JOBLIB, *PROBE, "seed=1,2,3", faults=True)
        assert (alone.code, alone.err) == (done.code, done.err) == (0, "")
        rows = done.rows()
        assert list(rows["status"]) == ["ok"] * 3
        assert list(rows["seed"]) == [1, 2, 3]
        (own,) = threads(alone)
        assert threads(done) == [own] * 3
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()

    def test_a_run_that_is_killed_costs_no_other(self, tmp_path):
        """It is the run's process that is killed, not the worker, with which joblib would end the sweep."""
        lr = f"optimizer.lr=0.01,{IS_KILLED},{RAISES},0.02"
        done = run(tmp_path, *JOBLIB, lr, faults=True)
        assert list(done.rows()["status"]) == ["ok", "crashed", "failed", "ok"]
        assert (done.code, done.err) == (1, "")
        assert done.leaves_no_process()

    @pytest.mark.parametrize("to_all", [True, False])
    def test_ctrl_c_leaves_no_process(self, tmp_path, to_all):
        """Two runs hang and get a row, two have not begun; joblib kills its workers amid their rows."""
        sweep = Command(tmp_path, *JOBLIB, f"optimizer.lr={HANGS}", "seed=1,2,3,4", faults=True)
        sweep.wait_for_files("logs/*/*/run.log", 2)
        # As a terminal does, or `kill`.
        (os.killpg if to_all else os.kill)(sweep.process.pid, signal.SIGINT)
        done = sweep.end()
        assert (done.code, done.err) == (130, "")
        rows = done.rows()
        assert list(rows["status"]) == ["interrupted"] * 2
        assert set(rows["reason"]) == {"ended by Ctrl-C or a signal to stepsweep"}
        assert list(rows["seed"]) == [1, 2]
        assert done.leaves_no_process()

    def test_a_worker_that_is_killed_ends_the_sweep_and_costs_no_row(self, tmp_path):
        """joblib goes on with none of the others; what had begun is told, with what is left to do."""
        sweep = Command(tmp_path, *JOBLIB, f"optimizer.lr={HANGS}", "seed=1,2,3,4", faults=True)
        sweep.wait_for_files("logs/*/*/run.log", 2)
        workers = sweep.processes("joblib.externals.loky.backend.popen_loky_posix")
        workers[0].kill()
        done = sweep.end()
        assert (done.code, done.err) == (1, "")
        assert set(done.rows()["status"]) == {"crashed"}
        assert "error: JoblibLauncher: TerminatedWorkerError: A worker process managed by" in done.out
        assert "2 of 4 runs left no row" in done.out
        assert done.leaves_no_process()
