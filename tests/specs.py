"""Specs for tests: composed from the real `conf/`, as the command line composes them."""

from copy import deepcopy
from functools import cache

from hydra import compose, initialize_config_dir

from src import paths
from src.spec import RunSpec, from_config
from src.sweep.command_line import register


def spec(*overrides: str) -> RunSpec:
    """Return the spec that `overrides` on the command line give, a new object every time."""
    return deepcopy(_composed(overrides))


_register = cache(register)


@cache
def _composed(overrides: tuple[str, ...]) -> RunSpec:
    _register()
    fixed = ("sweep_id=tests", "output_dir=/nonexistent/stepsweep-tests")
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        return from_config(compose("config", [*fixed, *overrides]))
