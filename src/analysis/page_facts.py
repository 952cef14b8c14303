"""What a page says of its rows beside their numbers: machines, verdicts, failures, doubts, origin."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from src import record, vocabulary
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.outcomes import OK, TRACED
from src.analysis.repeats import distinct
from src.analysis.rows import Row, Rows
from src.analysis.summary import Summary, cell_label

_MACHINE = {
    "gpu": "GPU",
    "cpu": "CPU",
    "hostname": "host",
    "torch_version": "torch",
    "triton_version": "Triton",
    "cuda_version": "CUDA",
    "gpu_driver": "GPU driver",
    "python_version": "Python",
    "threads": "CPU threads",
}
_ORIGIN = {
    "stepsweep_version": "stepsweep",
    "stepsweep_commit": "commit",
    "schema_version": "schema version",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine with its versions: titles and values, without those that no row knows."""

    facts: tuple[tuple[str, str], ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason why cells have no numbers, or not of all their runs."""

    reason: str
    hints: tuple[str, ...]
    cells: tuple[str, ...]  # labels
    outcomes: str  # such as "failed" or "failed, timeout"


def machines(rows: Sequence[Row]) -> tuple[Machine, ...]:
    """Return each machine that rows were measured on; rows that ended too early to know it count nowhere."""
    columns = {name: Rows.of(rows).column(name) for name in (*record.MACHINE_FACTS, *_MACHINE)}
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(columns[name] for name in record.MACHINE_FACTS), strict=True)):
        if columns["torch_version"][place] is not None:
            alike.setdefault(key, []).append(place)
    result = []
    for places in alike.values():
        facts = [(title, _values([columns[name][i] for i in places])) for name, title in _MACHINE.items()]
        result.append(Machine(tuple((t, v) for t, v in facts if v), len(places)))
    return tuple(result)


def origin(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Return where the rows come from: sweeps, when they were measured, by which stepsweep."""
    rows = Rows.of(rows)
    sweeps = [fmt.plain(str(name)) for name in distinct(rows.column("sweep_id"))]
    facts = [("sweep" if len(sweeps) == 1 else "sweeps", fmt.listed(sweeps)), ("measured", _time(rows))]
    facts += [(title, _values(rows.column(name))) for name, title in _ORIGIN.items()]
    return tuple((title, value) for title, value in facts if value)


def verdicts(summary: Summary) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Return against what cells are judged, and how many have each verdict, the commonest first.

    Against the eager step every cell counts, with what became of it where it has no verdict; against the best
    eager implementation those that have one.
    """
    found: Counter[str] = Counter()
    best: Counter[str] = Counter()
    for cell in summary.cells:
        bad = [outcome for outcome in cell.outcomes if outcome not in (OK, TRACED)]
        found[_spoken(cell.verdict or (bad[0] if bad else TRACED))] += 1
        if cell.best is not None and cell.best.verdict is not None:
            best[_spoken(cell.best.verdict)] += 1
    against = [("cells, against the eager step", tuple(found.most_common()))]
    if best:
        against.append(("against the best eager implementation", tuple(best.most_common())))
    return tuple(against)


def _spoken(name: str) -> str:
    return fmt.plain(name).replace("_", " ")


def failures(summary: Summary) -> tuple[Failure, ...]:
    """Return each reason why a run has no numbers, with the cells that it stopped."""
    found: dict[str, list[tuple[str, Cell]]] = {}
    for index, cell in enumerate(summary.cells):
        for reason in cell.reasons:
            found.setdefault(fmt.shorten(reason, 400), []).append((cell_label(summary.shown, index), cell))
    return tuple(_failure(reason, met) for reason, met in found.items())


def warnings(summary: Summary) -> tuple[tuple[str, int, str], ...]:
    """Return the name of each warning that a cell carries, how many do, and what it means."""
    found = Counter(name for cell in summary.cells for name in cell.warnings)
    meanings: Mapping[str, str] = vocabulary.WARNINGS
    return tuple(
        (fmt.plain(name), count, meanings.get(name, "not known to this version"))
        for name, count in found.most_common()
    )


def _failure(reason: str, met: Sequence[tuple[str, Cell]]) -> Failure:
    cells = [cell for _, cell in met]
    hints = dict.fromkeys(fmt.plain(hint) for cell in cells for hint in cell.hints)
    outcomes = dict.fromkeys(
        outcome for cell in cells for outcome in cell.outcomes if outcome not in (OK, TRACED)
    )
    return Failure(
        reason,
        tuple(hints),
        tuple(dict.fromkeys(label or "the only cell" for label, _ in met)),
        ", ".join(map(_spoken, outcomes)),
    )


def _values(column: Sequence[Any]) -> str:
    return fmt.listed([fmt.value(value) for value in distinct(column) if value is not None])


def _time(rows: Rows) -> str:
    starts = [start for start in rows.column("started_at") if isinstance(start, datetime)]
    if not starts:
        return ""
    first, last = (f"{start.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for start in (min(starts), max(starts)))
    return first if first == last else f"{first} to {last}"
