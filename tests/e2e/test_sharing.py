"""Several sweeps, or the workers of one, on one host: they take turns to time."""

import itertools

import pytest

from tests.e2e.command import QUICK, Command, run
from tests.needed import needed_module

pytestmark = pytest.mark.slow


def timed(rows):
    """Return when each run had its device alone, as pairs in the order of their beginning."""
    pairs = zip(rows["timed_from"], rows["timed_until"], strict=True)
    return sorted(pair for start, end in pairs for pair in zip(start, end, strict=True))


def assert_in_turns(rows, runs):
    """Twice a run: before compiling, and from the warm-up on."""
    spans = timed(rows)
    assert len(spans) == 2 * runs
    assert all(start <= end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_two_sweeps_that_start_in_the_same_second(tmp_path):
    """On one CPU both complete, no row is lost, and no two runs time at once."""
    leases = tmp_path / "leases"
    arguments = ("-m", *QUICK, "optimizer=sgd", "seed=1,2,3")
    commands = [Command(tmp_path, *arguments, leases=leases) for _ in range(2)]
    for done in [command.end() for command in commands]:
        assert (done.code, done.err) == (0, "")
    rows = commands[0].rows()
    assert list(rows["status"]) == ["ok"] * 6
    assert rows["sweep_id"].nunique() == 2
    assert rows["lease_wait_s"].notna().all()
    assert (rows["lease_wait_s"] > 0).any()
    assert_in_turns(rows, 6)


def test_workers_of_joblib_compile_side_by_side_and_take_turns_to_time(tmp_path):
    """More workers than CPUs; torch has the threads that it has without them."""
    needed_module("hydra_plugins.hydra_joblib_launcher")
    alone = run(tmp_path, *QUICK, "optimizer=sgd", output_dir=tmp_path / "alone")
    assert alone.code == 0
    arguments = (
        "-m",
        *QUICK,
        "optimizer=sgd",
        "seed=1,2,3",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=3",
    )
    done = run(tmp_path, *arguments)
    assert (done.code, done.err) == (0, "")
    rows = done.rows()
    assert list(rows["status"]) == ["ok"] * 3
    assert set(rows["threads"]) == set(alone.rows()["threads"])
    assert_in_turns(rows, 3)
    assert done.leaves_no_process()


def test_workers_of_joblib_end_with_the_sweep(tmp_path):
    """However it is ended."""
    needed_module("hydra_plugins.hydra_joblib_launcher")
    endless = ("measure.target_relative_width=1e-9", "measure.max_seconds=600")
    arguments = ("seed=1,2", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    command = Command(tmp_path, "-m", *QUICK, *endless, "optimizer=sgd", *arguments)
    command.wait_for_files("logs/*/*/run.log", 2)
    command.process.kill()
    assert command.end().code == -9
    assert command.leaves_no_process()
