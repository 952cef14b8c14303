"""The command line before anything is measured: every run of it is composed and checked.

Hydra composes all jobs of a sweep before the first starts, so a wrong type or an unknown choice
ends it early; a value out of range would only surface when its job starts, hours later perhaps.
Here all runs are checked by both, and the user's mistakes are told in one or two lines.
"""

import argparse
import copy
import itertools
import json
import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, QuotedString
from hydra.errors import CompactHydraException, HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from src import exclusions, paths
from src.models import MODELS
from src.optimizers import OPTIMIZERS
from src.rules import SpecError
from src.schedulers import SCHEDULERS
from src.spec import CompileSpec, MeasureSpec, RunSpec, from_config
from src.sweep import extras
from src.workloads import WORKLOADS

_SEARCH = "hydra/sweeper=optuna"

PRESETS = "experiments"
"""Config group of the presets, and their folder."""


SITE = "local"
"""Config group of a site's own settings, in `conf/local/`, which git ignores."""

GROUPS = ("workload", "model", "optimizer", "scheduler", "compile", "measure", PRESETS, SITE)

OPTUNA = ".OptunaSweeper"
"""End of the class of the sweeper that looks for the best run."""

MOST_CHECKED = 500
"""Points of a search space that are checked before its first run; a check takes some ms."""

MOST_RUNS = 100_000
"""Runs in a sweep; more are taken for a slip of the pen."""

_INFORMATION = {
    *("-h", "--help", "--hydra-help", "--version", "-c", "--cfg", "-i", "--info"),
    *("-sc", "--shell-completion"),
}


class UsageError(Exception):
    """The command line is wrong; the message is what the user reads."""


class JobError(CompactHydraException):
    """What keeps a job from leaving a row: Hydra prints its message without a traceback."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command line asks for."""

    specs: tuple[RunSpec, ...]
    """Every run, in the order of their job numbers; empty when a sweeper chooses them one by one."""
    fixed: tuple[str, ...]
    """Overrides that all runs share."""
    sweep_id: str
    output_dir: Path
    keep_cache: bool
    resume: str | None = None
    """Name of the sweep that is taken up again, or `latest`; None for a new one."""
    resume_mixed: bool = False
    launcher: str = ".BasicLauncher"
    """Class that starts the jobs."""
    sweeper: str = ".BasicSweeper"
    """Class that chooses the runs."""
    trials: int | None = None
    """Runs at most of a sweeper that chooses them one by one."""
    objective: str = ""
    """Column that such a sweeper optimizes."""

    @property
    def local(self) -> bool:
        """Whether the runs will be on this machine."""
        return self.launcher.rpartition(".")[2] in ("BasicLauncher", "JoblibLauncher")

    @property
    def named(self) -> bool:
        """Whether the command line names the sweep."""
        return self.sweep_id != new_sweep_id()


@cache
def new_sweep_id() -> str:
    """Return this process's sweep id: UTC second and 32 random bits.

    The random part keeps apart sweeps that start in the same second on any number of hosts.
    """
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def job_minutes(run_seconds: float) -> int:
    """Return the time limit in minutes of a cluster's job whose run is ended after `run_seconds`.

    Ten minutes more: for Python, torch, the probe of the compiler, and the warning two minutes before the
    end that submitit asks for.
    """
    return math.ceil(run_seconds / 60) + 10


def best_direction(objective: str) -> str:
    """Return in which direction a sweeper that looks for the best run goes."""
    return "maximize" if objective == "speedup" else "minimize"


def register() -> None:
    """Register the schema and the resolvers that `conf/` uses."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunSpec)
    schemas: dict[str, Mapping[str, type]] = {
        "model": MODELS,
        "compile": {"compile": CompileSpec},
        "measure": {"measure": MeasureSpec},
        "workload": WORKLOADS,
        "optimizer": OPTIMIZERS,
        "scheduler": SCHEDULERS,
    }
    for group, nodes in schemas.items():
        for name, node in nodes.items():
            schema = OmegaConf.structured(node)
            if name == "custom":
                # Not struct, so that `optimizer.arguments.beta=0.9` needs no + before it.
                schema.arguments = {}
                OmegaConf.set_struct(schema.arguments, False)
            store.store(group=f"schema/{group}", name=name, node=schema)
    # Cached in the config, so that every job of a sweep, in whatever process, sees the same id.
    OmegaConf.register_new_resolver("sweep_id", new_sweep_id, use_cache=True, replace=True)
    OmegaConf.register_new_resolver(
        "default_output_dir", lambda: str(paths.output_dir()), use_cache=True, replace=True
    )
    OmegaConf.register_new_resolver("job_minutes", job_minutes, replace=True)
    OmegaConf.register_new_resolver("best_direction", best_direction, replace=True)
    OmegaConf.register_new_resolver("share_root_url", lambda: paths.share_root().as_uri(), replace=True)


def spec_of(config: DictConfig) -> RunSpec:
    """Return the checked `RunSpec` of a job's configuration.

    Raises:
        JobError: a rule is broken; only seen where the runs could not be checked before.
    """
    try:
        return from_config(config)
    except SpecError as error:
        raise JobError(str(error)) from None


def check(arguments: list[str]) -> Plan | None:
    """Compose and check every run of a command line.

    Returns:
        The plan, or None when the command line only asks Hydra for information (`--help`, `--cfg`,
        shell completion, ...).

    Raises:
        UsageError: the command line is wrong.
    """
    extras.register()
    if any(a.partition("=")[0] in _INFORMATION for a in arguments):
        return None
    try:
        flags, overrides = _options().parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    for flag in (a for a in overrides if a.startswith("-")):
        raise UsageError(f"{flag} is not an option here: see --help")
    if flags.multirun and flags.run:
        raise UsageError("-m and --run exclude each other")
    if flags.config_dir is not None:
        if not Path(flags.config_dir).is_dir():
            raise UsageError(f"--config-dir must be a folder: got {flags.config_dir}")
        # What Hydra does with it: its choices stand beside those of conf/.
        folders = (paths.share_root(), Path(flags.config_dir).absolute())
        listed = ",".join(f"'file://{folder}'" for folder in folders)
        overrides = [*overrides, f"hydra.searchpath=[{listed}]"]
    try:
        return _check(overrides, multirun=flags.multirun)
    except SpecError as error:
        raise UsageError(str(error)) from None
    except HydraException as error:  # of the override parser
        raise UsageError(_in_two_lines(error)) from None


def flags_first(arguments: list[str]) -> list[str]:
    """Return a checked command line with its options before its overrides.

    Hydra's parser takes no override that comes after an option that comes after an override.
    """
    flags, overrides = _options().parse_known_args(arguments)
    named = [] if flags.config_dir is None else [f"--config-dir={flags.config_dir}"]
    return [*(["-m"] if flags.multirun else []), *named, *overrides]


def _options() -> argparse.ArgumentParser:
    """Return a parser of those of Hydra's options that start runs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-r", "--run", action="store_true")  # what Hydra does without an option
    parser.add_argument("-cd", "--config-dir", default=None)
    return parser


def _check(arguments: list[str], *, multirun: bool) -> Plan:
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        parsed = _parse(arguments)
        for override in parsed:
            _check_override(override, multirun=multirun)
        fixed = [_for_check(o) for o in parsed if not o.is_sweep_override()]
        full = _compose(fixed)
        sweeper = full.hydra.sweeper
        if sweeper is None:
            raise UsageError("hydra.sweeper must not be null")
        if full.hydra.launcher is None:
            raise UsageError("hydra.launcher must not be null")
        launcher = full.hydra.launcher._target_
        if sweeper.get("params") and not multirun:
            name = full.hydra.runtime.choices.get(PRESETS)
            told = f"{PRESETS}={name} is a sweep" if name else "hydra.sweeper.params makes this a sweep"
            raise UsageError(f"{told}: add -m to run it")
        params = sweeper.get("params") or {}
        known = sweeper._target_.endswith(".BasicSweeper")
        if known:
            specs = list(_specs(_axes(parsed, params)))
        elif sweeper._target_.endswith(OPTUNA):
            specs = [s for axes in _corners(_axes(parsed, params, search=True)) for s in _specs(axes)]
        else:
            specs = [from_config(_without_hydra(full))]
    return replace(
        _plan(specs, parsed, known=known),
        # Without -m Hydra asks no launcher.
        **({"launcher": launcher} if multirun else {}),
        sweeper=sweeper._target_,
        trials=None if known else sweeper.get("n_trials"),
        objective=specs[0].objective,
    )


def _parse(arguments: list[str]) -> list[Override]:
    # With the loader of the configuration: the values of glob() are the names of its files.
    return OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(arguments)


def _compose(overrides: list[str]) -> DictConfig:
    try:
        return compose("config", overrides, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        # Hydra raises a bare ValueError for a group that is set to null.
        raise UsageError(extras.wanted_for(str(error)) or _in_two_lines(error)) from None
    except OSError as error:  # such as a choice whose name is too long for one of a file
        told = f"a configuration file cannot be read: {error.strerror}"
        raise UsageError(f"{told}: {_shortened(error)}") from None
    except (AssertionError, AttributeError) as error:
        # Of OmegaConf, for a key below a node that is null, such as hydra.sweeper.params.
        raise UsageError(f"Hydra cannot compose {' '.join(overrides)}: {_in_two_lines(error)}") from None


def _shortened(error: OSError) -> str:
    name = str(error.filename)
    return name if len(name) <= 120 else f"{name[:80]}...{name[-30:]}"


def _plan(specs: list[RunSpec], parsed: list[Override], *, known: bool) -> Plan:
    first = specs[0]
    named = ("optimizer", "scheduler", "workload")
    names = {group: {str(getattr(s, group).name) for s in specs} for group in named}
    for spec in {json.dumps(s.exclude): s for s in specs}.values():
        exclusions.check_rules(spec, names)
    for name in ("sweep_id", "output_dir", "resume", "resume_mixed"):
        values = list(dict.fromkeys(str(getattr(s, name)) for s in specs))
        if len(values) > 1:
            raise UsageError(f"{name} must be the same in all runs of a sweep: got {', '.join(values)}")
    return Plan(
        tuple(specs) if known else (),
        tuple(
            f"{o.get_key_element()}={o.get_value_element_as_str()}"
            for o in parsed
            if not o.is_sweep_override()
        ),
        first.sweep_id,
        Path(first.output_dir),
        keep_cache=any(s.compile.keep_cache for s in specs),
        resume=first.resume,
        resume_mixed=first.resume_mixed,
    )


def _without_hydra(config: DictConfig) -> DictConfig:
    with open_dict(config):
        del config["hydra"]
    return config


def _check_override(override: Override, *, multirun: bool) -> None:
    line, group = override.input_line, override.key_or_group
    if not group:
        raise UsageError(f"{line} has no key")
    if override.is_sweep_override():
        if not multirun:
            raise UsageError(f"{line} has several values: add -m to sweep over them")
        if group == PRESETS:
            raise UsageError(f"{PRESETS} must be one preset, each is a sweep of its own: got {line}")
    elif group in GROUPS and not override.is_delete():
        value = override.value()
        if not isinstance(value, str | dict) or ".." in str(value).split("/"):
            raise UsageError(f"{group} must be the name of one choice: got {line}")


def _for_check(override: Override, value: str | None = None) -> str:
    """Return an override that adds a key where there is none.

    Hydra's own word on an unknown key does not say which keys there are; added, `from_config`
    finds it and does.
    """
    line = override.input_line or ""
    if value is not None:
        line = f"{override.get_key_element()}={value}"
    name = override.key_or_group
    left_alone = "/" in name or name in ("", "hydra", *GROUPS) or name.startswith("hydra.")
    return line if left_alone or line.startswith(("+", "~")) else f"++{line}"


def _axes(parsed: list[Override], params: Mapping[str, str], *, search: bool = False) -> dict[str, list[str]]:
    """Return the overrides of each key as Hydra's BasicSweeper does: the last word on a key wins.

    Args:
        parsed: of the command line.
        params: of a preset.
        search: for Optuna: of an interval both ends are returned, and values must be plain.
    """
    from_preset = _parse([f"{k}={v}" for k, v in params.items()])
    axes: dict[str, list[str]] = {}
    for override in [*from_preset, *parsed]:
        if override.is_sweep_override() and not override.is_discrete_sweep():
            if not search:
                told = f"such as Optuna's: add {_SEARCH}"
                raise UsageError(f"{override.input_line} needs a sweeper that chooses values, {told}")
            interval = override.value()
            assert isinstance(interval, IntervalSweep)  # noqa: S101  # the one kind that is left
            values = [_for_check(override, str(end)) for end in (interval.start, interval.end)]
        elif override.is_discrete_sweep():
            if search:
                _check_plain(override)
            some = itertools.islice(override.sweep_string_iterator(), MOST_RUNS + 1)
            values = [_for_check(override, value) for value in some]
        else:
            values = [_for_check(override)]
        axes[override.get_key_element()] = values
    for name, values in axes.items():
        if not values:
            raise UsageError(f"{name} has no value to sweep over")
    if search:
        return axes
    if math.prod(len(values) for values in axes.values()) > MOST_RUNS:
        raise UsageError(f"a sweep must have at most {MOST_RUNS:,} runs: it would have more")
    return axes


def _check_plain(override: Override) -> None:
    """Check that Optuna can tell the values of a choice apart."""
    for value in override.sweep_iterator():
        if not isinstance(value, str | int | float | bool | QuotedString | None):
            raise UsageError(f"{override.input_line}: Optuna takes plain values, no lists or dictionaries")


def _corners(axes: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    """Yield what is checked of a search space: all of a small one, else each value beside others' first."""
    if math.prod(len(values) for values in axes.values()) <= MOST_CHECKED:
        yield axes
        return
    first = {name: values[:1] for name, values in axes.items()}
    for name, values in axes.items():
        yield first | {name: values if len(values) <= MOST_CHECKED else [values[0], values[-1]]}


def _specs(axes: Mapping[str, list[str]]) -> Iterator[RunSpec]:
    """Yield the spec of each job, in the order of Hydra's job numbers.

    Composing takes most of a tenth of a second, so it is done once for each choice of groups;
    swept values are then set in a copy, as Hydra would set them.
    """
    swept = {
        name
        for name, lines in axes.items()
        if len(lines) > 1 and lines[0].startswith("++") and not _overlaps(name, axes)
    }
    values = {line: _parse([line])[0].value() for name in swept for line in axes[name]}
    composed: dict[tuple[str, ...], DictConfig] = {}
    for lines in itertools.product(*axes.values()):
        chosen = dict(zip(axes, lines, strict=True))
        fixed = tuple(line for name, line in chosen.items() if name not in swept)
        if fixed not in composed:
            composed[fixed] = _without_hydra(_compose(list(fixed)))
        config = copy.deepcopy(composed[fixed])
        for name in swept:
            _set(config, name.lstrip("+"), values[chosen[name]])
        yield from_config(config)


def _overlaps(name: str, others: Mapping[str, Any]) -> bool:
    """Return whether another override sets a part of this one, or the whole: their order counts then."""
    own = name.lstrip("+") + "."
    parts = [other.lstrip("+~") + "." for other in others if other != name]
    return any(part.startswith(own) or own.startswith(part) for part in parts)


def _set(config: DictConfig, dotted: str, value: Any) -> None:
    try:
        OmegaConf.update(config, dotted, value, merge=True, force_add=True)
    except OmegaConfBaseException as error:
        raise UsageError(_in_two_lines(error)) from None


def _in_two_lines(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{cause.full_key}: {str(cause.msg or cause).splitlines()[0]}"
    if isinstance(error, OverrideParseException) and "Lexer" in str(error):
        return f"{error.override} cannot be read: put quotes around a value with special characters"
    told = str(error).partition("Config search path")[0]
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    if isinstance(error, yaml.YAMLError):
        return " ".join(lines)
    return "\n".join([lines[0], ", ".join(lines[1:])]).replace("':, ", "': ").strip()
