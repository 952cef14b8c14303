"""Times of a step: each arm, and what bounds it."""

import pytest

from src.analysis import charts_times
from tests.analysis.charted import chart_of, marks, parameter, views
from tests.rows import bad, best, explained, row, times, traced


def drawn(rows):
    """Return the seconds of each cell's arms."""
    chart = chart_of(charts_times.times, rows)
    names = parameter(chart, "names")
    values = [*marks(views(chart)[0], "tick")[0], *marks(views(chart)[0], "point")[0]]
    return {(names[v["line"]], v["kind"]): v["time"] for v in values}


class TestTimes:
    def test_arms_device_and_floor_are_those_of_the_rows(self):
        """In seconds; the floor of `explained` is 28 x 10,485,760 bytes at 4450 GB/s."""
        full = row(**best("fused", 80.0), **explained("compiled", 120.0, device_us=90.0, bound="launch"))
        assert drawn([full]) == pytest.approx(
            {
                ("the only cell", "eager"): 240e-6,
                ("the only cell", "best eager"): 80e-6,
                ("the only cell", "compiled"): 120e-6,
                ("the only cell", "compiled: device busy"): 90e-6,
                ("the only cell", "roofline floor"): 28 * 10_485_760 / 4450e9,
            }
        )
        assert parameter(chart_of(charts_times.times, [full]), "bounds") == ["launch"]

    def test_what_was_not_measured_is_not_drawn(self):
        """A row of an earlier schema version has two arms."""
        assert {kind for _, kind in drawn([row()])} == {"eager", "compiled"}

    def test_the_eager_arm_that_is_the_best_is_drawn_once(self):
        """One mark, not two of the same time."""
        same = row(**best("foreach", 240.0, margin=0.01))
        assert {kind for _, kind in drawn([same])} == {"eager", "compiled"}

    def test_a_floor_that_bounds_nothing_is_not_drawn(self):
        """The parameters fit into the cache, which is faster than the memory."""
        cached = row(warnings=["in_cache"], **explained("compiled", 120.0))
        assert {kind for _, kind in drawn([cached])} == {"eager", "compiled"}

    def test_a_number_is_named(self):
        """64 of what?"""
        chart = chart_of(charts_times.times, [row(width=64), row(width=128, optimizer="sgd")])
        assert parameter(chart, "names") == ["width=64, adam", "width=128, sgd"]

    def test_invalid_and_failed_rows_are_not_drawn(self):
        """Their times are no numbers."""
        rows = [row(), row(optimizer="sgd", verdict="invalid"), bad("failed", "OOM", optimizer="muon")]
        assert {name for name, _ in drawn(rows)} == {"adam"}

    @pytest.mark.parametrize("rows", [[traced()], [bad("failed", "OOM")], [row(verdict="invalid")]])
    def test_without_a_time_there_is_no_chart(self, rows):
        """Nothing to draw."""
        assert chart_of(charts_times.times, rows) is None

    def test_of_many_cells_some_are_drawn_and_it_says_so(self):
        """Evenly spaced over the table."""
        rows = [row(width=n, **times(eager=100.0 + n, compiled=100.0)) for n in range(1, 101)]
        chart = chart_of(charts_times.times, rows)
        assert len(parameter(chart, "names")) == 40
        assert chart.spec["title"]["text"] == ["40 of 100 cells"]
        assert chart.description.startswith("Drawn are 40 of 100 cells.")
