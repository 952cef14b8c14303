"""Statistics against hand-worked numbers and against scipy."""

import math
import random

import pytest
import scipy.stats

from src import stats
from src.stats import Interval


class TestMedianRanks:
    @pytest.mark.parametrize("n", [6, 7, 8, 15, 16, 20, 37, 100, 101, 500])
    def test_agree_with_the_binomial_distribution(self, n):
        """The lower rank is the last one below which at most 2.5 % of the probability lies."""
        low, high = stats.median_ranks(n)
        assert scipy.stats.binom.cdf(low, n, 0.5) <= 0.025
        assert scipy.stats.binom.cdf(low + 1, n, 0.5) > 0.025
        assert high == n - 1 - low

    @pytest.mark.parametrize("n", [6, 9, 20, 51])
    def test_agree_with_the_quantile_test_of_scipy(self, n):
        """The interval is the one scipy gives for the quantile 0.5 of the same values."""
        values = [float(v) for v in random.Random(n).sample(range(1000), n)]  # noqa: S311
        expected = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
        interval = stats.median_interval(values)
        assert (expected.low, expected.high) == (interval.low, interval.high)

    @pytest.mark.parametrize("n", range(6))
    def test_fewer_than_six_values_have_none(self, n):
        """Even the whole range of five values covers the median with 93.75 % only."""
        assert stats.median_ranks(n) is None


class TestMedianInterval:
    def test_six_values_give_their_whole_range(self):
        """With six values the interval reaches from the least to the greatest."""
        assert stats.median_interval([6, 1, 5, 2, 4, 3]) == Interval(3.5, 1, 6)

    def test_few_values_have_a_median_without_interval(self):
        """Five values have a median, but no interval."""
        assert stats.median_interval([1, 2, 9, 4, 5]) == Interval(4, None, None)

    def test_no_values_are_refused(self):
        """A median of nothing is a mistake of the caller."""
        with pytest.raises(ValueError, match="must not be empty"):
            stats.median_interval([])

    def test_a_wild_outlier_moves_nothing(self):
        """One block that took a thousand times longer leaves median and interval where they were."""
        quiet = [float(v) for v in range(1, 21)]
        assert stats.median_interval([*quiet[:-1], 20_000.0]) == stats.median_interval(quiet)


class TestPairedSpeedup:
    def test_noise_that_hits_both_arms_cancels(self):
        """Rounds that are slow for both arms alike have the same ratio."""
        slow = [1.0, 5.0, 2.0, 3.0, 1.5, 9.0]
        assert stats.paired_speedup([2 * s for s in slow], slow) == Interval(2, 2, 2)

    def test_swapping_the_arms_inverts_the_interval(self):
        """Speedup of A over B is one over that of B over A (odd number of rounds)."""
        a, b = [3.0, 4, 5, 6, 7, 8, 9], [2.0, 2, 3, 3, 4, 4, 5]
        forth, back = stats.paired_speedup(a, b), stats.paired_speedup(b, a)
        assert forth.center == pytest.approx(1 / back.center)
        assert forth.low == pytest.approx(1 / back.high)

    def test_arms_of_different_length_are_refused(self):
        """Rounds must pair."""
        with pytest.raises(ValueError, match="shorter"):
            stats.paired_speedup([1.0, 2.0], [1.0])


class TestGeomean:
    def test_a_doubling_and_a_halving_cancel(self):
        """The geometric mean of 2 and 1/2 is 1."""
        assert stats.geomean([2, 0.5]) == pytest.approx(1)

    @pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
    def test_what_has_no_logarithm_is_refused(self, values):
        """Nothing, zero and negative numbers have no geometric mean."""
        with pytest.raises(ValueError, match="positive"):
            stats.geomean(values)


class TestLogTInterval:
    def test_agrees_with_the_t_distribution_of_scipy(self):
        """The interval of the logarithms is scipy's t interval."""
        values = [1.9, 2.1, 2.0, 2.4]
        logs = [math.log(v) for v in values]
        low, high = scipy.stats.t.interval(0.95, 3, scipy.stats.tmean(logs), scipy.stats.sem(logs))
        interval = stats.log_t_interval(values)
        assert interval.low == pytest.approx(math.exp(low))
        assert interval.high == pytest.approx(math.exp(high))
        assert interval.center == pytest.approx(scipy.stats.gmean(values))

    def test_two_values_by_hand(self):
        """For 1 and e: centre e^0.5, half width 12.706 * 0.5 (t quantile, standard error 0.5)."""
        interval = stats.log_t_interval([1.0, math.e])
        assert math.log(interval.high) == pytest.approx(0.5 + 12.7062 * 0.5, rel=1e-5)

    def test_one_value_is_itself_without_interval(self):
        """A single run says nothing about another run."""
        assert stats.log_t_interval([3.61]) == Interval(3.61, None, None)


class TestQuotient:
    def test_margins_add_like_the_sides_of_a_right_triangle(self):
        """Margins of factors e^0.3 and e^0.4 give a margin of e^0.5."""
        numerator = Interval(6, 6 * math.exp(-0.3), 6 * math.exp(0.3))
        denominator = Interval(2, 2 * math.exp(-0.4), 2 * math.exp(0.4))
        result = stats.quotient(numerator, denominator)
        assert result.center == 3
        assert result.low == pytest.approx(3 * math.exp(-0.5))
        assert result.high == pytest.approx(3 * math.exp(0.5))

    def test_without_an_interval_there_is_none(self):
        """An unknown margin stays unknown."""
        assert stats.quotient(Interval(6, 5, 7), Interval(2, None, None)) == Interval(3, None, None)


class TestGeomeanInterval:
    def test_margins_shrink_with_the_square_root_of_the_count(self):
        """Four cells with a margin of e^0.2 have a geomean with a margin of e^0.1."""
        one = Interval(2, 2 * math.exp(-0.2), 2 * math.exp(0.2))
        result = stats.geomean_interval([one] * 4)
        assert result.center == pytest.approx(2)
        assert math.log(result.high / result.low) == pytest.approx(0.2)

    def test_one_cell_without_interval_takes_it_from_all(self):
        """A geomean is known no better than its parts."""
        assert stats.geomean_interval([Interval(2, 1, 4), Interval(8, None, None)]).low is None


class TestVerdict:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (1.02, 1.05, "faster"),
            (1.005, 1.05, "no_difference"),
            (0.9, 0.95, "slower"),
            (0.95, 0.995, "no_difference"),
            (0.5, 2.0, "no_difference"),
            (None, None, "no_difference"),
        ],
    )
    def test_the_whole_interval_must_lie_beyond_the_least_effect(self, low, high, expected):
        """With min_effect 0.01 an interval must lie above 1.01 or below 1/1.01."""
        assert stats.verdict(Interval(1.0, low, high), 0.01) == expected


class TestSpread:
    def test_interquartile_range_over_median(self):
        """Of 1 to 8 the middle half reaches from 3 to 6, around 4.5."""
        assert stats.spread([8, 7, 6, 5, 4, 3, 2, 1]) == pytest.approx(3 / 4.5)
