"""Combinations that are known not to work with some versions of torch, and why.

They are listed in `exclusions.yaml`. This module knows nothing of torch: it is told the version.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from src.models import MODELS, ModelSpec
from src.optimizers import OPTIMIZERS, OptimizerSpec
from src.rules import SpecError, listed
from src.schedulers import SCHEDULERS, SchedulerSpec
from src.spec import BACKENDS, RunSpec
from src.workloads import WORKLOADS

FILE = Path(__file__).with_name("exclusions.yaml")

_STATUSES = ("unsupported", "excluded")
_NEEDED = ("match", "torch", "status", "reason", "source")
_OPTIONAL = ("unless",)
_DEVICE = "device"


class ExclusionsError(ValueError):
    """The file of exclusions is wrong; the message has the file, the entry and the rule."""


@dataclass(frozen=True)
class Exclusion:
    """One entry of the file."""

    match: Mapping[str, tuple[Any, ...]]
    """Values of each dotted key; all keys must fit."""
    unless: Mapping[str, tuple[Any, ...]]
    """As `match`; one key that fits lifts the exclusion."""
    torch: SpecifierSet
    status: str
    reason: str
    source: str

    def holds(self, spec: RunSpec, device_type: str, torch_version: str) -> bool:
        """Return whether a run is one of those that the entry means.

        A local version (2.11.0+cu130) and a pre-release (2.14.0.dev20260101) count as the version
        that they belong to.
        """
        if not self.torch.contains(Version(torch_version).base_version):
            return False
        fits = [value in wanted for value, wanted in _values(spec, device_type, self.match)]
        lifted = [value in wanted for value, wanted in _values(spec, device_type, self.unless)]
        return len(fits) == len(self.match) and all(fits) and not any(lifted)


def find(spec: RunSpec, device_type: str, torch_version: str) -> Exclusion | None:
    """Return the first exclusion that a run falls under, None when it may be tried.

    Args:
        spec: the run.
        device_type: where its parameters are, `cpu` or `cuda`.
        torch_version: `torch.__version__`.
    """
    return next((e for e in load() if e.holds(spec, device_type, torch_version)), None)


_NAMES = {
    **{group: f"{group}.name" for group in ("workload", "model", "optimizer", "scheduler", "measure")},
    "compile": "compile.backend",
}
"""Groups that a rule may name by the choice, and the key that has it."""


def check_rules(spec: RunSpec, names: Mapping[str, Collection[str]]) -> None:
    """Refuse a rule of `exclude` that no run could fit.

    Args:
        spec: the run, with the rules.
        names: choices of a group that are known besides torch's: those of the sweep.

    Raises:
        SpecError: a rule is empty, names no key, or a choice that there is not.
    """
    for number, rule in enumerate(spec.exclude):
        where = f"exclude[{number}]"
        if not rule:
            raise SpecError(f"{where} must name at least one key: it would leave out every run")
        for name, value in rule.items():
            if name not in _NAMES and name not in _keys():
                raise SpecError(
                    f"{where}: {name} is not a key: name one of {listed(_NAMES)}, or a dotted key such as "
                    "optimizer.lr"
                )
            known = {*_CHOICE_NAMES.get(name, ()), *names.get(name, ())}
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    raise SpecError(f"{where}: {name} must be a value or a list of values: got {each}")
                if name in _CHOICE_NAMES and each not in known:
                    raise SpecError(f"{where}: {name} must be one of {listed(known)}: got {each!r}")


def rule_for(spec: RunSpec, device_type: str) -> str | None:
    """Return the first rule of `exclude` that a run falls under, in words; None when it may run.

    Args:
        spec: the run.
        device_type: where its parameters are, `cpu` or `cuda`.
    """
    for rule in spec.exclude:
        wanted = {
            _NAMES.get(name, name): tuple(value) if isinstance(value, list) else (value,)
            for name, value in rule.items()
        }
        fits = [value in these for value, these in _values(spec, device_type, wanted)]
        if len(fits) == len(wanted) and all(fits):
            told = ", ".join(f"{name}: {_shown(value)}" for name, value in rule.items())
            return f"exclude: {{{told}}}"
    return None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@cache
def load(file: Path = FILE) -> tuple[Exclusion, ...]:
    """Return the entries of a file, checked.

    Raises:
        ExclusionsError: the file has something that no run could fit, or lacks what it needs.
    """
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ExclusionsError(f"{file}: {' '.join(str(error).split())}") from None
    if not isinstance(entries, list):
        raise ExclusionsError(f"{file} must be a list of exclusions: got {entries!r}")
    return tuple(_exclusion(f"{file}, entry {number}", e) for number, e in enumerate(entries, 1))


def _exclusion(where: str, entry: Any) -> Exclusion:
    if not isinstance(entry, dict):
        raise ExclusionsError(f"{where} must be a mapping: got {entry!r}")
    for name in entry:
        if name not in (*_NEEDED, *_OPTIONAL):
            raise ExclusionsError(f"{where}: {name} is not a key: there are {listed((*_NEEDED, *_OPTIONAL))}")
    for name in _NEEDED:
        if not entry.get(name):
            raise ExclusionsError(f"{where}: {name} has no value: set it")
    for name in ("torch", "reason", "source"):
        if not isinstance(entry[name], str):
            raise ExclusionsError(f"{where}: {name} must be text: got {entry[name]!r}")
    if entry["status"] not in _STATUSES:
        raise ExclusionsError(f"{where}: status must be one of {listed(_STATUSES)}: got {entry['status']!r}")
    try:
        versions = SpecifierSet(entry["torch"])
    except InvalidSpecifier:
        raise ExclusionsError(
            f"{where}: torch must be a range of versions such as >=2.9,<2.12: got {entry['torch']!r}"
        ) from None
    return Exclusion(
        match=_conditions(f"{where}: match", entry["match"]),
        unless=_conditions(f"{where}: unless", entry.get("unless") or {}),
        torch=versions,
        status=entry["status"],
        reason=entry["reason"],
        source=entry["source"],
    )


def _conditions(where: str, conditions: Any) -> dict[str, tuple[Any, ...]]:
    if not isinstance(conditions, dict):
        raise ExclusionsError(f"{where} must be a mapping of keys to values: got {conditions!r}")
    for dotted in conditions:
        if dotted not in _keys():
            raise ExclusionsError(f"{where}: {dotted} is not a key of any choice")
    return {k: tuple(v) if isinstance(v, list) else (v,) for k, v in conditions.items()}


@cache
def _keys() -> frozenset[str]:
    """Return the dotted key of every value that a run may have."""
    return frozenset(_below([RunSpec], ""))


def _below(kinds: Iterable[type[Any]], path: str) -> Iterator[str]:
    for kind in kinds:
        for f in fields(kind):
            dotted = f"{path}{f.name}"
            if f.type in _CHOICES:
                # What a composite scheduler is made of is no key: its parts have no end.
                if path == "":
                    if f.type is not ModelSpec:
                        yield f"{dotted}.torch_class"
                    yield from _below(_CHOICES[f.type], f"{dotted}.")
            elif isinstance(f.type, type) and is_dataclass(f.type):
                yield from _below([f.type], f"{dotted}.")
            else:
                yield dotted


_CHOICES: dict[Any, list[type[Any]]] = {
    ModelSpec: list(MODELS.values()),
    OptimizerSpec: list(OPTIMIZERS.values()),
    SchedulerSpec: list(SCHEDULERS.values()),
}


_CHOICE_NAMES: dict[str, list[str]] = {
    "optimizer": [*OPTIMIZERS],
    "scheduler": [*SCHEDULERS],
    "workload": [*WORKLOADS],
    "compile": [*BACKENDS],
}
"""Groups whose choices are known; models and measures are whatever a YAML calls so."""


def _values(
    spec: RunSpec, device_type: str, conditions: Mapping[str, tuple[Any, ...]]
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the value of each key that the run has, and the values it should have."""
    for dotted, wanted in conditions.items():
        try:
            value = device_type if dotted == _DEVICE else reduce(getattr, dotted.split("."), spec)
        except AttributeError:  # such as optimizer.capturable of SGD
            continue
        yield value, wanted
