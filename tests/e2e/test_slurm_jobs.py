"""Sweeps whose runs are jobs of a real SLURM: placement, jobs that die, arrays that are cancelled."""

import os
import re
import signal
import tempfile
import time
from pathlib import Path

import pytest

from tests.e2e.command import GENEROUS, Command, run
from tests.needed import needed_module

pytestmark = pytest.mark.slow

SLURM = (
    *("-m", "hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1"),
    *("model=tiny", "measure=trace", "measure.trace_steps=2", "compile=aot_eager", "optimizer=sgd"),
)
HANGS = "0.111"


@pytest.fixture(scope="module")
def cluster():
    """Return a SLURM; not in pytest's own folder, whose name is long for that of a socket."""
    needed_module("hydra_plugins.hydra_submitit_launcher.submitit_launcher")
    from tests.e2e.slurm_cluster import Cluster

    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        started = Cluster(Path(folder))
        yield started
        started.stop()


@pytest.fixture(autouse=True)
def _environment(cluster, monkeypatch):
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)


def logs(done):
    """Return what each run wrote, by its number."""
    return {int(p.parent.name): p.read_text() for p in done.output_dir.glob("logs/*/*/run.log")}


@pytest.fixture
def hanging(tmp_path, cluster):
    """Return a sweep of four runs that do not end: two run, two wait for a GPU."""
    earlier = set(cluster.states())
    sweep = Command(tmp_path, *SLURM, f"optimizer.lr={HANGS}", "seed=1,2,3,4", faults=True)
    sweep.wait_for_files("logs/*/*/run.log", 2)
    yield sweep
    sweep.end()
    busy = {"RUNNING", "PENDING", "COMPLETING"}
    end = time.monotonic() + 60  # SLURM takes its time over what was cancelled
    while busy & {v for k, v in cluster.states().items() if k not in earlier} and time.monotonic() < end:
        time.sleep(0.2)
    now = {k: v for k, v in cluster.states().items() if k not in earlier}
    assert not busy & set(now.values())


class TestGoodSweep:
    def test_each_run_is_a_job_that_sees_one_gpu_and_its_cores(self, tmp_path):
        """Four runs on two GPUs: one row each, and no two at a time on one GPU."""
        probe = ("optimizer=custom", "optimizer._target_=gpu_probe.Probe", "optimizer.lr=0.01")
        done = run(tmp_path, *SLURM, *probe, "seed=1,2,3,4", faults=True)
        assert (done.code, done.err) == (0, "")
        rows = done.rows()
        assert list(rows["status"]) == ["ok"] * 4
        assert list(rows["seed"]) == [1, 2, 3, 4]
        said = logs(done)
        seen = [re.findall("CUDA_VISIBLE_DEVICES=(.*)", said[job]) for job in range(4)]
        assert {gpu for gpus in seen for gpu in gpus} == {"0", "1"}
        assert all(len(set(gpus)) == 1 for gpus in seen)
        assert all(set(re.findall("threads=(.*)", text)) == {"1"} for text in said.values())
        for gpu in ("0", "1"):
            on_it = rows[[gpus[0] == gpu for gpus in seen]].sort_values("started_at")
            starts = [at.timestamp() for at in on_it["started_at"]]
            ends = [start + wall_s for start, wall_s in zip(starts, on_it["wall_s"], strict=True)]
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
        assert done.leaves_no_process()

    def test_one_run_is_a_job_too(self, tmp_path):
        """An array of one, which submitit starts as a job without an array."""
        done = run(tmp_path, *SLURM, "seed=7")
        assert (done.code, done.err) == (0, "")
        assert list(done.rows()["status"]) == ["ok"]


class TestRefused:
    def test_what_slurm_says_is_told_in_a_line(self, tmp_path):
        """A partition that is not there: after sbatch's own words one line, no traceback, exit 2."""
        done = run(tmp_path, *SLURM, "seed=1,2", "hydra.launcher.partition=nowhere")
        assert (done.code, done.out.count("\n")) == (2, 1)
        *of_sbatch, ours = done.err.splitlines()
        assert [text.partition(":")[0] for text in of_sbatch] == ["sbatch", "sbatch"]
        assert ours == "error: SLURM took no job: Invalid partition name specified"


class TestLostJobs:
    def test_a_job_that_is_killed_is_a_row_and_the_others_go_on(self, tmp_path, cluster):
        """The sweep ends, though without accounting submitit would wait for ever."""
        sweep = Command(tmp_path, *SLURM, f"optimizer.lr={HANGS},0.01,0.02", faults=True)
        sweep.wait_for_files("logs/*/0/run.log")
        jobs = [p for p in sweep.processes("submitit.core._submit") if "python" in p.name()]
        (first,) = [p for p in jobs if p.environ()["SLURM_ARRAY_TASK_ID"] == "0"]
        first.kill()
        done = sweep.end()
        rows = done.rows()
        assert list(rows["status"]) == ["crashed", "ok", "ok"]
        assert re.fullmatch(
            r"SLURM job \d+_0 ended as FAILED before its run had left a row", rows["reason"][0]
        )
        assert f"optimizer.lr={HANGS}" in rows["overrides"][0]
        assert (done.code, done.err) == (1, "")
        assert done.leaves_no_process()

    def test_a_cancelled_array_is_rows_and_may_be_run_again(self, tmp_path, cluster, hanging):
        """Those that ran and those that had not begun; the sweep is then taken up again."""
        (number,) = {job.split("_")[0] for job, state in cluster.states().items() if state == "RUNNING"}
        cluster.command("scancel", number)
        done = hanging.end()
        rows = done.rows()
        assert list(rows["status"]) == ["interrupted"] * 4
        assert list(rows["seed"]) == [1, 2, 3, 4]
        told = "SLURM job {}_{} ended as CANCELLED before its run had left a row"
        assert list(rows["reason"]) == [told.format(number, job) for job in range(4)]
        assert (done.code, done.err) == (1, "")
        assert done.leaves_no_process()
        same = (*SLURM, f"optimizer.lr={HANGS}", "seed=1,2,3,4")
        again = run(tmp_path, *same, "resume=latest", output_dir=done.output_dir)
        after = again.rows()
        assert (again.code, list(after["status"]), list(after["attempts"])) == (0, ["ok"] * 4, [2] * 4)
        assert list(after["run_key"]) == list(rows["run_key"])

    def test_a_job_that_is_requeued_is_one_row(self, tmp_path, cluster, monkeypatch):
        """As one that was preempted: it begins again, and the sweep waits for it."""
        monkeypatch.setenv("HANGS_FIRST", "1")
        probe = ("optimizer=custom", "optimizer._target_=gpu_probe.Probe", "optimizer.lr=0.01")
        sweep = Command(tmp_path, *SLURM, *probe, "seed=5", faults=True)
        sweep.wait_for_files("logs/*/0/run.log")
        (job,) = [job for job, state in cluster.states().items() if state == "RUNNING"]
        cluster.command("scontrol", "requeue", job)
        # After a while of its own choice (2 minutes) SLURM would do so by itself.
        deadline = time.monotonic() + GENEROUS
        while "SLURM_RESTART_COUNT" not in "".join(sorted(self.restarted(sweep))):
            assert time.monotonic() < deadline
            cluster.command("scontrol", "update", f"JobId={job}", "StartTime=now")
            time.sleep(0.5)
        done = sweep.end()
        assert (done.code, done.err) == (0, "")
        assert list(done.rows()["status"]) == ["ok"]

    @staticmethod
    def restarted(sweep):
        """Return the names of the variables of its processes."""
        found = set()
        for process in sweep.processes("submitit.core._submit"):
            found |= set(process.environ())
        return found

    def test_ctrl_c_cancels_the_jobs(self, cluster, hanging):
        """Those that run write their rows, those that wait never start."""
        os.kill(hanging.process.pid, signal.SIGINT)
        done = hanging.end()
        assert (done.code, done.err) == (130, "")
        assert list(done.rows()["status"]) == ["interrupted"] * 2
        assert done.leaves_no_process()
