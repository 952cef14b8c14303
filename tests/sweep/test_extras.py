"""Launchers and sweepers of other packages: their settings, and what is said where one is not installed."""

import pytest
from hydra import compose, initialize_config_dir

from src import paths
from src.sweep import command_line, extras
from src.sweep.command_line import UsageError
from tests.needed import needed_module


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


def composed(*overrides):
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True).hydra


class TestInstalled:
    @pytest.mark.parametrize("extra", extras.EXTRAS, ids=lambda extra: extra.name)
    def test_its_choice_leads_to_its_package(self, extra):
        """What is looked for is what would be loaded."""
        if extra.name != "ray":  # its package is not one of the tests'
            needed_module(f"hydra_plugins.{extra.module}")
        group = extra.choice.partition("=")[0].rpartition("/")[2]
        assert composed(extra.choice)[group]._target_.startswith(f"hydra_plugins.{extra.module}.")

    @pytest.mark.parametrize("extra", extras.EXTRAS, ids=lambda extra: extra.name)
    def test_nothing_is_wanted_where_it_is_installed(self, extra, monkeypatch):
        """And where it is not, the command that installs it."""
        target = f"hydra_plugins.{extra.module}.some.Class"
        monkeypatch.setattr(extras, "find_spec", lambda name: name)
        assert extras.wanted(target) is None
        monkeypatch.setattr(extras, "find_spec", lambda name: None)
        assert f"'.[{extra.name}]'" in extras.wanted(target)
        assert extras.wanted("hydra._internal.core_plugins.basic_launcher.BasicLauncher") is None

    @pytest.mark.parametrize("extra", extras.EXTRAS, ids=lambda extra: extra.name)
    def test_one_that_is_missing_is_told_before_anything_starts(self, extra, monkeypatch):
        """Not by Hydra's list of what it looked through."""
        monkeypatch.setattr(extras, "find_spec", lambda name: None)
        if extra.configs:
            told = extras.wanted_for(f"In 'x': Could not find '{extra.configs[0]}'\n\nAvailable options")
        else:
            with pytest.raises(UsageError) as caught:
                command_line.check(["-m", extra.choice])
            told = str(caught.value)
        assert told == (
            f"{extra.choice} needs an extra: pip install 'stepsweep[{extra.name}]', or -e '.[{extra.name}]'"
        )

    def test_another_mistake_is_hydras_to_tell(self):
        """A launcher that nobody has."""
        assert extras.wanted_for("Could not find 'hydra/launcher/nope'") is None


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
