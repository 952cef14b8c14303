"""Why the times are what they are: for each cell the floor of a step, for each arm where its time goes.

A second table over the same cells as the main one. A time that was not explained is `-`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from src import record
from src.analysis import explanation
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.analysis.document import Column, Document, Entry, Footnotes, Grid, Line
from src.analysis.doubts import warnings_of
from src.analysis.explanation import ArmFacts, Explanation
from src.analysis.facts import CELL_FACTS
from src.analysis.grid import selection_head, title_of
from src.analysis.repeats import distinct
from src.analysis.summary import Summary, cell_label
from src.stats import Interval

_MIB, _GIB = 2**20, 2**30
_UNKNOWN = ArmFacts(None, None, None, None, None, None, None, None, ())
BOUNDS = {
    "launch": "the device waits for the host to launch what it runs",
    "bandwidth": "memory is read and written all the time",
    "compute": "the device computes all the time",
}
_FLOOR_WORDS = (
    "The floor is the least memory that the update must read and write, divided by the bandwidth measured in "
    "the run; attained is floor / step."
)
_WORDS = {
    "device us": "Device is the time that a step keeps the GPU busy.",
    "host us": "Host is the time to enqueue a step without waiting.",
    "CPU us": "CPU is the CPU time of a step, of all threads.",
    "peak": "Peak is parameters, gradients, states and temporary memory.",
}


class WhyError(ValueError):
    """The rows explain nothing; the message says what they lack."""


@dataclass(frozen=True, slots=True)
class _Arm:
    """A line: one arm of one cell, or two where the best eager implementation is the eager arm."""

    cell: int
    name: str  # of `vocabulary.TIMED_ARMS`
    is_best: bool  # the eager arm is the best eager implementation too
    implementations: tuple[str, ...]  # of `vocabulary.EAGER_PATHS`, of an eager arm
    us: Interval | None
    facts: ArmFacts

    @property
    def label(self) -> str:
        words = {"eager_best": "best eager"}.get(self.name, self.name.replace("_", " "))
        words += " = best" if self.is_best else ""
        of = " or ".join(map(fmt.plain, self.implementations))
        return f"{words} ({of})" if of else words


def why_of(summary: Summary, filters: Sequence[str] = ()) -> Document:
    """Return the floor of each cell, and a line for each of its arms.

    Raises:
        WhyError: no cell has a time with an explanation.
    """
    if not any(cell.why.arms or cell.why.floor_us for cell in summary.cells):
        raise WhyError("no row explains its times: measure.explain=true makes rows that do")
    notes = Footnotes()
    arms = [arm for index, cell in enumerate(summary.cells) for arm in _arms(index, cell)]
    floors = _floors(summary)
    grid = _grid(summary, arms, notes, first=floors is None)
    titles = " ".join(column.title for column in grid.columns)
    words = " ".join(sentence for title, sentence in _WORDS.items() if title in titles)
    bounds = {bound for arm in arms for bound in arm.facts.bounds}
    return Document(
        f"Why: {title_of(summary)}",
        (*selection_head(summary, filters), *filter(None, (_FLOOR_WORDS if floors else "", words))),
        (*([floors] if floors else []), grid),
        tuple(_left_out(summary)),
        notes.texts(),
        tuple((bound, meaning) for bound, meaning in BOUNDS.items() if bound in bounds),
    )


def to_table(summary: Summary) -> pa.Table:
    """Return one row for each cell and arm, as numbers with their unit in the name of the column."""
    types = {field.name: field.type for field in record.schema(documented=False)}
    fields = [(name, types[name]) for name in CELL_FACTS]
    fields += [("parameters", pa.int64()), ("arm", pa.string()), ("implementation", pa.string())]
    fields += [(name, pa.float64()) for name in ("us", "us_low", "us_high")]
    fields += [(end, types[f"eager_{end}"]) for end in explanation.OF_ARM]
    fields += [(name, types[name]) for name in explanation.OF_STEP]
    arms = [arm for index, cell in enumerate(summary.cells) for arm in _arms(index, cell)]
    rows = [_numbers(summary.cells[arm.cell], arm) for arm in arms]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _numbers(cell: Cell, arm: _Arm) -> dict[str, object]:
    us = arm.us or Interval(float("nan"), None, None)
    return {
        **cell.facts,
        "parameters": cell.parameters,
        "arm": arm.name,
        "implementation": "; ".join(arm.implementations) or None,
        "us": us.center if arm.us else None,
        "us_low": us.low,
        "us_high": us.high,
        **{end: getattr(arm.facts, end) for end in explanation.OF_ARM if end != "bound"},
        "bound": "; ".join(arm.facts.bounds) or None,
        **{name: getattr(cell.why, name) for name in explanation.OF_STEP},
    }


def _arms(index: int, cell: Cell) -> Iterator[_Arm]:
    """Return the arms that have a time or an explanation, those that people compare first."""
    best = cell.best
    times = {
        "eager": (cell.eager, best.names if best and cell.eager_is_best else cell.trace.eager_paths),
        "eager_best": (best.us, best.names) if best else (None, ()),
        "compiled": (cell.compiled, ()),
        "eager_after_compile": (cell.eager_after_compile, ()),
    }
    for name, (us, implementations) in times.items():
        facts = cell.why.arms.get(name, _UNKNOWN)
        if (us is None and facts == _UNKNOWN) or (name == "eager_best" and cell.eager_is_best):
            continue
        yield _Arm(index, name, name == "eager" and cell.eager_is_best, implementations, us, facts)


def _floors(summary: Summary) -> Grid | None:
    """Return what any step of each cell must move, None where no row says it."""
    of_step: list[tuple[Column, Callable[[Explanation], float | None]]] = [
        (_number("must", "move", "MiB"), lambda why: _mib(why.step_bytes)),
        (_number("eager", "moves", "MiB"), lambda why: _mib(why.eager_bytes)),
        (_number("states", "MiB"), lambda why: _mib(why.state_bytes)),
        (_number("last-level", "cache", "MiB"), lambda why: _mib(why.last_level_cache_bytes)),
        (_number("bandwidth", "GB/s"), lambda why: why.bandwidth_gbps),
        (_number("floor", "us"), lambda why: why.floor_us),
    ]
    shown = [
        (column, of) for column, of in of_step if any(of(cell.why) is not None for cell in summary.cells)
    ]
    if not shown:
        return None
    lines = tuple(
        Line(
            tuple(axis.labels[index] for axis in summary.shown),
            tuple((fmt.significant(of(cell.why)),) for _, of in shown),
            (),
        )
        for index, cell in enumerate(summary.cells)
        if any(of(cell.why) is not None for _, of in shown)
    )
    return Grid("", tuple(axis.title for axis in summary.shown), tuple(column for column, _ in shown), lines)


def _grid(summary: Summary, arms: Sequence[_Arm], notes: Footnotes, *, first: bool) -> Grid:
    """Return a line for each arm, with the columns of which anything is known."""
    columns = [
        (column, entry)
        for column, entry in _columns(arms)
        if column.title == "step us" or any(entry(arm) != (fmt.NONE,) for arm in arms)
    ]
    if all(cell.facts["device"] == "cuda" for cell in summary.cells):  # where host says more than all threads
        columns = [(column, entry) for column, entry in columns if column.title != "CPU us"]
    seen: set[int] = set()
    lines = []
    for arm in arms:
        cell = summary.cells[arm.cell]
        doubts = () if arm.cell in seen else tuple(notes.add(text) for text in warnings_of(cell))
        seen.add(arm.cell)
        labels = (*(axis.labels[arm.cell] for axis in summary.shown), arm.label)
        lines.append(Line(labels, tuple(entry(arm) for _, entry in columns), doubts))
    return Grid(
        "" if first else "Where the time of a step goes",
        (*(axis.title for axis in summary.shown), "arm"),
        tuple(column for column, _ in columns),
        tuple(lines),
        grouped=len(summary.shown),
    )


def _columns(arms: Sequence[_Arm]) -> list[tuple[Column, Callable[[_Arm], Entry]]]:
    peaks = [arm.facts.peak_bytes for arm in arms if arm.facts.peak_bytes]
    unit, scale = ("GiB", _GIB) if peaks and min(peaks) >= _GIB else ("MiB", _MIB)

    def peak(arm: _Arm) -> Entry:
        size = arm.facts.peak_bytes
        return (fmt.significant(None if size is None else size / scale),)

    return [
        (_number("step", "us"), lambda arm: (fmt.significant(arm.us.center if arm.us else None),)),
        (_number("device", "us"), lambda arm: (fmt.significant(arm.facts.device_us),)),
        (_number("kernels"), lambda arm: (_count(arm.facts.kernels),)),
        (_number("host", "us"), lambda arm: (fmt.significant(arm.facts.host_us),)),
        (_number("CPU", "us"), lambda arm: (fmt.significant(arm.facts.cpu_us),)),
        (
            Column("bound", ("bound",), number=False),
            lambda arm: (" or ".join(map(fmt.plain, arm.facts.bounds)) or fmt.NONE,),
        ),
        (_number("attained", "%"), lambda arm: (fmt.percent(arm.facts.attained),)),
        (_number("peak", unit), peak),
    ]


def _number(*title: str) -> Column:
    return Column(" ".join(title), title, number=True)


def _left_out(summary: Summary) -> list[str]:
    """Return a sentence on the cells that have no line."""
    left = [(i, cell) for i, cell in enumerate(summary.cells) if not any(_arms(i, cell))]
    words = [
        f"{cell_label(summary.shown, i) or 'this one'} ({', '.join(map(fmt.plain, distinct(cell.outcomes)))})"
        for i, cell in left
    ]
    return [f"Without a time that can be used: {fmt.listed(words)}."] if words else []


def _mib(size: int | None) -> float | None:
    return None if size is None else size / _MIB


def _count(number: int | None) -> str:
    return fmt.NONE if number is None else str(number)
