"""Studies of Optuna with real runs: the best is found, and failed runs do not end it."""

import pytest
import yaml

from tests.e2e.command import cache_files, run
from tests.needed import needed_module

pytestmark = pytest.mark.slow

STUDY = (
    *("-m", "hydra/sweeper=optuna", "objective=recompiles", "model=tiny", "compile=aot_eager"),
    *("measure=trace", "measure.trace_steps=5", "optimizer=sgd"),
)
IS_KILLED, RAISES = "0.222", "0.333"


@pytest.fixture(autouse=True)
def _installed():
    needed_module("hydra_plugins.hydra_optuna_sweeper")


def results(done):
    (file,) = done.output_dir.glob("logs/*/optimization_results.yaml")
    return yaml.safe_load(file.read_text())


class TestStudy:
    def test_the_best_run_is_found(self, tmp_path):
        """A learning rate in a tensor is the one that does not recompile as a scheduler changes it."""
        space = ("scheduler=linear", "lr_type=float,cpu_tensor")
        done = run(tmp_path, *STUDY, *space, "hydra/sweeper/sampler=grid", "hydra.sweeper.n_trials=9")
        assert (done.code, done.err) == (0, "")
        rows = done.rows()
        assert sorted(rows["lr_as_tensor"]) == [False, True]
        least = rows.loc[rows["recompiles"].idxmin()]
        assert (least["lr_as_tensor"], least["recompiles"]) == (True, 0)
        assert rows["recompiles"].max() > 0
        assert results(done) == {
            "name": "optuna",
            "best_params": {"lr_type": "cpu_tensor"},
            "best_value": 0.0,
        }
        assert "\nbest recompiles: 0 with lr_type=cpu_tensor\n" in done.out
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()

    def test_failed_runs_do_not_end_it(self, tmp_path):
        """Four trials by TPE, which draws the bad ones first with this seed; each is a row."""
        space = (f"optimizer.lr={IS_KILLED},{RAISES},0.01", "hydra.sweeper.sampler.seed=1")
        done = run(tmp_path, *STUDY, *space, "hydra.sweeper.n_trials=4", faults=True)
        rows = done.rows()
        assert list(rows["job"]) == [0, 1, 2, 3]
        assert list(rows["status"]) == ["failed", "crashed", "ok", "ok"]
        assert results(done)["best_params"] == {"optimizer.lr": 0.01}
        assert (done.code, done.err) == (1, "")
        assert "[4/4]" in done.out

    def test_one_in_which_all_runs_failed_has_no_best(self, tmp_path):
        """Told in a line, after the runs with their reasons."""
        done = run(
            tmp_path,
            *STUDY,
            f"optimizer.lr={RAISES}",
            "model.width=tag(log,int(interval(4,64)))",
            "hydra.sweeper.n_trials=2",
            faults=True,
        )
        assert list(done.rows()["status"]) == ["failed"] * 2
        assert (done.code, done.err) == (1, "")
        assert "\nno best run: none has a recompiles that counts\n" in done.out

    def test_its_own_faults_are_told_in_a_line(self, tmp_path):
        """A storage that cannot be opened."""
        done = run(tmp_path, *STUDY, "seed=1,2", "hydra.sweeper.storage=sqlite:////no/such/folder/study.db")
        assert (done.code, done.err) == (1, "")
        assert "\nerror: OptunaSweeper: OperationalError: " in done.out
