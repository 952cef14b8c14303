"""Which cells of two sides are the same thing, measured with other versions or on another machine.

A cell is known by what was measured. Where and with what it was measured tells two cells of one side
apart only where one side has several. Knows nothing of numbers.
"""

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from src import record
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.facts import CELL_AXES, CELL_FACTS, JSON_AXES, columns_of
from src.analysis.outcomes import OK, TRACED
from src.analysis.rows import Row, Rows

MACHINE_AXES: tuple[str, ...] = (
    *("device", "threads", "pinned_cpus", "keep_memory", "compile_cache", "measure"),
    *record.MACHINE_FACTS,
)
"""Axes on which two sides may differ and still be compared: where and how it was measured."""

_WORKLOAD = tuple(name for name in CELL_AXES if name not in MACHINE_AXES)


class MatchError(ValueError):
    """Cells cannot be matched; the message says which, and how to choose."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The cells of two sides, each once."""

    pairs: tuple[tuple[Cell, Cell], ...]  # base and new, in the order of the base
    vanished: tuple[Cell, ...]  # in the base alone
    appeared: tuple[Cell, ...]  # in the new side alone


def ignored_axis(name: str) -> str:
    """Return `name` if it is an axis.

    Raises:
        MatchError: it is none.
    """
    if name in CELL_FACTS:
        return name
    near = difflib.get_close_matches(name, CELL_FACTS, n=3, cutoff=0.5) or CELL_AXES
    raise MatchError(f"--ignore must be an axis: got {name!r}, some are: {', '.join(near)}")


def without_unknown(
    base: Sequence[Cell], new: Sequence[Cell], base_rows: Sequence[Row], new_rows: Sequence[Row]
) -> tuple[tuple[Cell, ...], tuple[Cell, ...], dict[str, tuple[Any, Any]]]:
    """Return the cells without arguments that the rows of one side do not know, and those arguments.

    A later stepsweep records arguments that an earlier one had no choice of. Where the rows of one
    side that have a choice of optimizer or scheduler never name an argument, not even as null, and all
    of the other side give it one value, then it tells no cells apart. The arguments are named as
    `optimizer_args.NAME`, with the value on each side; None where it is unknown.
    """
    of_base, of_new = _arguments(Rows.of(base_rows)), _arguments(Rows.of(new_rows))
    dropped: dict[tuple[str, Any], set[str]] = {}
    told: dict[str, tuple[Any, Any]] = {}
    for choice in of_base.keys() & of_new.keys():
        ours, theirs = of_base[choice], of_new[choice]
        for name in sorted(ours.keys() ^ theirs.keys()):
            values = ours.get(name) or theirs[name]
            if len(values) == 1:
                (value,) = values
                dropped.setdefault(choice, set()).add(name)
                told[f"{choice[0]}.{name}"] = (value, None) if name in ours else (None, value)
    if not dropped:
        return tuple(base), tuple(new), {}
    stripped = [tuple(_stripped(cell, dropped) for cell in side) for side in (base, new)]
    return stripped[0], stripped[1], told


def _arguments(rows: Rows) -> dict[tuple[str, Any], dict[str, set[str]]]:
    """Return the values, as JSON, of each argument that rows name, by axis and choice."""
    found: dict[tuple[str, Any], dict[str, set[str]]] = {}
    for axis in JSON_AXES:
        choices, texts = rows.column(axis.removesuffix("_args")), rows.column(axis)
        for choice, text in set(zip(choices, texts, strict=True)):
            known = found.setdefault((axis, choice), {})
            for name, value in _parsed(text).items():
                known.setdefault(name, set()).add(json.dumps(value, sort_keys=True))
    return found


def _stripped(cell: Cell, dropped: Mapping[tuple[str, Any], set[str]]) -> Cell:
    facts = dict(cell.facts)
    for axis in JSON_AXES:
        names = dropped.get((axis, facts[axis.removesuffix("_args")]), set())
        if names:
            kept = {name: value for name, value in _parsed(facts[axis]).items() if name not in names}
            facts[axis] = json.dumps(kept, sort_keys=True)
    return replace(cell, facts=facts)


def _parsed(text: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def common_without(base: Sequence[Cell], new: Sequence[Cell]) -> dict[str, int]:
    """Return how many kinds of cells both sides would have but for one axis, for each that helps."""
    found = {}
    for axis in _WORKLOAD:
        names = [name for name in _WORKLOAD if name != axis]
        common = len({*_keys(base, names)} & {*_keys(new, names)})
        if common:
            found[axis] = common
    return found


def match(base: Sequence[Cell], new: Sequence[Cell], ignored: Iterable[str] = ()) -> Matching:
    """Match cells that are equal on all axes, apart from `ignored` ones and `MACHINE_AXES`.

    Where one side has several cells that differ in `MACHINE_AXES` alone, those axes on which they
    differ must agree too.

    Raises:
        MatchError: it is ambiguous which cells belong together.
    """
    skipped = set(ignored)
    names = [name for name in _WORKLOAD if name not in skipped]
    of_base, of_new = _grouped(base, names), _grouped(new, names)
    partner: dict[int, Cell] = {}
    for group, ours in of_base.items():
        for cell, other in _matched(ours, of_new.get(group, []), skipped):
            partner[id(cell)] = other
    taken = {id(other) for other in partner.values()}
    return Matching(
        pairs=tuple((cell, partner[id(cell)]) for cell in base if id(cell) in partner),
        vanished=tuple(cell for cell in base if id(cell) not in partner),
        appeared=tuple(cell for cell in new if id(cell) not in taken),
    )


def differences(pairs: Sequence[tuple[Cell, Cell]]) -> dict[str, Counter[tuple[Any, Any]]]:
    """Return the facts in which matched cells differ: base and new value, and of how many pairs."""
    of_base, of_new = (columns_of(pair[side].facts for pair in pairs) for side in (0, 1))
    found = {
        name: Counter(both for both in zip(of_base[name], of_new[name], strict=True) if both[0] != both[1])
        for name in CELL_FACTS
    }
    return {name: counts for name, counts in found.items() if counts}


def _keys(cells: Sequence[Cell], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the facts of these names of each cell."""
    columns = columns_of(cell.facts for cell in cells)
    return list(zip(*(columns[name] for name in names), strict=True)) if names else [()] * len(cells)


def _grouped(cells: Sequence[Cell], names: Sequence[str]) -> dict[tuple[Any, ...], list[Cell]]:
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for key, cell in zip(_keys(cells, names), cells, strict=True):
        groups.setdefault(key, []).append(cell)
    return groups


def _matched(base: list[Cell], new: list[Cell], skipped: set[str]) -> list[tuple[Cell, Cell]]:
    """Return the pairs among cells of one thing: one for one, or those that agree where a side varies."""
    if not base or not new:
        return []
    if len(base) == len(new) == 1:
        return [(base[0], new[0])]
    varying = [n for n in MACHINE_AXES if n not in skipped and (_varies(base, n) or _varies(new, n))]
    of_base, of_new = _grouped(base, varying), _grouped(new, varying)
    for name, groups in (("BASE", of_base), ("NEW", of_new)):
        alike = next((group for group in groups.values() if len(group) > 1), None)
        if alike:
            raise MatchError(_alike(name, alike))
    pairs = [(cells[0], of_new[values][0]) for values, cells in of_base.items() if values in of_new]
    if pairs:
        return pairs
    # Runs that failed before they could say where they ran must not stand in the way.
    good_base, good_new = ([c for c in side if _good(c)] or side for side in (base, new))
    if len(good_base) == len(good_new) == 1:
        return [(good_base[0], good_new[0])]
    raise MatchError(_ambiguous(good_base, good_new, varying))


def _varies(cells: Sequence[Cell], name: str) -> bool:
    return len({cell.facts[name] for cell in cells}) > 1


def _good(cell: Cell) -> bool:
    return OK in cell.outcomes or TRACED in cell.outcomes


def _alike(side: str, cells: Sequence[Cell]) -> str:
    differ = [name for name in CELL_FACTS if _varies(cells, name)]
    return (
        f"{side} has {len(cells)} cells of {_name(cells[0])} that differ in what --ignore leaves out alone: "
        f"{_values(cells, differ)}\nchoose one with --{side.lower()}-where {differ[0]}=VALUE"
    )


def _ambiguous(base: Sequence[Cell], new: Sequence[Cell], varying: Sequence[str]) -> str:
    names = [name for name in varying if _varies(base, name) or _varies(new, name)]
    side = "new" if _varies(new, names[0]) else "base"
    return (
        f"cells of {_name(base[0])} match in several ways: BASE has {_values(base, names)}; "
        f"NEW has {_values(new, names)}\nchoose with --{side}-where {names[0]}=VALUE"
    )


def _name(cell: Cell) -> str:
    facts: Mapping[str, Any] = cell.facts
    return ", ".join(
        fmt.shorten(fmt.value(facts[name]), 40) for name in ("model", "optimizer", "compile_mode")
    )


def _values(cells: Sequence[Cell], names: Sequence[str]) -> str:
    words = [
        f"{name} " + " and ".join(dict.fromkeys(fmt.shorten(fmt.value(c.facts[name]), 60) for c in cells))
        for name in names
    ]
    return fmt.listed(words)
