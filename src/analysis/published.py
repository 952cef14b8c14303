"""Published numbers beside ours, with the method that each number stands for.

Knows nothing of files or formats.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.rows import Row
from src.stats import Interval

AS_PUBLISHED = "as-published method (eager step of the optimizer that was compiled)"
SEQUENTIAL = "sequential method (one arm after the other, means)"
SEPARATE = "separate arms (eager never compiled)"


@dataclass(frozen=True, slots=True)
class Line:
    """One published or measured pair of times."""

    label: str
    eager: Interval | None  # us a step
    compiled: Interval | None  # us a step
    speedup: Interval | None
    recompiles: tuple[int, int] | None
    source: str  # where it was published and on what, empty for ours
    throughput: tuple[float | None, float | None] = (None, None)  # samples/s, where no times were published


@dataclass(frozen=True, slots=True)
class Experiment:
    """The preset that all rows belong to."""

    title: str | None
    published: tuple[Mapping[str, Any], ...]


def experiment_of(rows: Iterable[Row]) -> Experiment:
    """Return the experiment of the rows; one without title and values when they are not all of one."""
    titles: dict[str, None] = {}
    published: dict[str, Mapping[str, Any]] = {}
    names, seen = set(), set()
    for row in rows:
        names.add(row["experiment"])
        if row["experiment"] is None or (row["sweep_id"], row["experiment"]) in seen or not row["config"]:
            continue
        seen.add((row["sweep_id"], row["experiment"]))
        preset = _preset(row["config"])
        if isinstance(preset.get("title"), str):
            titles[preset["title"]] = None
        entries = preset.get("published")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict):
                published[json.dumps(entry, sort_keys=True)] = entry
    if len(names) != 1 or None in names:
        return Experiment(None, ())
    return Experiment(next(iter(titles), None), tuple(published.values()))


def published_lines(experiment: Experiment, cells: Sequence[Cell], labels: Sequence[str]) -> tuple[Line, ...]:
    """Return the published values, then ours for each cell by each method that was measured.

    Nothing where nothing was published and our method is the only one.
    """
    if not experiment.published and not any(cell.sequential for cell in cells):
        return ()
    lines = [_published(entry) for entry in _told_apart(experiment.published)]
    for cell, label in zip(cells, labels, strict=True):
        lines += _measured(cell, label)
    return tuple(lines)


def _told_apart(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries; those of one label, as the numbers of one table have, with where they stand."""
    labels = [entry.get("label") for entry in entries]
    return [
        {**entry, "label": f"{label} ({', '.join(map(fmt.value, entry['at'].values()))})"}
        if labels.count(label) > 1 and isinstance(entry.get("at"), dict) and entry["at"]
        else entry
        for entry, label in zip(entries, labels, strict=True)
    ]


def _published(entry: Mapping[str, Any]) -> Line:
    # An eager time by the publication's method stands where ours by that method stands.
    eager = _exact(entry.get("eager_us")) or _exact(entry.get("eager_after_compile_us"))
    compiled = _exact(entry.get("compiled_us"))
    slow, fast = (_exact(entry.get(f"{arm}_samples_per_s")) for arm in ("eager", "compiled"))
    speedup = _quotient(eager, compiled) or _quotient(fast, slow) or _exact(entry.get("speedup"))
    recompiles = entry.get("recompiles")
    hardware = entry.get("hardware") or "not stated"
    source = entry.get("source") or "not stated"
    return Line(
        label=f"published: {entry.get('label') or 'no label'}",
        eager=eager,
        compiled=compiled,
        speedup=speedup,
        recompiles=(recompiles, recompiles) if isinstance(recompiles, int) else None,
        source=f"hardware: {hardware}; source: {source}",
        throughput=(slow.center if slow else None, fast.center if fast else None),
    )


def _quotient(over: Interval | None, under: Interval | None) -> Interval | None:
    return Interval(over.center / under.center, None, None) if over and under else None


def _measured(cell: Cell, label: str) -> list[Line]:
    if cell.speedup is None:
        return []
    prefix = f"{label}: " if label else ""
    lines = []
    if cell.eager_after_compile is not None:
        lines.append(
            Line(
                prefix + AS_PUBLISHED,
                cell.eager_after_compile,
                cell.compiled,
                cell.as_published,
                cell.trace.recompiles,
                "",
            )
        )
    if cell.sequential is not None:
        times = cell.sequential
        lines.append(
            Line(
                prefix + SEQUENTIAL,
                times.eager,
                times.compiled,
                times.speedup,
                cell.trace.recompiles,
                "",
            )
        )
    lines.append(Line(prefix + SEPARATE, cell.eager, cell.compiled, cell.speedup, cell.trace.recompiles, ""))
    return lines


def _exact(value: Any) -> Interval | None:
    return Interval(float(value), None, None) if isinstance(value, (int, float)) and value > 0 else None


def _preset(config: str | None) -> Mapping[str, Any]:
    try:
        preset = json.loads(config or "")["experiment"]
    except (ValueError, KeyError, TypeError):
        return {}
    return preset if isinstance(preset, dict) else {}
