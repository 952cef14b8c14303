"""Two sets of rows to a comparison: what changed, by how much, and whether it is more than chance.

Numbers only; how they read is decided in `changes_document`. Knows nothing of files.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from src import inference
from src.analysis import cells, explanation
from src.analysis import changes_estimates as estimates
from src.analysis.axes import Axis, axes_of, implied
from src.analysis.cells import Cell
from src.analysis.changes_estimates import METRICS, Measured, Metric
from src.analysis.changes_matching import MACHINE_AXES, common_without, differences, match, without_unknown
from src.analysis.outcomes import OK, TRACED
from src.analysis.repeats import distinct
from src.analysis.rows import Row, Rows
from src.analysis.summary import Summary, summarize
from src.stats import LEVEL, Interval, geomean

REGRESSION, IMPROVEMENT, NO_CHANGE, UNTESTED = "regression", "improvement", "no change", "untested"

ORDER = (REGRESSION, IMPROVEMENT, UNTESTED, NO_CHANGE)
"""Verdicts in the order in which a reader looks for them."""

FAMILY = 1 - LEVEL
"""Part of all comparisons in which any cell may be called changed by chance."""

SIDE_FACTS = (
    *("stepsweep_version", "stepsweep_commit", "schema_version", "python_version", "triton_version"),
    *("gpu_driver", "processes", "min_effect", "process_spread", "shared_spread", "trace_steps"),
)
"""Columns that are no axes, and in which two sides may differ."""


ROW_COLUMNS: tuple[str, ...] = tuple(
    name for name in cells.ROW_COLUMNS if name not in explanation.COLUMNS or name.endswith("_host_us")
)
"""Columns of a row that a comparison reads: what explains a time is not compared, but for what enqueuing a
step takes, which tells how far its time is that of the host."""


@dataclass(frozen=True, slots=True)
class Change:
    """One cell on both sides."""

    labels: tuple[str, ...]  # on the axes shown
    base_cell: Cell
    new_cell: Cell
    base: Measured | None  # None where no row has the metric
    new: Measured | None
    ratio: Interval | None  # new / base; None where one side is missing
    min_effect: float  # a change closer to 1 than this is none
    p: float | None  # None when untested
    adjusted: float | None  # p for the number of tests (Holm)
    verdict: str
    reason: str  # why it is untested

    def worse_by(self, metric: Metric) -> float:
        """Return by which part the new side is worse, at the centre; negative where it is better."""
        if self.ratio is None:
            return 0.0
        return (1 / self.ratio.center if metric.more_is_better else self.ratio.center) - 1


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same on both sides."""

    name: str
    base: tuple[Any, ...]  # each value once
    new: tuple[Any, ...]
    pairs: int | None  # matched cells that differ in it; None for what is no axis


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is said about two sets of rows."""

    metric: Metric
    base: Summary
    new: Summary
    axes: tuple[str, ...]  # titles of the axes shown
    changes: tuple[Change, ...]  # matched cells in the order of the base
    vanished: tuple[tuple[str, Cell], ...]  # labels and cells of the base alone
    appeared: tuple[tuple[str, Cell], ...]  # of the new side alone
    constant: tuple[tuple[str, str], ...]  # axes with one value on both sides
    differs: tuple[Difference, ...]
    geomean: Interval | None  # of the changes of comparable cells; None of fewer than two
    covered: int  # cells in it
    would_match: Mapping[str, int]  # axes but for which there were cells on both sides, where there are none

    @property
    def tested(self) -> int:
        """Number of cells that were tested."""
        return sum(change.p is not None for change in self.changes)

    def of(self, verdict: str) -> tuple[Change, ...]:
        """Return the matched cells of one verdict, in the order of the base."""
        return tuple(change for change in self.changes if change.verdict == verdict)


def compare(
    base_rows: Sequence[Row],
    new_rows: Sequence[Row],
    metric: str = "speedup",
    *,
    min_effect: float | None = None,
    ignored: Iterable[str] = (),
) -> Comparison:
    """Return the comparison of two sets of rows, each with the columns `ROW_COLUMNS`.

    Args:
        base_rows: at least one.
        new_rows: at least one.
        metric: one of `METRICS`.
        min_effect: a change closer to 1 than this is none; None: the largest that rows of a cell have.
        ignored: axes on which matched cells may differ.

    Raises:
        MatchError: it is ambiguous which cells belong together.
    """
    of = METRICS[metric]
    base_rows, new_rows = Rows.of(base_rows), Rows.of(new_rows)
    base, new = summarize(base_rows), summarize(new_rows)
    base_cells, new_cells, unknown = without_unknown(base.cells, new.cells, base_rows, new_rows)
    matching = match(base_cells, new_cells, ignored)
    axes, shown, label = _labels(base_cells, new_cells)
    changes = _tested(
        [
            _change(pair, tuple(label(pair[0], axis) for axis in shown), of, min_effect)
            for pair in matching.pairs
        ],
        of,
    )
    mean, covered = _geomean(changes)

    def named(cells: Sequence[Cell]) -> tuple[tuple[str, Cell], ...]:
        return tuple((", ".join(label(cell, axis) for axis in shown), cell) for cell in cells)

    return Comparison(
        metric=of,
        base=base,
        new=new,
        axes=tuple(axis.title for axis in shown),
        changes=changes,
        vanished=named(matching.vanished),
        appeared=named(matching.appeared),
        constant=tuple((axis.title, axis.labels[0]) for axis in axes if not axis.varies),
        differs=(
            *_differing_axes(matching.pairs),
            *(Difference(name, _known(b), _known(n), None) for name, (b, n) in unknown.items()),
            *_differing_facts(base_rows, new_rows),
        ),
        geomean=mean,
        covered=covered,
        would_match={} if matching.pairs else common_without(base_cells, new_cells),
    )


def _labels(
    base: Sequence[Cell], new: Sequence[Cell]
) -> tuple[tuple[Axis, ...], tuple[Axis, ...], Callable[[Cell, Axis], str]]:
    """Return all axes, those shown, and what gives a cell's label on one.

    Where and with what it was measured is shown where it tells cells of one side apart.
    """
    cells = [*base, *new]
    index = {id(cell): i for i, cell in enumerate(cells)}
    axes = axes_of(cells)
    followers = {*implied(axes, "model"), *implied(axes, "device")}

    def shown(axis: Axis) -> bool:
        if axis.title in followers or not axis.varies:
            return False
        sides = axis.labels[: len(base)], axis.labels[len(base) :]
        return axis.title not in _MACHINE_TITLES or any(len(set(labels)) > 1 for labels in sides)

    return axes, tuple(filter(shown, axes)), lambda cell, axis: axis.labels[index[id(cell)]]


_MACHINE_TITLES = frozenset(
    {"hostname": "host", "torch_version": "torch", "cuda_version": "cuda", "compile_cache": "cache"}.get(n, n)
    for n in MACHINE_AXES
)


def _change(
    pair: tuple[Cell, Cell], labels: tuple[str, ...], metric: Metric, min_effect: float | None
) -> Change:
    """Return a change with its p-value, before the number of tests is known."""
    cells = {"base": pair[0], "new": pair[1]}
    base, new = (estimates.measured(cell.measured, metric) for cell in pair)
    effect = (
        max(map(estimates.min_effect, (cell.measured for cell in pair))) if min_effect is None else min_effect
    )
    ratio = Interval(new.center / base.center, None, None) if base and new else None
    p, reason = None, ""
    if base and new and base.estimate and new.estimate:
        found = inference.change(base.estimate, new.estimate)
        ratio, p = found.interval(), found.p_value(effect)
    else:
        reason = _why_untested({"base": base, "new": new}, cells, metric)
    return Change(labels, *pair, base, new, ratio, effect, p, None, UNTESTED, reason)


def _why_untested(sides: Mapping[str, Measured | None], cells: Mapping[str, Cell], metric: Metric) -> str:
    """Return what is wrong with each side, once where it is the same with both."""
    wrong: dict[str, list[str]] = {}
    for side, measured in sides.items():
        if measured is None:
            wrong.setdefault(_missing(cells[side], metric), []).append(side)
        elif measured.lacking:
            wrong.setdefault(measured.lacking, []).append(side)
    return ", ".join(
        f"{what} in {'both' if len(where) == len(sides) else where[0]}" for what, where in wrong.items()
    )


def _missing(cell: Cell, metric: Metric) -> str:
    if OK in cell.outcomes:
        return f"no {metric.name}"
    outcome = next((o for o in cell.outcomes if o != TRACED), TRACED)
    return "not timed" if outcome == TRACED else outcome.replace("_", " ")


def _tested(changes: Sequence[Change], metric: Metric) -> tuple[Change, ...]:
    """Return the changes with p-values for their number, and verdicts."""
    tested = [i for i, change in enumerate(changes) if change.p is not None]
    adjusted = dict(zip(tested, inference.holm([changes[i].p or 0.0 for i in tested]), strict=True))

    def judged(change: Change, p: float) -> Change:
        verdict = NO_CHANGE
        if p <= FAMILY:
            verdict = REGRESSION if change.worse_by(metric) > 0 else IMPROVEMENT
        return replace(change, adjusted=p, verdict=verdict)

    return tuple(judged(c, adjusted[i]) if i in adjusted else c for i, c in enumerate(changes))


def _geomean(changes: Sequence[Change]) -> tuple[Interval | None, int]:
    """Return the mean change of the cells that both sides measured without fault, and their number."""
    sides = [
        (c.base, c.new)
        for c in changes
        if c.base and c.new and c.base_cell.comparable and c.new_cell.comparable
    ]
    if len(sides) < 2:
        return None, len(sides)
    pairs = [(base.estimate, new.estimate) for base, new in sides if base.estimate and new.estimate]
    if len(pairs) == len(sides):
        return inference.mean_change(pairs).interval(), len(sides)
    return Interval(geomean([new.center / base.center for base, new in sides]), None, None), len(sides)


def _differing_axes(pairs: Sequence[tuple[Cell, Cell]]) -> list[Difference]:
    return [
        Difference(name, distinct(b for b, _ in found), distinct(n for _, n in found), found.total())
        for name, found in differences(pairs).items()
    ]


def _known(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _differing_facts(base: Rows, new: Rows) -> list[Difference]:
    found = [(name, _values(base, name), _values(new, name)) for name in SIDE_FACTS]
    return [Difference(name, b, n, None) for name, b, n in found if set(b) != set(n)]


def _values(rows: Rows, name: str) -> tuple[Any, ...]:
    """Return the values of a column, each once, without null."""
    return tuple(value for value in distinct(rows.column(name)) if value is not None)
