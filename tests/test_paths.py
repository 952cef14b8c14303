"""Where folders are, in a checkout and in a wheel."""

from pathlib import Path

import pytest

from src import paths

ROOT = Path(__file__).parents[1]


class TestInACheckout:
    def test_outputs_are_in_the_checkout_whatever_the_current_directory(self, tmp_path, monkeypatch):
        """A run started elsewhere writes to the same place."""
        monkeypatch.chdir(tmp_path)
        assert paths.project_root() == ROOT
        assert paths.output_dir() == ROOT / "outputs"

    def test_conf_and_experiments_are_in_the_share_root(self):
        """Hydra finds the groups and the presets there."""
        assert (paths.share_root() / "conf" / "config.yaml").is_file()
        assert list((paths.share_root() / "experiments").glob("*.yaml"))


class TestInAWheel:
    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        """Return the folder of a package as a wheel installs it."""
        package = tmp_path / "site-packages" / "src"
        (package / "share" / "conf").mkdir(parents=True)
        monkeypatch.setattr(paths, "_PACKAGE", package)
        return package

    def test_outputs_are_in_the_current_directory(self, package, tmp_path, monkeypatch):
        """Nobody wants results in site-packages."""
        monkeypatch.chdir(tmp_path)
        assert paths.output_dir() == tmp_path / "outputs"

    def test_conf_is_in_the_package(self, package):
        """The wheel carries conf and experiments."""
        assert paths.share_root() == package / "share"
