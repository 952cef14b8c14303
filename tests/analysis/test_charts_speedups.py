"""Speedups by axis: points are the cells, means are over the same cells for all values."""

import numpy as np
import pytest

from src.analysis import charts_speedups
from tests.analysis.charted import chart_of, marks, parameter, views
from tests.rows import bad, best, row, times


def cell(optimizer, mode, speedup, **changes):
    verdict = "faster" if speedup > 1.05 else "slower" if speedup < 0.95 else "no_difference"
    made = row(optimizer=optimizer, compile_mode=mode, verdict=verdict)
    return made | times(100.0 * speedup, 100.0) | changes


SQUARE = [
    cell("adam", "default", 2),
    cell("adam", "max", 8),
    cell("sgd", "default", 0.5),
    cell("sgd", "max", 2),
]


def drawn(rows, make=charts_speedups.over_eager):
    """Return the labels of the lines, their points and their means."""
    chart = chart_of(make, rows)
    points, *means = marks(views(chart)[0], "point")
    names = parameter(chart, "names")
    return (
        names,
        [(names[p["line"]], p["center"], p["kind"]) for p in points],
        {names[m["line"]]: m["center"] for m in (means[0] if means else [])},
    )


class TestOverEager:
    def test_every_cell_is_a_point_on_each_axis_with_its_verdict(self):
        """Two axes vary: each has a head and a line for each value."""
        names, points, _ = drawn(SQUARE)
        assert names == ["optimizer", "adam", "sgd", "mode", "default", "max"]
        assert points == [
            ("adam", 2, "faster"), ("adam", 8, "faster"), ("sgd", 0.5, "slower"), ("sgd", 2, "faster"),
            ("default", 2, "faster"), ("default", 0.5, "slower"), ("max", 8, "faster"), ("max", 2, "faster"),
        ]  # fmt: skip

    def test_intervals_are_those_of_the_rows(self):
        """One per cent to each side."""
        (intervals, *_) = marks(views(chart_of(charts_speedups.over_eager, SQUARE))[0], "rule")[1:]
        assert (intervals[0]["low"], intervals[0]["high"]) == pytest.approx((1.98, 2.02))

    def test_a_mean_is_that_of_each_value(self):
        """sqrt(2 x 8) = 4, sqrt(0.5 x 2) = 1, sqrt(2 x 0.5) = 1, sqrt(8 x 2) = 4."""
        _, _, means = drawn(SQUARE)
        assert means == pytest.approx({"adam": 4, "sgd": 1, "default": 1, "max": 4})

    def test_a_mean_is_over_the_cells_that_all_values_have(self):
        """lion was run in one mode: it enters no mean of modes, and optimizers share a single mode."""
        _, points, means = drawn([*SQUARE, cell("lion", "default", 1000)])
        assert means == pytest.approx({"default": 1, "max": 4})
        assert ("lion", 1000, "faster") in points

    def test_an_invalid_cell_is_no_number_and_spoils_no_mean(self):
        """It is counted at the line's end instead."""
        rows = [*SQUARE, cell("adam", "other", 1e6, verdict="invalid"), cell("sgd", "other", 3)]
        chart = chart_of(charts_speedups.over_eager, rows)
        points, means = marks(views(chart)[0], "point")
        assert max(point["center"] for point in points) == pytest.approx(8)
        counts = dict(zip(parameter(chart, "names"), parameter(chart, "counts"), strict=True))
        assert (counts["adam"], counts["sgd"], counts["other"]) == ("2 of 3", "3 of 3", "1 of 2")
        assert {m["value"]: round(m["center"], 6) for m in means}["optimizer: adam"] == 4

    def test_machines_are_never_mixed_in_a_mean(self):
        """Points of both are drawn."""
        rows = [changed for host in "ab" for changed in ({**r, "hostname": host} for r in SQUARE)]
        names, points, means = drawn(rows)
        assert "host" in names
        assert len(points) == 24
        assert set(means) == {"a", "b"}

    def test_the_sentence_says_what_is_seen(self):
        """For who cannot see it."""
        words = chart_of(charts_speedups.over_eager, SQUARE).description
        assert "4 of 4 cells, from 0.500x (sgd, default) to 8.00x (adam, max): 3 faster, 1 slower." in words
        assert "Geomean by optimizer over 2 cells that all have: adam 4.00x; sgd 1.000x." in words

    @pytest.mark.parametrize(
        "rows",
        [[row()], [bad("failed", "OOM"), bad("failed", "OOM", optimizer="sgd")], [row(), row(seed=1)]],
    )
    def test_rows_in_which_no_axis_of_speedups_varies_have_none(self, rows):
        """One cell, or no number at all."""
        assert chart_of(charts_speedups.over_eager, rows) is None

    def test_of_many_cells_the_range_and_the_middle_half_are_drawn(self):
        """Of 0.5, 0.51 ... 1.5 the quarters are at 0.75 and 1.25."""
        speedups = np.linspace(0.5, 1.5, 101)
        rows = [cell(o, "default", s, width=w) for o in "ab" for w, s in enumerate(speedups, 1)]
        chart = chart_of(charts_speedups.over_eager, rows)
        (bars,) = marks(views(chart)[0], "bar")
        names = parameter(chart, "names")
        line = next(bar for bar in bars if names[bar["line"]] == "a")
        found = [line[key] for key in ("low", "first", "third", "high")]
        assert found == pytest.approx(list(np.quantile(speedups, [0, 0.25, 0.75, 1])))
        assert names.count("30") == 1
        assert "31" not in names
        told = chart.spec["title"]["text"]
        assert told == [
            "202 cells: line from least to greatest, bar over the middle half", "width: 30 of 101 values",
        ]  # fmt: skip
        assert all(note in chart.description for note in told)


class TestOverBest:
    def test_points_are_the_speedups_over_the_best_eager_implementation(self):
        """Their own verdicts, which differ from those over eager."""
        rows = [
            cell(o, "default", 2, **best("fused", us, 100.0)) for o, us in (("adam", 50.0), ("sgd", 300.0))
        ]
        _, points, means = drawn(rows, charts_speedups.over_best)
        assert points == [("adam", 0.5, "slower"), ("sgd", 3, "faster")]
        assert means == {}

    def test_without_one_there_is_no_chart(self):
        """Rows of earlier schema versions lack it."""
        assert chart_of(charts_speedups.over_best, SQUARE) is None
