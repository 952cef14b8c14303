"""Rules about single configuration values, declared where the value is declared.

`key` declares a dataclass field with its meaning and rules; `check_keys` and `check_fields` hold a
composed config and its objects against them. Every message has the dotted key, the rule, and what
came. Knows nothing of any particular key.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, get_origin

from omegaconf import MISSING, DictConfig, OmegaConf


class SpecError(ValueError):
    """A configuration value breaks a rule; the message names the dotted key and the rule."""


def key(
    meaning: str,
    *,
    choices: tuple[str, ...] | None = None,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    pattern: str | None = None,
    length: int | None = None,
) -> Any:
    """Declare a configuration key: what it means and which values it may take.

    The rules hold for the value, or for each item of a list; null breaks none. Without a default:
    `conf/` sets it.
    """
    rules = {
        "choices": choices,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "below": below,
        "pattern": pattern,
        "length": length,
    }
    given = {name: rule for name, rule in rules.items() if rule is not None}
    return field(default=MISSING, metadata={"meaning": meaning, **given})


def check_keys(config: DictConfig, path: str = "") -> None:
    """Refuse keys that the schema lacks or misses: `+key=value` on a command line opens any node.

    Raises:
        SpecError: a key is unknown, was removed, or has no value.
    """
    node_type = OmegaConf.get_type(config)
    if not is_dataclass(node_type):
        raise SpecError(f"{path or 'the configuration'} is not made from its schema")
    known = {f.name: f for f in fields(node_type)}
    for name in map(str, config):
        dotted = f"{path}.{name}" if path else name
        if name not in known:
            where = path or "the top level"
            raise SpecError(f"{dotted} is not a key: {where} has {listed(known)}")
        if OmegaConf.is_missing(config, name):
            raise SpecError(f"{dotted} has no value: set it")
    # After all are seen to have a value: one may be the interpolation of another.
    for name in map(str, config):
        child = config[name]
        if isinstance(child, DictConfig) and not _is_free(known[name]):
            check_keys(child, f"{path}.{name}" if path else name)
    for name in sorted(known.keys() - set(map(str, config))):
        raise SpecError(f"{f'{path}.{name}'.lstrip('.')} was removed: every key is needed")


def _is_free(f: Field[Any]) -> bool:
    """Return whether the keys of a field are the user's own: it is a dict."""
    return get_origin(f.type) is dict


def check_fields(node: Any, path: str = "") -> None:
    """Hold the fields of a dataclass object, and of those in it, against their rules.

    Raises:
        SpecError: a value breaks a rule.
    """
    for f in fields(node):
        dotted = f"{path}.{f.name}" if path else f.name
        value = getattr(node, f.name)
        if is_dataclass(value):
            check_fields(value, dotted)
        elif _is_free(f):
            _check_plain(dotted, value)
        elif isinstance(value, list):
            _check_length(dotted, value, f.metadata)
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    _check_plain(f"{dotted}[{index}]", item)
                else:
                    _check_value(dotted, item, f.metadata)
        else:
            _check_value(dotted, value, f.metadata)


def _check_plain(dotted: str, value: Any) -> None:
    """Refuse a value of the user's own that JSON cannot hold, and so no row could."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise SpecError(f"{dotted} must have text as its keys: got {name!r}")
            _check_plain(f"{dotted}.{name}", item)
    elif isinstance(value, list):
        for item in value:
            _check_plain(dotted, item)
    elif value is None or isinstance(value, str | int | float):
        _check_value(dotted, value, {})
    else:
        raise SpecError(
            f"{dotted} must be text, a number, true, false, null, a list or a mapping: got {value!r}"
        )


def _check_length(dotted: str, value: list[Any], rules: Mapping[str, Any]) -> None:
    length = rules.get("length")
    if length is not None and len(value) != length:
        raise SpecError(f"{dotted} must have {length} items: got {value}")


def _check_value(dotted: str, value: Any, rules: Mapping[str, Any]) -> None:
    if value is None:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{dotted} must be a finite number: got {value}")
    if "choices" in rules and value not in rules["choices"]:
        raise SpecError(f"{dotted} must be one of {listed(rules['choices'])}: got {value!r}")
    if "at_least" in rules and value < rules["at_least"]:
        raise SpecError(f"{dotted} must be at least {rules['at_least']}: got {value}")
    if "above" in rules and value <= rules["above"]:
        raise SpecError(f"{dotted} must be above {rules['above']}: got {value}")
    if "at_most" in rules and value > rules["at_most"]:
        raise SpecError(f"{dotted} must be at most {rules['at_most']}: got {value}")
    if "below" in rules and value >= rules["below"]:
        raise SpecError(f"{dotted} must be below {rules['below']}: got {value}")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise SpecError(f"{dotted} must be below 2**63: got {value}")
    if "pattern" in rules and not re.fullmatch(rules["pattern"], value):
        raise SpecError(f"{dotted} must match {rules['pattern']}: got {value!r}")


def listed(names: Iterable[str]) -> str:
    """Return names for a message: in their own order if they have one, else sorted."""
    return ", ".join(names if isinstance(names, tuple) else sorted(names))
