"""What a specification of a chart draws, for tests."""

from src.analysis.summary import summarize


def views(chart):
    """Return the views of a chart: its panels, or itself."""
    return chart.spec.get("vconcat", [chart.spec])


def marks(view, kind):
    """Return the values of each layer of a view that draws marks of one kind."""
    layers = view.get("layer", [view])
    shown = [layer for layer in layers if layer["mark"]["type"] == kind]
    return [layer.get("data", view.get("data"))["values"] for layer in shown]


def parameter(chart, name):
    """Return the value of a parameter."""
    (found,) = [parameter["value"] for parameter in chart.spec["params"] if parameter["name"] == name]
    return found


def chart_of(make, rows):
    """Return the chart of rows."""
    return make(summarize(rows))
