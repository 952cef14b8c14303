"""A study of Optuna: what it may search, what it optimizes, what is told at its end."""

from pathlib import Path

import pytest

from src.sweep import command_line, study
from src.sweep.command_line import Plan, UsageError
from tests.needed import needed_module
from tests.rows import bad, row
from tests.specs import spec

OPTUNA = ("-m", "hydra/sweeper=optuna")
ANY = "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper"


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


def plan(folder, sweeper=ANY, objective="compiled_us"):
    return Plan((), (), "s", Path(folder), keep_cache=False, sweeper=sweeper, objective=objective)


class TestObjective:
    @pytest.mark.parametrize("name", ["compiled_us", "eager_us", "speedup", "recompiles", "compile_s"])
    def test_it_is_a_column_of_the_row(self, name):
        """The number that the row has."""
        good = row(compiled_us=2.0, eager_us=3.0, speedup=1.5, recompiles=4, compile_s=5.0)
        assert study.objective(good, spec(f"objective={name}")) == float(good[name])

    @pytest.mark.parametrize("status", ["failed", "timed_out", "crashed", "unsupported", "excluded"])
    def test_a_run_that_did_not_end_well_has_none(self, status):
        """Though it had measured the column before it failed: the fastest crash is no best run."""
        assert study.objective(bad(status, "why", compiled_us=1.0), spec()) is None

    def test_a_run_with_an_invalid_verdict_has_none(self):
        """A step that was never compiled has a fine time."""
        assert study.objective(row(compiled_us=1.0, verdict="invalid"), spec()) is None

    def test_a_number_that_was_not_measured_is_none(self):
        """Not NaN, which Optuna 2 takes for a fault of its own caller."""
        assert study.objective(row(compiled_us=None, verdict=None), spec()) is None


class TestSearchSpace:
    @pytest.fixture(autouse=True)
    def _installed(self):
        needed_module("hydra_plugins.hydra_optuna_sweeper")

    def test_the_runs_are_not_known_but_how_many(self):
        """Progress is out of the trials."""
        got = command_line.check([*OPTUNA, "optimizer.lr=interval(0.1,1)", "hydra.sweeper.n_trials=7"])
        assert (got.specs, got.trials, got.objective) == ((), 7, "compiled_us")
        assert got.sweeper == ANY

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["optimizer.lr=interval(-1,1)"], "optimizer.lr must be at least 0: got -1.0"),
            (["model.width=int(interval(1,10))", "model.depth=0,1"], "model.depth must be at least 1: got 0"),
            (["threads=tag(log,int(interval(1,99999)))"], "threads must be below 65536: got 99999"),
            (["seed=1,fast"], "seed: Value 'fast' of type 'str' could not be converted to Integer"),
            (["measure.arms=[eager,compiled],[compiled,eager]"], "Optuna takes plain values"),
            (["model.width=interval(1,10)"], "Value '1.0' of type 'float' could not be converted to Integer"),
            (["optimizer=adam,nope"], "Could not find 'optimizer/nope'"),
        ],
    )
    def test_a_wrong_end_of_it_is_told_before_the_first_run(self, arguments, message):
        """Not by the trial that happens to draw it."""
        with pytest.raises(UsageError) as caught:
            command_line.check([*OPTUNA, *arguments])
        assert message in str(caught.value)

    def test_of_a_large_space_every_value_is_checked(self):
        """1,000 x 1,000 points would take an hour: each value once, beside the first of the other axis."""
        axes = ["seed=range(1000)", "optimizer.lr=choice(0.1,0.2)"]
        assert command_line.check([*OPTUNA, *axes]).specs == ()
        with pytest.raises(UsageError, match=r"seed must be at least 0: got -1"):
            command_line.check([*OPTUNA, "seed=range(1000,-2,-1)", "optimizer.lr=choice(0.1,0.2)"])

    def test_an_interval_needs_it(self):
        """And the message says how to have it."""
        with pytest.raises(UsageError, match=r"add hydra/sweeper=optuna"):
            command_line.check(["-m", "optimizer.lr=interval(0.1,1)"])


class TestBest:
    def results(self, folder, text):
        place = folder / "logs" / "s" / study.RESULTS
        place.parent.mkdir(parents=True)
        place.write_text(text)

    def test_the_best_is_what_optuna_wrote(self, tmp_path):
        """Values as they are given on the command line."""
        params = "{optimizer: adam, optimizer.lr: 0.0123456789, threads: null, seed: 3}"
        self.results(tmp_path, f"name: optuna\nbest_params: {params}\nbest_value: 12.3456789\n")
        assert study.best(plan(tmp_path)) == (
            "best compiled_us: 12.3457 with optimizer=adam optimizer.lr=0.0123457 threads=null seed=3"
        )

    def test_there_is_none_without_a_run_that_counts(self, tmp_path):
        """Optuna writes no file then."""
        assert study.best(plan(tmp_path)) == "no best run: none has a compiled_us that counts"

    def test_a_sweep_that_is_no_study_has_none(self, tmp_path):
        """Nothing is said."""
        assert (
            study.best(plan(tmp_path, sweeper="hydra._internal.core_plugins.basic_sweeper.BasicSweeper"))
            is None
        )
