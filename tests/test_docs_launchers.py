"""The commands and files that docs/ shows of launchers and sweepers are ones that stepsweep takes."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from src import paths
from src.sweep import command_line
from tests.needed import needed_module

ROOT = Path(__file__).parents[1]
PAGES = ("docs/slurm.md", "docs/launchers.md", "docs/optuna.md", "README.md")
NEEDED = {
    "hydra/launcher=slurm": "hydra_plugins.hydra_submitit_launcher",
    "hydra/launcher=joblib": "hydra_plugins.hydra_joblib_launcher",
    "hydra/sweeper=optuna": "hydra_plugins.hydra_optuna_sweeper",
    "local=site": "hydra_plugins.hydra_submitit_launcher",
    "hydra/launcher=ray": None,  # in no test: docs/launchers.md says why
}
"""What a command that is shown needs. The like runs in test_slurm_jobs, test_joblib, test_optuna."""


def commands(page):
    """Return the arguments of each command of a page that needs an extra."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("python -m src.run")]
    split = [shlex.split(line, comments=True)[3:] for line in lines]
    return [arguments for arguments in split if set(arguments) & set(NEEDED)]


SHOWN = [pytest.param(arguments, id=" ".join(arguments)) for page in PAGES for arguments in commands(page)]


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


class TestCommands:
    def test_every_page_shows_some(self):
        """What is checked below is not nothing."""
        assert [len(commands(page)) for page in PAGES] == [2, 2, 2, 3]

    @pytest.mark.parametrize("arguments", SHOWN)
    def test_each_is_accepted_as_it_stands(self, arguments, tmp_path):
        """Every run of it is composed and checked."""
        (module,) = {NEEDED[argument] for argument in arguments if argument in NEEDED}
        if module is None:
            pytest.skip("no test installs ray: docs/launchers.md")
        needed_module(module)
        if "local=site" in arguments:
            (shown,) = re.findall(
                r"```yaml\n(.*?)```", (ROOT / PAGES[0]).read_text(encoding="utf-8"), re.DOTALL
            )
            (tmp_path / "local").mkdir()
            (tmp_path / "local" / "site.yaml").write_text(shown)
            arguments = [f"--config-dir={tmp_path}", *arguments]
        plan = command_line.check(arguments)
        assert plan.specs or plan.trials
        if "local=site" in arguments:
            assert (plan.launcher.rpartition(".")[2], plan.output_dir) == (
                "SlurmLauncher",
                Path("/shared/me/stepsweep"),
            )

    def test_every_extra_of_the_readme_is_there(self):
        """Its name is what pip is given."""
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = {n for page in PAGES for n in re.findall(r"'\.\[(\w+)\]'", (ROOT / page).read_text())}
        assert {"slurm", "joblib", "ray", "optuna"} <= named <= set(known)


class TestWheel:
    def test_all_of_conf_but_a_sites_own_is_in_it(self):
        """`conf/local` may have an account's name in it."""
        build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
        included = build["targets"]["wheel"]["force-include"]
        ours = {f"conf/{p.name}" for p in (paths.share_root() / "conf").iterdir() if p.name != "local"}
        assert {name for name in included if name.startswith("conf/")} == ours
        assert "conf" not in included
