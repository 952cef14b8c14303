"""Numbers of groups of rows, against scipy and pandas."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from src import vocabulary
from src.analysis.repeats import Repeats
from src.analysis.rows import Rows
from src.stats import Interval
from tests.rows import row, times


def repeats(*groups):
    """Return the numbers of groups of rows."""
    rows = [each for group in groups for each in group]
    number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return Repeats(Rows.of(rows), np.arange(len(rows)), number, len(groups))


def of_speedups(*values):
    return [row(seed=i, **times(240.0, 240.0 / v)) for i, v in enumerate(values)]


class TestNumber:
    def test_a_row_alone_keeps_its_own_interval(self):
        """Not a digit differs."""
        found = repeats([], of_speedups(2.0), []).number("speedup")
        assert (found.at(0), found.at(1), found.at(2)) == (None, Interval(2.0, 1.98, 2.02), None)

    def test_several_have_students_interval_of_their_logarithms(self):
        """As scipy computes it, for groups of different sizes at once."""
        groups = [[1.0, 1.1], [2.0, 2.2, 1.9, 2.05, 2.1], [3.0], [0.5, 0.4, 0.45]]
        found = repeats(*(of_speedups(*values) for values in groups)).number("speedup")
        for group in (0, 1, 3):
            logs = np.log(groups[group])
            low, high = scipy_stats.t.interval(0.95, len(logs) - 1, logs.mean(), scipy_stats.sem(logs))
            expected = [scipy_stats.gmean(groups[group]), math.exp(low), math.exp(high)]
            got = found.at(group)
            assert [got.center, got.low, got.high] == pytest.approx(expected, rel=1e-12)

    def test_equal_values_have_an_interval_without_width(self):
        """Rounding must not show as a spread."""
        got = repeats(of_speedups(0.7, 0.7, 0.7)).number("speedup").at(0)
        assert got.low == got.center == got.high

    def test_a_row_that_lacks_the_number_is_not_counted(self):
        """One of two rows has it: that row's own interval."""
        rows = of_speedups(2.0, 3.0)
        rows[1]["speedup"] = None
        assert repeats(rows).number("speedup").at(0) == Interval(2.0, 1.98, 2.02)

    def test_what_has_no_logarithm_has_no_geometric_mean(self):
        """A row that says zero us is broken, and no reason to end with a traceback."""
        assert (
            repeats([row(eager_best_us=0.0), row(eager_best_us=-1.0)]).number("eager_best_us").at(0) is None
        )


class TestSpeedup:
    def test_several_rows_are_widened_by_what_all_processes_share(self):
        """Sides of a right triangle in logarithms; the largest of what rows tell, or what is known now."""
        told = [
            each | {"shared_spread": s} for each, s in zip(of_speedups(2.0, 2.1), (0.02, 0.05), strict=True)
        ]
        old = of_speedups(2.0, 2.1)
        found = repeats(told, old)
        for group, shared in ((0, 0.05), (1, vocabulary.SHARED_SPREAD["cuda"])):
            bare, wide = found.number("speedup").at(group), found.speedup("speedup").at(group)
            expected = math.hypot(math.log(bare.high / bare.center), 1.959963984540054 * shared)
            assert math.log(wide.high / wide.center) == pytest.approx(expected)
            assert math.log(wide.center / wide.low) == pytest.approx(expected)

    def test_rows_that_are_as_far_apart_as_numbers_go_have_an_interval_without_end(self):
        """Nonsense in a row must not end a summary of a hundred thousand others."""
        got = repeats(of_speedups(1e-150, 1e150)).speedup("speedup").at(0)
        assert (got.center, got.low, got.high) == (pytest.approx(1.0), 0.0, math.inf)

    def test_a_row_alone_is_not(self):
        """It has that in its own interval."""
        found = repeats([row(shared_spread=0.05)])
        assert found.speedup("speedup").at(0) == found.number("speedup").at(0)


class TestRatio:
    def test_of_a_row_alone_the_relative_half_widths_add_as_a_right_triangle(self):
        """Two ends of one per cent and one of two: sqrt(ln(1.01)^2 + ln(1/0.98)^2)."""
        made = row(eager_us=300.0, eager_us_low=294.0, eager_us_high=303.0)
        made |= {"compiled_us": 100.0, "compiled_us_low": 98.0, "compiled_us_high": 101.0}
        got = repeats([made]).ratio("eager_us", "compiled_us").at(0)
        up = math.hypot(math.log(1.01), math.log(1 / 0.98))
        assert (got.center, got.high) == (3.0, pytest.approx(3.0 * math.exp(up)))

    def test_without_ends_there_is_no_interval(self):
        """Nor from a row that lacks one of the two."""
        bare = dict.fromkeys(("eager_us_low", "eager_us_high"))
        found = repeats([row(**bare)], [row(compiled_us=None)]).ratio("eager_us", "compiled_us")
        assert (found.at(0), found.at(1)) == (Interval(2.0, None, None), None)


class TestMiddleAndTypical:
    def test_agree_with_pandas(self):
        """Geometric mean, median where a value is zero, upper median of counts, of 300 groups."""
        random = np.random.default_rng(0)
        sizes = random.integers(0, 7, 300)
        group = np.repeat(np.arange(300), sizes)
        values = np.round(random.lognormal(3, 1, len(group)), 1)
        values[random.random(len(group)) < 0.05] = 0.0
        counts = random.integers(0, 9, len(group))
        rows = [row(eager_host_us=v, eager_kernels=int(n)) for v, n in zip(values, counts, strict=True)]
        found = Repeats(Rows.of(rows), np.arange(len(rows)), group, 300)
        frame = pd.DataFrame({"group": group, "value": values, "count": counts}).groupby("group")
        middle, typical = found.middle("eager_host_us"), found.typical("eager_kernels")
        for number, members in frame:
            zero = (members["value"] == 0).any()
            expected = members["value"].median() if zero else scipy_stats.gmean(members["value"])
            assert middle[number] == pytest.approx(expected)
            assert typical[number] == members["count"].quantile(0.5, interpolation="higher")
        assert np.isnan(middle[sizes == 0]).all()
        assert np.isnan(typical[sizes == 0]).all()
