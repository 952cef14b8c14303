"""What a row is about: the axes and the machine that tell cells apart, in one spelling.

Knows nothing of what was measured.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from src import record
from src.analysis.rows import Rows

CELL_AXES: tuple[str, ...] = tuple(name for name in record.AXES if name != "seed")
"""Axes that tell cells apart. Rows that differ in the seed alone repeat one cell."""

CELL_FACTS: tuple[str, ...] = (*CELL_AXES, *record.MACHINE_FACTS)

JSON_AXES = ("model_args", "optimizer_args", "scheduler_args")

LATER_AXES: Mapping[str, Any] = {
    **{"param_groups": "one", "frozen_layers": 0, "layers_without_grad": 0},
    **{"grads": "fresh", "flush_cache": False},
    **{"workload": "optimizer_step", "compile_target": "step"},
}
"""Axes that rows of early schema versions lack, and the value that all those rows were measured with."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What each row is about; rows of one cell have the same."""

    keys: list[tuple[Any, ...]]  # of each row, in the order of `CELL_FACTS`

    def of(self, key: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return a key with the names of its items."""
        return _Named(key)


def facts_of(rows: Rows) -> Facts:
    """Return what each row is about.

    A row of an early schema version has the value that it was measured with. The order of the keys of
    JSON says nothing, and a null argument is one that is not given. A run that ended before it could say
    where it ran has the machine of its sweep.
    """
    columns = {name: rows.column(name) for name in CELL_FACTS}
    for name, usual in LATER_AXES.items():
        columns[name] = [usual if value is None else value for value in columns[name]]
    for name in JSON_AXES:
        columns[name] = [_spelled(text) for text in columns[name]]
    columns |= _machines(rows, columns)
    return Facts(list(zip(*columns.values(), strict=True)))


def columns_of(facts: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the facts of several cells by the column, each in the order of the cells."""
    keys = [
        each.key if isinstance(each, _Named) else tuple(map(each.__getitem__, CELL_FACTS)) for each in facts
    ]
    columns: Iterable[tuple[Any, ...]] = zip(*keys, strict=True) if keys else [()] * len(CELL_FACTS)
    return dict(zip(CELL_FACTS, columns, strict=True))


_PLACES = {name: place for place, name in enumerate(CELL_FACTS)}


class _Named(Mapping[str, Any]):
    """A key of a cell by the names of its items; many cells share the values."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __getitem__(self, name: str) -> Any:
        return self.key[_PLACES[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(CELL_FACTS)

    def __len__(self) -> int:
        return len(CELL_FACTS)

    def __repr__(self) -> str:
        return repr(dict(self))


@cache
def _spelled(text: str | None) -> str | None:
    try:
        arguments = json.loads(text or "")
    except (ValueError, RecursionError):
        return text
    if not isinstance(arguments, dict):
        return text
    return json.dumps({k: v for k, v in arguments.items() if v is not None}, sort_keys=True)


_MACHINE = ("device", "threads", *record.MACHINE_FACTS)


def _machines(rows: Rows, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the columns of the machine, filled in for rows that ended before they could say where they ran.

    Only where the other rows of the sweep leave no doubt: one machine that fits what is known.
    """
    sweeps, torches, statuses = (rows.column(name) for name in ("sweep_id", "torch_version", "status"))
    told = list(zip(*(columns[name] for name in _MACHINE), strict=True))
    lost = [i for i, torch in enumerate(torches) if torch is None and statuses[i] != "ok"]
    if not lost:
        return {}
    known: dict[Any, set[tuple[Any, ...]]] = {}
    for sweep, torch, machine in zip(sweeps, torches, told, strict=True):
        if torch is not None:
            known.setdefault(sweep, set()).add(machine)
    for place in lost:
        fitting = [machine for machine in known.get(sweeps[place], ()) if _fits(told[place], machine)]
        if len(fitting) == 1:
            told[place] = fitting[0]
    return dict(zip(_MACHINE, map(list, zip(*told, strict=True)), strict=True))


def _fits(told: tuple[Any, ...], machine: tuple[Any, ...]) -> bool:
    return all(mine is None or mine == other for mine, other in zip(told, machine, strict=True))
