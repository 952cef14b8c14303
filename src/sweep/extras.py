"""Launchers and sweepers that are packages of their own, each an extra of ours."""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Extra:
    """A plugin of Hydra that is not installed with stepsweep."""

    choice: str
    """How it is chosen on the command line."""
    name: str
    """Of the extra in pyproject.toml."""
    module: str
    """What it installs below `hydra_plugins`."""
    configs: tuple[str, ...] = ()
    """What Hydra does not find without it, where a configuration of ours builds on one of the plugin's."""


EXTRAS = (
    Extra(
        "hydra/launcher=slurm",
        "slurm",
        "hydra_submitit_launcher",
        ("hydra/launcher/submitit_slurm", "hydra/launcher/submitit_local"),
    ),
)


def wanted(target: str) -> str | None:
    """Return what to install for a launcher or sweeper; None when it is there.

    Args:
        target: its `_target_`.
    """
    for extra in EXTRAS:
        if target.startswith(f"hydra_plugins.{extra.module}.") and not _installed(extra.module):
            return _told(extra)
    return None


def wanted_for(composing_error: str) -> str | None:
    """Return what to install, from Hydra's message that a configuration is missing; None for any other."""
    for extra in EXTRAS:
        if any(f"'{config}'" in composing_error for config in extra.configs):
            return _told(extra)
    return None


def _installed(module: str) -> bool:
    try:
        return find_spec(f"hydra_plugins.{module}") is not None
    except ModuleNotFoundError:  # no plugin of Hydra at all
        return False


def _told(extra: Extra) -> str:
    return f"{extra.choice} needs an extra: pip install 'stepsweep[{extra.name}]', or -e '.[{extra.name}]'"
