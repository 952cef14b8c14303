"""Launchers and sweepers that are packages of their own, each an extra of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError
from omegaconf import OmegaConf


@dataclass(frozen=True, slots=True)
class Extra:
    """A plugin of Hydra that is not installed with stepsweep."""

    choice: str
    """How it is chosen on the command line."""
    name: str
    """Of the extra in pyproject.toml."""
    module: str
    """What it installs below `hydra_plugins`."""
    configs: tuple[str, ...]
    """What Hydra does not find without it."""
    ours: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which we differ from the plugin."""

    @property
    def told(self) -> str:
        """What the user reads where it is not installed."""
        return f"{self.choice} needs an extra: pip install 'stepsweep[{self.name}]', or -e '.[{self.name}]'"

    def installed(self) -> bool:
        """Return whether Hydra can find it."""
        try:
            return find_spec(f"hydra_plugins.{self.module}") is not None
        except ModuleNotFoundError:  # no plugin of Hydra at all
            return False


EXTRAS = (
    Extra(
        choice="hydra/launcher=slurm",  # conf/hydra/launcher/slurm.yaml
        name="slurm",
        module="hydra_submitit_launcher",
        configs=("hydra/launcher/submitit_slurm", "hydra/launcher/submitit_local"),
    ),
    Extra(
        choice="hydra/launcher=joblib",
        name="joblib",
        module="hydra_joblib_launcher",
        configs=("hydra/launcher/joblib",),
        # Each run has a torch of its own, 2 GiB and more: not as many as there are CPUs. Runs are long,
        # and are to start in the order of their numbers.
        ours={"n_jobs": 2, "batch_size": "1"},
    ),
    Extra(
        choice="hydra/launcher=ray",
        name="ray",
        module="hydra_ray_launcher",
        configs=("hydra/launcher/ray", "hydra/launcher/ray_aws"),
        # A worker process for each run; one that kills its worker is a lost run, not one to try four times.
        ours={
            "ray": {
                "init": {"num_cpus": None, "num_gpus": None, "include_dashboard": False},
                "remote": {"num_cpus": 1, "num_gpus": None, "max_calls": 1, "max_retries": 0},
            }
        },
    ),
    Extra(
        choice="hydra/sweeper=optuna",
        name="optuna",
        module="hydra_optuna_sweeper",
        configs=(
            "hydra/sweeper/optuna",
            *(f"hydra/sweeper/sampler/{n}" for n in ("tpe", "random", "cmaes", "nsgaii", "motpe", "grid")),
        ),
        # One run at a time, as runs are timed; a run that failed is one that was not the best.
        ours={
            "defaults": [{"sampler": "tpe_seeded"}],
            "direction": "${best_direction:${objective}}",
            "n_jobs": 1,
            "max_failure_rate": 1.0,
        },
    ),
)


def register() -> None:
    """Give the choices of the plugins that are installed our settings.

    Files of the same names in `conf/` would be the simpler way, but Hydra takes those for instances of the
    plugins' schemas, and warns of that or refuses it. Nothing for the processes of runs: it takes a while.
    """
    Plugins.instance()  # loads all plugins, once; later it would overwrite what is stored here
    store = ConfigStore.instance()
    for extra in EXTRAS:
        if not extra.ours or not extra.installed():
            continue
        group, _, name = extra.choice.partition("=")
        try:
            theirs = store.load(f"{group}/{name}.yaml").node
        except ConfigLoadError:  # it is there, but could not be imported, of which Hydra warns
            continue
        store.store(name=name, group=group, node=OmegaConf.merge(theirs, extra.ours), provider="stepsweep")


def wanted_for(composing_error: str) -> str | None:
    """Return what to install, from Hydra's message that a configuration is missing; None for any other."""
    for extra in EXTRAS:
        if any(f"'{config}'" in composing_error for config in extra.configs) and not extra.installed():
            return extra.told
    return None
