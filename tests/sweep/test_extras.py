"""Launchers and sweepers of other packages: their settings, and what is said where one is not installed."""

import copy
import functools
import tomllib

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore

from src import paths
from src.sweep import command_line, extras
from src.sweep.command_line import UsageError
from tests.needed import needed_module


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()
    extras.register()


def composed(*overrides):
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True).hydra


IDS = {"argvalues": extras.EXTRAS, "ids": [extra.name for extra in extras.EXTRAS]}


@pytest.fixture
def nothing_installed(monkeypatch):
    """Take the plugins' configurations away, as if none of them were installed."""
    repository = ConfigStore.instance().repo
    hidden = copy.deepcopy(repository)
    for extra in extras.EXTRAS:
        for config in extra.configs:
            *groups, name = config.split("/")
            functools.reduce(lambda at, group: at.get(group, {}), groups, hidden).pop(f"{name}.yaml", None)
    monkeypatch.setattr(ConfigStore.instance(), "repo", hidden)
    monkeypatch.setattr(extras.Extra, "installed", lambda extra: False)


class TestInstalled:
    @pytest.mark.parametrize("extra", **IDS)
    def test_its_choice_leads_to_its_package(self, extra):
        """What is looked for is what would be loaded; our settings are in it."""
        if extra.name == "ray" and not extra.installed():
            pytest.skip("no test installs ray: docs/launchers.md")
        needed_module(f"hydra_plugins.{extra.module}")
        group = extra.choice.partition("=")[0].rpartition("/")[2]
        node = composed(extra.choice)[group]
        assert node._target_.startswith(f"hydra_plugins.{extra.module}.")
        assert extra.installed()

    @pytest.mark.parametrize("extra", **IDS)
    def test_one_that_is_missing_is_told_before_anything_starts(self, extra, nothing_installed):
        """With the command that installs it, not by Hydra's list of what it looked through."""
        with pytest.raises(UsageError) as caught:
            command_line.check(["-m", extra.choice])
        assert str(caught.value) == (
            f"{extra.choice} needs an extra: pip install 'stepsweep[{extra.name}]', or -e '.[{extra.name}]'"
        )

    def test_another_mistake_is_hydras_to_tell(self, nothing_installed):
        """A launcher that nobody has."""
        assert extras.wanted_for("Could not find 'hydra/launcher/nope'") is None

    @pytest.mark.parametrize("extra", **IDS)
    def test_the_extra_is_one_of_the_packages(self, extra):
        """What the message tells to install."""
        known = tomllib.loads((paths.project_root() / "pyproject.toml").read_text())["project"]
        (wanted,) = known["optional-dependencies"][extra.name]
        assert wanted.partition(">=")[0].replace("-", "_") == extra.module


class TestJoblib:
    def test_two_runs_at_once(self):
        """Not one per CPU, which is the plugin's own default."""
        needed_module("hydra_plugins.hydra_joblib_launcher")
        assert composed("hydra/launcher=joblib").launcher.n_jobs == 2
        assert composed("hydra/launcher=joblib", "hydra.launcher.n_jobs=3").launcher.n_jobs == 3


class TestOptuna:
    @pytest.mark.parametrize(
        ("objective", "direction"),
        [
            *(("compiled_us", "minimize"), ("eager_us", "minimize"), ("speedup", "maximize")),
            *(("recompiles", "minimize"), ("compile_s", "minimize")),
        ],
    )
    def test_the_direction_is_that_of_the_objective(self, objective, direction):
        """A time is best when it is short, a speedup when it is large."""
        needed_module("hydra_plugins.hydra_optuna_sweeper")
        assert composed("hydra/sweeper=optuna", f"objective={objective}").sweeper.direction == direction

    def test_the_sampler_has_a_seed_and_failures_do_not_end_the_study(self):
        """Any other of the plugin's samplers may be chosen."""
        needed_module("hydra_plugins.hydra_optuna_sweeper")
        sweeper = composed("hydra/sweeper=optuna").sweeper
        assert (sweeper.sampler._target_, sweeper.sampler.seed) == ("optuna.samplers.TPESampler", 0)
        assert (sweeper.max_failure_rate, sweeper.n_jobs) == (1.0, 1)
        other = composed("hydra/sweeper=optuna", "hydra/sweeper/sampler=random").sweeper
        assert other.sampler._target_ == "optuna.samplers.RandomSampler"


class TestSlurm:
    @pytest.mark.parametrize(("seconds", "minutes"), [("1800", 40), ("60", 11), ("61", 12), ("0.5", 11)])
    def test_a_job_may_take_ten_minutes_more_than_its_run(self, seconds, minutes):
        """Whole minutes, rounded up: the run's own limit ends it first, and leaves a row."""
        needed_module("hydra_plugins.hydra_submitit_launcher")
        launcher = composed("hydra/launcher=slurm", f"limits.run_seconds={seconds}").launcher
        assert launcher.timeout_min == minutes

    def test_a_job_is_one_gpu_and_its_cores(self):
        """One task, so that each run is one process tree of one job."""
        needed_module("hydra_plugins.hydra_submitit_launcher")
        launcher = composed("hydra/launcher=slurm").launcher
        assert (launcher.gpus_per_node, launcher.cpus_per_task) == (1, 8)
        assert (launcher.nodes, launcher.tasks_per_node) == (1, 1)


class TestLocal:
    def test_a_sites_own_settings_win(self, tmp_path):
        """`local=site` is a file that git ignores; here it lies in a folder of --config-dir."""
        needed_module("hydra_plugins.hydra_submitit_launcher")
        (tmp_path / "local").mkdir()
        (tmp_path / "local" / "site.yaml").write_text(
            "# @package _global_\n"
            "defaults: [override /hydra/launcher: slurm]\n"
            "limits: {run_seconds: 60}\n"
            "hydra: {launcher: {partition: gpu, account: abc123}}\n"
        )
        plan = command_line.check(["-m", f"--config-dir={tmp_path}", "local=site", "seed=1,2"])
        assert plan.launcher.endswith(".SlurmLauncher")
        assert [spec.limits.run_seconds for spec in plan.specs] == [60, 60]
        with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
            path = f"hydra.searchpath=['file://{paths.share_root()}','file://{tmp_path}']"
            launcher = compose("config", [path, "local=site"], return_hydra_config=True).hydra.launcher
        assert (launcher.partition, launcher.account, launcher.timeout_min) == ("gpu", "abc123", 11)
