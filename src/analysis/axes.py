"""Which axes tell the cells of a summary apart, and the words for their values.

An axis here is a column of the table: the optimizer with those of its arguments that differ, the
learning rate with the device of its tensor, and so on. Raw JSON never reaches a reader.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.facts import LATER_AXES

Label = Callable[[Cell], str]

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
    def varies(self) -> bool:
        """Whether two cells differ in it."""
        return len(set(self.labels)) > 1


def axes_of(cells: Sequence[Cell]) -> tuple[Axis, ...]:
    """Return every axis with a label for each cell, in the order in which a table shows them."""
    workload: list[tuple[str, Label]] = [
        *((name, _plain(name)) for name in ("model", "width", "depth", "bias", "dtype", *_LAYERS)),
        *((name, _plain(name)) for name in ("workload", *_OF_TRAINING)),
        ("optimizer", _with_arguments(cells, "optimizer")),
        ("scheduler", _with_arguments(cells, "scheduler")),
        ("lr", _learning_rate),
    ]
    compiling: list[tuple[str, Label]] = [
        (name, _plain(f"compile_{name}"))
        for name in ("backend", "mode", "target", "fullgraph", "dynamic", "cache")
    ]
    rest: list[tuple[str, Label]] = [
        *((name, _plain(name)) for name in ("device", "threads")),
        ("pinned_cpus", _pinned),
        *((name, _plain(name)) for name in ("grads", "flush_cache", "keep_memory", "measure")),
    ]
    machine: list[tuple[str, Label]] = [
        ("host", _plain("hostname", "-")),
        ("cpu", _plain("cpu", "-")),
        ("gpu", _plain("gpu", "-")),
        ("torch", _plain("torch_version", "-")),
        ("cuda", _plain("cuda_version", "-")),
    ]
    kinds = (("workload", workload), ("compile", compiling), ("workload", rest), ("machine", machine))
    return tuple(
        Axis(title, kind, tuple(label(cell) for cell in cells))
        for kind, group in kinds
        for title, label in group
    )


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


def _plain(column: str, none: str = "null") -> Label:
    known: dict[tuple[type, Any], str] = {}

    def label(cell: Cell) -> str:
        raw = cell.facts[column]
        key = (type(raw), raw)  # 1 and true are equal, and read differently
        if key not in known:
            known[key] = none if raw is None else fmt.value(raw)
        return known[key]

    return label


def _pinned(cell: Cell) -> str:
    """Return the CPUs in brackets, as on the command line: a list of labels has commas of its own."""
    cpus = cell.facts["pinned_cpus"]
    return "null" if cpus is None else f"[{fmt.value(cpus)}]"


def _learning_rate(cell: Cell) -> str:
    if cell.facts["lr_as_tensor"] is None:
        return "null"
    if not cell.facts["lr_as_tensor"]:
        return "float"
    device = cell.facts["lr_device"]
    return f"{fmt.plain(device)} tensor" if device else "tensor"


def _with_arguments(cells: Sequence[Cell], axis: str) -> Label:
    """Return a label such as `adam(foreach=true)`: the arguments that differ for that choice."""
    kinds = {(cell.facts[axis], cell.facts[f"{axis}_args"]) for cell in cells}
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

    labels = {kind: words(kind) for kind in kinds}
    return lambda cell: labels[cell.facts[axis], cell.facts[f"{axis}_args"]]


def _parsed(text: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def reordered(axes: Sequence[Axis], order: Sequence[int]) -> tuple[Axis, ...]:
    """Return the axes of the cells in another order, which need no new labels."""
    return tuple(Axis(a.title, a.kind, tuple(a.labels[i] for i in order)) for a in axes)
