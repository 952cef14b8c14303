"""Rows to the variances of their numbers, the other way round than `verdicts` makes intervals."""

import math

import pytest

from src import stats
from src.analysis.changes_estimates import (
    DEVICE_LIMITED,
    HOST_LIMITED,
    METRICS,
    ON_CPU,
    PROCESS_SPREAD,
    measured,
    min_effect,
)
from src.stats import Interval
from src.vocabulary import SHARED_SPREAD
from tests.rows import row

SPEEDUP, EAGER = METRICS["speedup"], METRICS["eager_us"]
Z = 1.959963984540054


def with_interval(name, interval, **changes):
    ends = {name: interval.center, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row(**ends, **changes)


def around(center, margin):
    return Interval(center, center * math.exp(-margin), center * math.exp(margin))


class TestSpeedup:
    def test_one_process_has_its_rounds_and_the_spread_it_assumes(self):
        """Rounds of 0.3 %, an assumed spread of 1 % and a shared one of 0.2 %."""
        interval = stats.widened(around(2.0, Z * 0.003), math.hypot(0.01, 0.002))
        found = measured(
            [with_interval("speedup", interval, processes=1, process_spread=0.01, shared_spread=0.002)],
            SPEEDUP,
        )
        assert found.estimate.log == pytest.approx(math.log(2))
        assert (found.estimate.assumed, found.estimate.shared) == pytest.approx(
            (0.003**2 + 0.01**2, 0.002**2)
        )
        assert (found.estimate.sampled, found.assumed, found.lacking) == (0.0, False, "")

    def test_several_processes_have_the_variance_that_was_seen(self):
        """Of logarithms 0.00, 0.01 and 0.02: 0.0001 / 3, with 2 degrees of freedom."""
        values = [1.0, math.exp(0.01), math.exp(0.02)]
        interval = stats.widened(stats.log_t_interval(values), 0.01)
        found = measured(
            [with_interval("speedup", interval, processes=3, shared_spread=0.01)], SPEEDUP
        ).estimate
        assert (found.log, found.sampled) == pytest.approx((0.01, 0.0001 / 3))
        assert (found.df, found.shared, found.assumed) == (2, 0.01**2, 0.0)

    def test_its_interval_is_that_of_the_row(self):
        """Nothing is lost on the way."""
        interval = stats.widened(stats.log_t_interval([1.9, 2.0, 2.2]), 0.01)
        found = measured([with_interval("speedup", interval, processes=3, shared_spread=0.01)], SPEEDUP)
        again = found.estimate.interval()
        assert (again.low, again.center, again.high) == pytest.approx(
            (interval.low, interval.center, interval.high)
        )

    def test_the_wider_side_of_an_uneven_interval_counts(self):
        """1 % below and 3 % above."""
        interval = Interval(1.0, math.exp(-0.01), math.exp(0.03))
        made = with_interval("speedup", interval, processes=1, process_spread=0.0, shared_spread=0.0)
        assert measured([made], SPEEDUP).estimate.assumed == pytest.approx((0.03 / Z) ** 2)

    @pytest.mark.parametrize("device", ["cuda", "cpu"])
    def test_a_row_from_before_spreads_were_recorded_gets_those_known_now(self, device):
        """Its interval has neither in it, and that one was assumed is told."""
        made = with_interval("speedup", around(1.0, Z * 0.003), device=device)
        found = measured([made], SPEEDUP)
        assert found.assumed
        assert found.estimate.assumed == pytest.approx(0.003**2 + PROCESS_SPREAD[device] ** 2)
        assert found.estimate.shared == SHARED_SPREAD[device] ** 2

    def test_several_processes_from_before_the_shared_spread_was_recorded(self):
        """Nothing is taken out of the interval that is not in it."""
        values = [1.0, math.exp(0.01), math.exp(0.02)]
        made = with_interval("speedup", stats.log_t_interval(values), processes=3, shared_spread=None)
        found = measured([made], SPEEDUP).estimate
        assert (found.sampled, found.shared) == pytest.approx((0.0001 / 3, SHARED_SPREAD["cuda"] ** 2))

    def test_several_rows_are_repeated_values_whatever_their_own_intervals(self):
        """As in a summary; the largest share of them counts."""
        rows = [row(speedup=s, shared_spread=h) for s, h in ((1.0, 0.001), (math.e, 0.002))]
        found = measured(rows, SPEEDUP)
        assert (found.estimate.log, found.estimate.sampled, found.estimate.df) == (0.5, 0.25, 1)
        assert (found.estimate.shared, found.rows) == (0.002**2, 2)

    def test_too_few_rounds_have_no_interval(self):
        """Nothing to compare by."""
        found = measured([row(speedup=2.0, speedup_low=None, speedup_high=None)], SPEEDUP)
        assert (found.center, found.estimate, found.lacking) == (2.0, None, "no interval")

    def test_a_cell_without_the_metric_has_nothing(self):
        """`speedup_vs_best` where no best arm was timed."""
        assert measured([row()], METRICS["speedup_vs_best"]) is None
        assert measured([], SPEEDUP) is None


class TestTimes:
    @pytest.mark.parametrize(
        ("facts", "luck"),
        [
            ({"device": "cpu"}, ON_CPU),
            ({"device": "cuda"}, HOST_LIMITED),  # nothing is known of the host
            ({"device": "cuda", "eager_host_us": 90.0}, HOST_LIMITED),
            ({"device": "cuda", "eager_host_us": 80.0}, DEVICE_LIMITED),
        ],
    )
    def test_one_process_gets_the_luck_of_processes_and_of_runs(self, facts, luck):
        """A step of 240 us: with 80 us to enqueue it, the host would have to be three times as slow."""
        made = with_interval("eager_us", around(240.0, Z * 0.003), processes=1, process_spread=0.01, **facts)
        found = measured([made], EAGER).estimate
        assert (found.assumed, found.shared) == pytest.approx((0.003**2 + luck.process**2, luck.run**2))

    def test_several_processes_and_several_rows_keep_the_luck_of_runs(self):
        """Processes of one run are timed while the machine is as it is."""
        values = [240.0, 240.0 * math.exp(0.01), 240.0 * math.exp(0.02)]
        made = with_interval("eager_us", stats.log_t_interval(values), processes=3, device="cpu")
        one, two = measured([made], EAGER).estimate, measured([made, made], EAGER).estimate
        assert (one.sampled, one.shared, two.shared) == pytest.approx(
            (0.0001 / 3, ON_CPU.run**2, ON_CPU.run**2)
        )

    def test_a_single_compilation_has_no_interval(self):
        """Several have one, with the luck of the host."""
        once, twice = (measured([row()] * n, METRICS["compile_s"]) for n in (1, 2))
        assert (once.estimate, once.center) == (None, 3.61)
        assert twice.estimate.shared == HOST_LIMITED.run**2


class TestMinEffect:
    def test_is_the_largest_of_the_rows(self):
        """0 where none says so."""
        assert min_effect([row(min_effect=0.01), row(min_effect=0.03), row(min_effect=None)]) == 0.03
        assert min_effect([row(min_effect=None)]) == min_effect([]) == 0.0
