"""The files of `experiments/`, as far as a table needs them: its layout, and what was published.

A file is a preset that Hydra composes. The part read here has no interpolation and no reference to
another file, so that plain YAML says all of it. What is wrong is told by file and dotted key.
"""

import difflib
import math
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src import paths
from src.analysis.axes import axes_of
from src.analysis.contents import CONTENTS
from src.analysis.selection import Condition, Selection, SelectionError, condition, select

PARAMETERS = "parameters"
"""Not an axis, since it follows from the model, but what tables of sizes are labelled with."""

INTERVALS = ("footnotes", "inline", "none")
MIXED = ("split", "refuse")

_KEYS = ("rows", "columns", "cells", "where", "sort", "intervals", "mixed")
_WORDS = ("label", "hardware", "source")
_WITH_ARGUMENTS = ("optimizer.", "scheduler.")  # as optimizer.foreach: an argument, also one no label shows


class ExperimentError(ValueError):
    """A file of an experiment cannot be used; the message has the file, the key and the rule."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """How a table is laid out."""

    rows: tuple[str, ...]  # axes whose values label the lines
    columns: str | None  # axis whose values make groups of columns
    cells: tuple[str, ...]  # names of contents, side by side in each group
    where: tuple[Condition, ...]
    sort: tuple[tuple[str, bool], ...]  # axis or content, and whether it descends
    intervals: str  # of `INTERVALS`
    mixed: str  # of `MIXED`


@dataclass(frozen=True, slots=True)
class Reference:
    """Published numbers, and where in a table they stand."""

    label: str
    at: Mapping[str, Any]  # value on axes; empty: of the whole table
    numbers: Mapping[str, float]  # by content
    hardware: str
    source: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a file says about its table."""

    file: Path
    name: str | None
    title: str | None
    table: TableSpec
    references: tuple[Reference, ...]


def axis_titles() -> tuple[str, ...]:
    """Return what lines and columns of a table can be labelled with."""
    return (*(axis.title for axis in axes_of(())), PARAMETERS)


def find(name: str) -> Path:
    """Return the file of an experiment, or the file itself when a path is given.

    Raises:
        ExperimentError: there is none; the message names those that there are.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        if not Path(name).is_file():
            what = "not a file" if Path(name).exists() else "no such file"
            raise ExperimentError(f"{what}: {name}")
        return Path(name)
    folders = [Path("experiments"), paths.share_root() / "experiments"]
    known = {file.stem: file for folder in reversed(folders) for file in sorted(folder.glob("*.yaml"))}
    if name not in known:
        raise ExperimentError(f"there is no experiments/{name}.yaml{_near(name, known)}")
    return known[name]


def read(file: Path) -> Experiment:
    """Return the table and the published values of a file.

    Raises:
        ExperimentError: the file is no YAML, has no table, or a key breaks a rule.
        OSError: it cannot be read.
    """
    content = _loaded(file)
    preset = content.get("experiment") if isinstance(content, dict) else None
    if not isinstance(preset, dict):
        raise ExperimentError(f"{file}: experiment must be a mapping that has table: got {_short(preset)}")
    where = f"{file}: experiment"
    _only_known(where, preset, ("name", "title", "table", "published"))
    return Experiment(
        file=file,
        name=_text(where, preset, "name"),
        title=_text(where, preset, "title"),
        table=_table(f"{where}.table", preset.get("table")),
        references=_references(f"{where}.published", preset.get("published")),
    )


def _loaded(file: Path) -> Any:
    """Return what a YAML file holds. A key that is there twice is a mistake, of which YAML takes the last."""
    import yaml  # noqa: PLC0415 - not needed for a table without a file

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None:
                raise ExperimentError(f"{file}: {_short(twice)} must be there once: got it twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader)  # noqa: S506 - a safe loader, but for twins
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ExperimentError(f"{file}: {' '.join(str(error).split())}") from None


def _only_known(where: str, mapping: Mapping[Any, Any], known: Sequence[str]) -> None:
    for key in mapping:
        if key not in known:
            raise ExperimentError(f"{where}.{key} is not a key{_near(key, known)}")


def _table(where: str, table: Any) -> TableSpec:
    if not isinstance(table, dict) or not table:
        raise ExperimentError(
            f"{where} must say what the table has, such as cells: [eager_us]: got {_short(table)}"
        )
    _only_known(where, table, _KEYS)
    axes = axis_titles()
    rows = tuple(_one_of(f"{where}.rows", name, axes) for name in _list(table, "rows"))
    columns = table.get("columns")
    if columns is not None:
        _one_of(f"{where}.columns", columns, axes)
    cells = tuple(_one_of(f"{where}.cells", name, CONTENTS) for name in _list(table, "cells"))
    if not cells:
        raise ExperimentError(f"{where}.cells has no value: there are {', '.join(CONTENTS)}")
    for key, names in (("rows and columns", [*rows, *([columns] if columns else [])]), ("cells", cells)):
        twice = next((name for name in names if list(names).count(name) > 1), None)
        if twice:
            raise ExperimentError(f"{where}: {key} must name each once: got {twice} twice")
    return TableSpec(
        rows=rows,
        columns=columns,
        cells=cells,
        where=_conditions(f"{where}.where", _list(table, "where")),
        sort=tuple(_sort(f"{where}.sort", item, (*axes, *CONTENTS)) for item in _list(table, "sort")),
        intervals=_one_of(f"{where}.intervals", table.get("intervals", INTERVALS[0]), INTERVALS),
        mixed=_one_of(f"{where}.mixed", table.get("mixed", MIXED[0]), MIXED),
    )


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    """Return the items of a key; one alone needs no brackets."""
    value = table.get(key)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _one_of(where: str, name: Any, known: Iterable[str]) -> str:
    if not isinstance(name, str) or name not in known:
        raise ExperimentError(f"{where} must be one of those below: got {_short(name)}{_near(name, known)}")
    return name


def _sort(where: str, item: Any, known: tuple[str, ...]) -> tuple[str, bool]:
    name = item.removeprefix("-") if isinstance(item, str) else item
    return _one_of(where, name, known), name != item


def _conditions(where: str, items: list[Any]) -> tuple[Condition, ...]:
    try:
        return tuple(condition(str(item)) for item in items)
    except SelectionError as error:
        raise ExperimentError(f"{where}: {str(error).removeprefix('--where ')}") from None


def _references(where: str, entries: Any) -> tuple[Reference, ...]:
    if not isinstance(entries, list | None):
        raise ExperimentError(f"{where} must be a list: got {_short(entries)}")
    return tuple(_reference(f"{where}[{i}]", entry) for i, entry in enumerate(entries or ()))


def _reference(where: str, entry: Any) -> Reference:
    if not isinstance(entry, dict):
        raise ExperimentError(f"{where} must be a mapping: got {_short(entry)}")
    at = entry.get("at") or {}
    if not isinstance(at, dict):
        raise ExperimentError(f"{where}.at must be a mapping of axes to values: got {_short(at)}")
    for axis in at:
        if not (isinstance(axis, str) and axis.startswith(_WITH_ARGUMENTS)):
            _one_of(f"{where}.at", axis, axis_titles())
    numbers = {}
    for name, value in entry.items():
        if name in (*_WORDS, "at"):
            continue
        if name not in CONTENTS or CONTENTS[name].number is None:
            known = [*_WORDS, "at", *(n for n, content in CONTENTS.items() if content.number)]
            raise ExperimentError(f"{where}.{name} is not a key{_near(name, known)}")
        if value is not None:
            numbers[name] = _number(f"{where}.{name}", value)
    words = {name: _text(where, entry, name) or "not stated" for name in _WORDS}
    return Reference(words["label"], at, numbers, words["hardware"], words["source"])


def _number(where: str, value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and number >= 0:
            return number
    raise ExperimentError(f"{where} must be a number of at least 0, or null: got {_short(value)}")


def _text(where: str, mapping: Mapping[str, Any], key: str) -> str | None:
    value = mapping.get(key)
    if not isinstance(value, str | None):
        raise ExperimentError(f"{where}.{key} must be text: got {_short(value)}")
    return value


def _near(name: Any, known: Iterable[str]) -> str:
    """Return the names that there are, those first that look like the one that came."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    meant = f", near it: {', '.join(near)}" if near else ""
    return f"{meant}\nthere are: {', '.join(names) or 'none'}"


def _short(value: Any) -> str:
    try:
        return re.sub(r"\s+", " ", reprlib.repr(value))[:80]  # not `repr`: aliases make a small file huge
    except ValueError:  # a whole number of thousands of digits
        return f"a number too long to be shown ({type(value).__name__})"


def rows_of(
    experiment: Experiment,
    path: Path,
    *,
    sweep: str | None = None,
    everything: bool = False,
    where: Sequence[Condition] = (),
) -> Selection:
    """Read the rows under `path` that the table of an experiment is about.

    Those that were measured for it: of the newest sweep that has any, unless another or all are asked
    for; of a single file all. An experiment without a name takes the rows of any.

    Raises:
        SelectionError: there are none; the message has the experiments that there are rows of.
        OSError: the path cannot be read.
    """
    return select(
        path,
        sweep=sweep,
        everything=everything or (path.is_file() and sweep is None),
        where=[*experiment.table.where, *where],
        experiment=experiment.name,
    )
