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

    def test_ctrl_c_leaves_no_process(self, tmp_path):
        """Two runs hang, two have not begun."""
        sweep = Command(tmp_path, *JOBLIB, f"optimizer.lr={HANGS}", "seed=1,2,3,4", faults=True)
        sweep.wait_for_files("logs/*/*/run.log", 2)
        os.killpg(sweep.process.pid, signal.SIGINT)  # as a terminal does
        done = sweep.end()
        assert done.code == 130
        assert done.leaves_no_process()
