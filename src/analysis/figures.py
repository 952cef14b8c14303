"""Figures of a summary, for print: PNG and SVG. matplotlib is imported only when one is drawn."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from src.analysis.axes import Axis, axes_of, implied
from src.analysis.cells import Cell
from src.stats import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that the colour-blind tell apart (Okabe and Ito, Color Universal Design, 2008), by workload."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers by way of compiling."""

_Look = Mapping[str, Any]
"""How a line is drawn, as matplotlib's arguments."""

_VS_EAGER = "against eager"
_DASHED: _Look = {"linestyle": "--", "markerfacecolor": "white"}
_BASELINES: Mapping[str, _Look] = {
    _VS_EAGER: {"linestyle": "-"},
    "against the best eager implementation": _DASHED,
}
_ARMS: Mapping[str, _Look] = {
    "compiled": {"linestyle": "-"},
    "best eager": _DASHED,
    "eager": {"linestyle": ":", "marker": "."},
}
"""Lines of each panel, and how they differ in it."""

_CACHED = "fits into the last-level cache"

_SIZE_AXES = ("model", "width", "depth", "bias")
_DPI = 200


class FigureError(ValueError):
    """The figure cannot be drawn; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class _Series:
    """The cells of one line, from the smallest model to the largest."""

    workload: str  # optimizer and what else differs
    compiling: str  # mode and what else differs
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """Words of the legend."""
        return ", ".join(filter(None, (self.workload, self.compiling)))


def files(name: str, cells: Sequence[Cell]) -> dict[str, bytes]:
    """Return a figure of `FIGURES` as `<name>.png` and `<name>.svg`.

    Raises:
        FigureError: matplotlib is not installed, or the cells make no figure.
    """
    try:
        import matplotlib  # noqa: PLC0415 - takes half a second, rarely needed
    except ImportError:
        raise FigureError(
            "a figure needs matplotlib, which is not installed: pip install 'stepsweep[plot]'"
        ) from None
    figure = FIGURES[name](cells)
    drawn = {}
    # Text as text, so that it can be searched, and nothing that differs from one drawing to the next.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata)
            drawn[f"{name}.{kind}"] = buffer.getvalue()
    return drawn


def model_sizes(cells: Sequence[Cell]) -> "Figure":
    """Return speedups and attained fractions against the number of parameters.

    Two panels below each other share the axis of parameters (log). Above: compiled against the
    eager arm (solid) and against the best eager implementation (dashed), with 95 % intervals.
    Below: attained fraction in per cent of the compiled (solid), best eager (dashed) and eager arm
    (dotted). A line for each optimizer (colour) and compile mode (marker), and for what else differs.

    Raises:
        FigureError: fewer than two sizes have a speedup, or there are more lines than can be told apart.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    series = _series(cells)
    workloads = list(dict.fromkeys(s.workload for s in series))
    compilings = list(dict.fromkeys(s.compiling for s in series))
    for what, found, most in (
        ("optimizers", workloads, len(_COLOURS)),
        ("ways of compiling", compilings, len(_MARKERS)),
    ):
        if len(found) > most:
            raise FigureError(
                f"the figure can tell {most} {what} apart, here are {len(found)}: choose some with --where"
            )
    legend_lines = max(len(workloads), len(compilings))
    figure = Figure(figsize=(6.3, 6.7 + 0.2 * legend_lines), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    colours = dict(zip(workloads, _COLOURS, strict=False))
    markers = dict(zip(compilings, _MARKERS, strict=False))
    for one in series:
        style = {"color": colours[one.workload], "marker": markers[one.compiling]}
        for axes, lines, values in ((above, _BASELINES, _speedup), (below, _ARMS, _attained)):
            for name, look in lines.items():
                _line(axes, one, name, [values(cell, name) for cell in one.cells], {**style, **look})
    drawn = [cell for one in series for cell in one.cells]
    sizes = [cell.parameters or 0 for cell in drawn]
    below.set_xscale("log")
    below.set_xlim(min(sizes) / 1.8, max(sizes) * 1.8)
    _shade_cached(below, drawn)
    _finish(above, below)
    _add_legends(figure, colours, markers)
    return figure


FIGURES: Mapping[str, Callable[[Sequence[Cell]], "Figure"]] = {"model_sizes": model_sizes}


def _series(cells: Sequence[Cell]) -> list[_Series]:
    usable = [cell for cell in cells if cell.speedup and cell.parameters]
    if len({cell.parameters for cell in usable}) < 2:
        raise FigureError("a figure of model sizes needs speedups of two numbers of parameters or more")
    axes = axes_of(usable)
    followers = {*_SIZE_AXES, *implied(axes, "model"), *implied(axes, "device")}
    shown = [axis for axis in axes if axis.varies and axis.title not in followers]
    optimizer = [axis for axis in axes if axis.title == "optimizer"]
    mode = [axis for axis in axes if axis.title == "mode"]
    workload = [*optimizer, *(a for a in shown if a.kind != "compile" and a.title != "optimizer")]
    compiling = [*mode, *(a for a in shown if a.kind == "compile" and a.title != "mode")]
    groups: dict[tuple[str, str], list[Cell]] = {}
    for index, cell in enumerate(usable):
        groups.setdefault((_label(workload, index), _label(compiling, index)), []).append(cell)
    return [
        _Series(*labels, tuple(sorted(members, key=lambda cell: cell.parameters or 0)))
        for labels, members in groups.items()
    ]


def _label(axes: Sequence[Axis], index: int) -> str:
    return ", ".join(axis.labels[index] for axis in axes)


def _speedup(cell: Cell, baseline: str) -> Interval | None:
    if baseline == _VS_EAGER:
        return cell.speedup
    return cell.best.speedup if cell.best else None


def _attained(cell: Cell, arm: str) -> Interval | None:
    """Return the attained fraction of an arm in per cent; the best eager one may be the eager arm."""
    name = "eager_best" if arm == "best eager" and not cell.eager_is_best else arm.removeprefix("best ")
    facts = cell.why.arms.get(name)
    return None if facts is None or facts.attained is None else Interval(100 * facts.attained, None, None)


def _line(axes: "Axes", series: _Series, name: str, values: Sequence[Interval | None], look: _Look) -> None:
    points = [
        (cell.parameters or 0, value) for cell, value in zip(series.cells, values, strict=True) if value
    ]
    if not points:
        return
    none = float("nan")  # draws no bar
    below = [none if v.low is None else v.center - v.low for _, v in points]
    above = [none if v.high is None else v.high - v.center for _, v in points]
    xs, ys = [x for x, _ in points], [v.center for _, v in points]
    label = f"{series.label}: {name}"
    sizes: _Look = {"linewidth": 1.3, "elinewidth": 0.9, "capsize": 2.5, "markersize": 5}
    axes.errorbar(xs, ys, yerr=[below, above], label=label, **sizes, **look)


def _shade_cached(axes: "Axes", cells: Sequence[Cell]) -> None:
    """Shade the sizes up to the largest that fits into the last-level cache: the floor is none there."""
    cached = [cell.parameters or 0 for cell in cells if "in_cache" in cell.warnings]
    if cached:
        axes.axvspan(
            axes.get_xlim()[0], max(cached) * 1.5, color="0.92", linewidth=0, label=_CACHED, zorder=0
        )


def _finish(above: "Axes", below: "Axes") -> None:
    """Set scales and words, and inside each panel what its kinds of lines are."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above
    from matplotlib.ticker import FuncFormatter, LogLocator  # noqa: PLC0415

    above.set_yscale("log", base=2)
    above.yaxis.set_major_locator(LogLocator(base=2))
    above.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    above.axhline(1, color="0.4", linewidth=0.8)
    above.set_ylabel("speedup of the compiled step")
    below.axhline(100, color="0.4", linewidth=0.8)
    below.set_ylim(bottom=0)
    below.set_xlabel("parameters")
    below.set_ylabel("attained fraction (%)")
    for axes, lines in ((above, _BASELINES), (below, _ARMS)):
        axes.grid(visible=True, color="0.88", linewidth=0.6)
        axes.set_axisbelow(True)
        drawn = {str(bars.get_label()).rpartition(": ")[2] for bars in axes.containers}
        kinds = [
            Line2D([], [], color="0.2", linewidth=1.3, label=name, **look)
            for name, look in lines.items()
            if name in drawn
        ]
        shades = [patch for patch in axes.patches if patch.get_label() == _CACHED]
        if kinds:
            axes.legend(handles=[*kinds, *shades], fontsize="small", edgecolor="none", framealpha=0.9)
        else:
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color="0.3")


def _add_legends(figure: "Figure", colours: Mapping[str, str], markers: Mapping[str, str]) -> None:
    """Say below the panels what the colours and what the markers are."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

    look: _Look = {"frameon": False, "fontsize": "small", "alignment": "left"}
    lines = [Line2D([], [], color=colour, linewidth=2.5, label=name) for name, colour in colours.items()]
    dots = [
        Line2D([], [], color="0.2", linestyle="", marker=m, markersize=5, label=name)
        for name, m in markers.items()
    ]
    figure.legend(handles=lines, loc="outside lower left", **look)
    figure.legend(handles=dots, loc="outside lower right", **look)
