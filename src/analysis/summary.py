"""Rows to a `Summary`: cells in order, the axes that vary, geomeans, published values.

Numbers only; how they read is decided in `grid`. Knows nothing of files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from src.analysis.axes import Axis, axes_of, implied, reordered
from src.analysis.cells import Cell, cells_of
from src.analysis.geomeans import Geomean, geomeans_of
from src.analysis.published import Experiment, Line, experiment_of, published_lines
from src.analysis.rows import Row, Rows


@dataclass(frozen=True)
class Summary:
    """All that is said about a set of rows. What takes long and not all need is found when asked for."""

    experiment: Experiment
    sweeps: tuple[str, ...]  # sweep ids, in order of appearance
    cells: tuple[Cell, ...]
    axes: tuple[Axis, ...]  # every axis; labels in the order of the cells
    shown: tuple[Axis, ...]  # axes that vary and do not follow from another
    constant: tuple[tuple[str, str], ...]  # title and value of each axis that does not vary
    sizes: tuple[tuple[int, int], ...]  # parameter elements and tensors, of each size of workload

    @property
    def title(self) -> str | None:
        """The title of the experiment, None when the rows are not of one."""
        return self.experiment.title

    @cached_property
    def geomeans(self) -> tuple[Geomean, ...]:
        """The geomean of each way of compiling, or why there is none."""
        return geomeans_of(self.cells, self.axes)

    @cached_property
    def published(self) -> tuple[Line, ...]:
        """Published values, and measured ones by each method."""
        labels = [cell_label(self.shown, index) for index in range(len(self.cells))]
        return published_lines(self.experiment, self.cells, labels)

    @property
    def rows(self) -> int:
        """Number of rows, good or bad."""
        return sum(len(cell.outcomes) for cell in self.cells)

    @property
    def timed(self) -> bool:
        """Whether any cell has a time."""
        return any(cell.eager or cell.compiled or cell.speedup for cell in self.cells)


def summarize(rows: Sequence[Row]) -> Summary:
    """Return the summary of `rows`, each with the columns `cells.ROW_COLUMNS`.

    Raises:
        ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("a summary needs at least one row")
    rows = Rows.of(rows)
    cells = cells_of(rows)
    axes = axes_of(cells)
    order = _order(axes)
    cells, axes = tuple(cells[i] for i in order), reordered(axes, order)
    followers = {*implied(axes, "model"), *implied(axes, "device")}
    shown = tuple(axis for axis in axes if axis.varies and axis.title not in followers)
    return Summary(
        experiment=experiment_of(rows),
        sweeps=tuple(dict.fromkeys(rows.column("sweep_id"))),
        cells=cells,
        axes=axes,
        shown=shown,
        constant=tuple((axis.title, axis.labels[0]) for axis in axes if not axis.varies),
        sizes=_sizes(rows),
    )


def cell_label(shown: Sequence[Axis], index: int) -> str:
    """Return the labels of a cell on the axes that vary, empty when none does."""
    return ", ".join(axis.labels[index] for axis in shown)


def _order(axes: Sequence[Axis]) -> list[int]:
    """Sort cells by their axes from left to right, values in the order in which they appeared."""
    ranks = []
    for axis in axes:
        if axis.varies:
            rank = {label: number for number, label in enumerate(axis.values)}
            ranks.append([rank[label] for label in axis.labels])
    keys = list(zip(*ranks, strict=True))
    return sorted(range(len(keys)), key=keys.__getitem__) if keys else list(range(len(axes[0].labels)))


def _sizes(rows: Rows) -> tuple[tuple[int, int], ...]:
    known = dict.fromkeys(zip(rows.column("parameters"), rows.column("tensors"), strict=True))
    return tuple((parameters, tensors) for parameters, tensors in known if None not in (parameters, tensors))
