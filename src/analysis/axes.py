"""Which axes tell the cells of a summary apart, and the words for their values.

An axis here is a column of the table: the optimizer with those of its arguments that differ, the
learning rate with the device of its tensor, and so on. Raw JSON never reaches a reader.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.facts import LATER_AXES, columns_of

Columns = Mapping[str, Sequence[Any]]
"""Facts of all cells."""

Labels = Callable[[Columns], tuple[str, ...]]
"""What gives each cell its label on an axis."""

_LAYERS = ("second_dtype", "param_groups", "frozen_layers", "layers_without_grad")

_OF_TRAINING = ("batch_size", "amp", "channels_last", "image_size", "sequence_length", "set_to_none")

USUAL = frozenset((name.removeprefix("compile_"), fmt.value(value)) for name, value in LATER_AXES.items())
"""Titles and labels of axes not worth a word where all cells have them."""


@dataclass(frozen=True)
class Axis:
    """One axis over all cells of a summary."""

    title: str
    kind: str  # workload, compile or machine
    labels: tuple[str, ...]  # of each cell, in the order of the cells

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Each label once, in the order of the cells."""
        return tuple(dict.fromkeys(self.labels))

    @property
    def varies(self) -> bool:
        """Whether two cells differ in it."""
        return len(self.values) > 1


def axes_of(cells: Sequence[Cell]) -> tuple[Axis, ...]:
    """Return every axis with a label for each cell, in the order in which a table shows them."""
    workload: list[tuple[str, Labels]] = [
        ("model", _with_arguments("model")),
        *((name, _plain(name)) for name in ("width", "depth", "bias", "dtype", *_LAYERS)),
        *((name, _plain(name)) for name in ("workload", *_OF_TRAINING)),
        *((name, _with_arguments(name)) for name in ("optimizer", "scheduler")),
        ("lr", _learning_rates),
    ]
    compiling: list[tuple[str, Labels]] = [
        (name, _plain(f"compile_{name}"))
        for name in ("backend", "mode", "target", "fullgraph", "dynamic", "cache")
    ]
    compiling.append(("baseline", _plain("baseline")))  # what compiling is compared with
    rest: list[tuple[str, Labels]] = [
        *((name, _plain(name)) for name in ("device", "threads")),
        ("pinned_cpus", _pinned),
        *((name, _plain(name)) for name in ("grads", "flush_cache", "keep_memory", "measure")),
    ]
    machine: list[tuple[str, Labels]] = [
        ("host", _plain("hostname", "-")),
        ("cpu", _plain("cpu", "-")),
        ("gpu", _plain("gpu", "-")),
        ("torch", _plain("torch_version", "-")),
        ("cuda", _plain("cuda_version", "-")),
    ]
    kinds = (("workload", workload), ("compile", compiling), ("workload", rest), ("machine", machine))
    columns = columns_of(cell.facts for cell in cells)
    return tuple(Axis(title, kind, labels(columns)) for kind, group in kinds for title, labels in group)


def implied(axes: Sequence[Axis], title: str) -> tuple[str, ...]:
    """Return the varying axes whose labels follow from those of the axis `title`.

    A choice of model sets its width and depth: showing all three would say one thing thrice. The
    GPU likewise follows from the device.
    """
    followers = {"model": ("width", "depth", "bias", "dtype", *_LAYERS), "device": ("gpu", "keep_memory")}[
        title
    ]
    leader = next(axis for axis in axes if axis.title == title)
    if not leader.varies:
        return ()
    return tuple(
        axis.title
        for axis in axes
        if axis.title in followers
        and axis.varies
        and len(set(zip(leader.labels, axis.labels, strict=True))) == len(set(leader.labels))
    )


def _worded(values: Sequence[Any], words: Callable[[Any], str]) -> tuple[str, ...]:
    """Return the words for each value, which are made once for equal ones."""
    kinds = list(zip(map(type, values), values, strict=True))  # 1 and true are equal, and read differently
    known = {kind: words(kind[1]) for kind in set(kinds)}
    return tuple(map(known.__getitem__, kinds))


def _plain(column: str, none: str = "null") -> Labels:
    return lambda columns: _worded(columns[column], lambda raw: none if raw is None else fmt.value(raw))


def _pinned(columns: Columns) -> tuple[str, ...]:
    """Return the CPUs in brackets, as on the command line: a list of labels has commas of its own."""
    return _worded(columns["pinned_cpus"], lambda cpus: "null" if cpus is None else f"[{fmt.value(cpus)}]")


def _learning_rates(columns: Columns) -> tuple[str, ...]:
    return _worded(list(zip(columns["lr_as_tensor"], columns["lr_device"], strict=True)), _learning_rate)


def _learning_rate(lr: tuple[bool | None, str | None]) -> str:
    as_tensor, device = lr
    if as_tensor is None:
        return "null"
    if not as_tensor:
        return "float"
    return f"{fmt.plain(device)} tensor" if device else "tensor"


def _with_arguments(axis: str) -> Labels:
    """Return labels such as `adam(foreach=true)`: the arguments that differ for that choice."""

    def labels(columns: Columns) -> tuple[str, ...]:
        kinds = list(zip(columns[axis], columns[f"{axis}_args"], strict=True))
        return _worded(kinds, _differing_arguments(set(kinds)))

    return labels


def _differing_arguments(kinds: Collection[tuple[Any, Any]]) -> Callable[[tuple[Any, Any]], str]:
    """Return what words a choice with those arguments in which it differs among `kinds`."""
    arguments = {kind: _parsed(kind[1]) for kind in kinds}
    names: dict[Any, set[str]] = defaultdict(set)
    for (choice, _), given in arguments.items():
        names[choice].update(given)
    seen: dict[tuple[Any, str], set[str]] = defaultdict(set)
    for (choice, _), given in arguments.items():
        for name in names[choice]:
            seen[choice, name].add(fmt.value(given.get(name)))

    def words(kind: tuple[Any, Any]) -> str:
        shown = [
            f"{fmt.plain(name)}={fmt.value(raw)}"
            for name, raw in arguments[kind].items()
            if raw is not None and len(seen[kind[0], name]) > 1
        ]
        return fmt.value(kind[0]) + (f"({', '.join(shown)})" if shown else "")

    return words


def arguments_of(cell: Cell, axis: str) -> dict[str, Any]:
    """Return the arguments of a cell's optimizer or scheduler, empty where they cannot be read."""
    return _parsed(cell.facts[f"{axis}_args"])


def _parsed(text: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def reordered(axes: Sequence[Axis], order: Sequence[int]) -> tuple[Axis, ...]:
    """Return the axes of the cells in another order, which need no new labels."""
    return tuple(Axis(a.title, a.kind, tuple(map(a.labels.__getitem__, order))) for a in axes)


def apart(keys: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return keys of which none is there twice: cells may differ in what their labels do not show."""
    seen: dict[tuple[str, ...], int] = {}
    result = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        result.append(key if seen[key] == 1 else (*key[:-1], f"{key[-1]} [{seen[key]}]"))
    return result
