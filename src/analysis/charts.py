"""Charts of a summary: one Vega-Lite specification serves a page, and PNG, SVG and PDF for a paper."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from src.analysis import charts_break_even, charts_recompiles, charts_sizes, charts_speedups, charts_times
from src.analysis.charts_look import Chart, config
from src.analysis.summary import Summary

__all__ = ["NAMES", "VEGA_LITE", "Chart", "ChartError", "charts_of", "config", "files", "one", "sized"]

_MAKERS: Mapping[str, Callable[[Summary], Chart | None]] = {
    "speedups": charts_speedups.over_eager,
    "speedups_vs_best": charts_speedups.over_best,
    "model_sizes": charts_sizes.model_sizes,
    "recompiles": charts_recompiles.recompiles,
    "break_even": charts_break_even.break_even,
    "times": charts_times.times,
}

_NEEDS = {
    "speedups": "a speedup, and cells that differ",
    "speedups_vs_best": "a speedup over the best eager implementation, and cells that differ",
    "model_sizes": "speedups of two numbers of parameters or more",
    "recompiles": "counts of recompiles, and two of optimizer, scheduler and lr that vary",
    "break_even": "a cell in which compiling pays off",
    "times": "a time",
}

NAMES: tuple[str, ...] = tuple(_MAKERS)
"""Names of the charts, in the order in which a page shows them."""

VEGA_LITE = "6.1"
"""Version that draws the charts, on a page and into files."""

_WIDTH = 336
"""px of a figure as wide as a column of a paper, 3.5 in at 96 px/in."""

_PNG_SCALE = 3.0


class ChartError(ValueError):
    """The chart cannot be drawn; the message says what it lacks."""


def charts_of(summary: Summary) -> tuple[Chart, ...]:
    """Return the charts that the cells of a summary give, in the order of `NAMES`; there may be none."""
    return tuple(chart for make in _MAKERS.values() if (chart := make(summary)) is not None)


def one(name: str, summary: Summary) -> Chart:
    """Return the chart `name` of `NAMES`.

    Raises:
        ChartError: the cells do not give it.
    """
    chart = _MAKERS[name](summary)
    if chart is None:
        raise ChartError(f"a figure {name} needs {_NEEDS[name]}")
    return chart


def sized(spec: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Return the specification with views of `width` px where they would take that of their container."""
    if "vconcat" in spec:
        return {**spec, "vconcat": [sized(view, width) for view in spec["vconcat"]]}
    return {**spec, "width": width} if spec.get("width") == "container" else dict(spec)


def files(charts: Sequence[Chart], *, dark: bool = False) -> dict[str, bytes]:
    """Return each chart as `<name>.png`, `<name>.svg` and `<name>.pdf`, as wide as a column.

    Raises:
        ChartError: vl-convert is not installed.
    """
    try:
        import vl_convert  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise ChartError(
            "a chart as a file needs vl-convert-python, which is not installed: pip install 'stepsweep[plot]'"
        ) from None
    drawn: dict[str, bytes] = {}
    for chart in charts:
        spec = json.dumps(sized(chart.spec, _WIDTH), allow_nan=False)
        options: dict[str, Any] = {"vl_version": VEGA_LITE, "config": config(dark=dark)}
        drawn[f"{chart.name}.png"] = vl_convert.vegalite_to_png(spec, scale=_PNG_SCALE, **options)
        drawn[f"{chart.name}.svg"] = vl_convert.vegalite_to_svg(spec, **options).encode()
        drawn[f"{chart.name}.pdf"] = vl_convert.vegalite_to_pdf(spec, **options)
    return drawn
