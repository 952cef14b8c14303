"""Rows to a `Summary`: cells in order, the axes that vary, geomeans, published values.

Numbers only; how they read is decided in `grid`. Knows nothing of files.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from src.analysis.axes import Axis, axes_of, implied, reordered
from src.analysis.cells import Cell, cells_of
from src.analysis.geomeans import Geomean, geomeans_of
from src.analysis.published import Line, experiment_of, published_lines
from src.analysis.rows import Row, Rows


@dataclass(frozen=True, slots=True)
class Summary:
    """All that is said about a set of rows."""

    title: str | None  # of the experiment, None when the rows are not of one
    sweeps: tuple[str, ...]  # sweep ids, in order of appearance
    cells: tuple[Cell, ...]
    axes: tuple[Axis, ...]  # every axis; labels in the order of the cells
    shown: tuple[Axis, ...]  # axes that vary and do not follow from another
    constant: tuple[tuple[str, str], ...]  # title and value of each axis that does not vary
    sizes: tuple[tuple[int, int], ...]  # parameter elements and tensors, of each size of workload
    geomeans: tuple[Geomean, ...]
    published: tuple[Line, ...]

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
    cells, axes = in_order(cells_of(rows))
    followers = {*implied(axes, "model"), *implied(axes, "device")}
    shown = tuple(axis for axis in axes if axis.varies and axis.title not in followers)
    experiment = experiment_of(rows)
    labels = [cell_label(shown, index) for index in range(len(cells))]
    return Summary(
        title=experiment.title,
        sweeps=tuple(dict.fromkeys(rows.column("sweep_id"))),
        cells=cells,
        axes=axes,
        shown=shown,
        constant=tuple((axis.title, axis.labels[0]) for axis in axes if not axis.varies),
        sizes=_sizes(rows),
        geomeans=geomeans_of(cells, axes),
        published=published_lines(experiment, cells, labels),
    )


def in_order(cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], tuple[Axis, ...]]:
    """Return cells in the order in which a table has them, at least one, and every axis over them."""
    axes = axes_of(cells)
    order = _order(axes)
    return tuple(cells[i] for i in order), reordered(axes, order)


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
