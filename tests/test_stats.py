"""Statistics against hand-worked numbers and against scipy."""

import math
import random

import numpy as np
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


class TestWidened:
    def test_margins_add_like_the_sides_of_a_right_triangle(self):
        """A deviation of 1 % has a margin of 1.96 %; with margins of 1 % and 2 % it gives hypotenuses."""
        known = Interval(3.0, 3.0 * math.exp(-0.01), 3.0 * math.exp(0.02))
        result = stats.widened(known, 0.01)
        assert result.center == 3.0
        assert math.log(result.low / 3) == pytest.approx(-math.hypot(0.01, 0.0195996), rel=1e-5)
        assert math.log(result.high / 3) == pytest.approx(math.hypot(0.02, 0.0195996), rel=1e-5)

    def test_a_sure_value_gets_the_normal_interval(self):
        """A value known exactly, times a factor e^N(0, 0.02), is scipy's lognormal interval."""
        low, high = scipy.stats.lognorm.interval(0.95, s=0.02, scale=1.25)
        result = stats.widened(Interval(1.25, 1.25, 1.25), 0.02)
        assert (result.low, result.high) == pytest.approx((low, high))

    def test_no_deviation_changes_nothing(self):
        """The interval of one process alone."""
        result = stats.widened(Interval(2.0, 1.9, 2.2), 0.0)
        assert (result.center, result.low, result.high) == pytest.approx((2.0, 1.9, 2.2))

    def test_swapped_arms_have_the_swapped_interval(self):
        """1 / the interval of a speedup is the interval of 1 / the speedup."""
        forth = stats.widened(Interval(2.0, 1.9, 2.2), 0.01)
        back = stats.widened(Interval(1 / 2.0, 1 / 2.2, 1 / 1.9), 0.01)
        assert (1 / back.high, 1 / back.low) == pytest.approx((forth.low, forth.high))

    def test_without_an_interval_there_is_none(self):
        """Luck added to an unknown margin is an unknown margin."""
        assert stats.widened(Interval(2, None, None), 0.01) == Interval(2, None, None)


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

    def test_what_all_cells_share_does_not_shrink(self):
        """By hand: 0.2 own and 1.96 x 0.1 shared in each of four; 0.1 own and 1.96 x 0.1 shared remain."""
        margin = math.hypot(0.2, 1.959964 * 0.1)
        one = Interval(2, 2 * math.exp(-margin), 2 * math.exp(margin))
        result = stats.geomean_interval([one] * 4, [0.1] * 4)
        assert math.log(result.high / result.low) / 2 == pytest.approx(
            math.hypot(0.1, 1.959964 * 0.1), rel=1e-5
        )

    def test_shares_of_different_size_count_with_their_mean_deviation(self):
        """Intervals of nothing else: 0.1 and 0.3 move together by 0.2."""
        own = [Interval(1, math.exp(-1.959964 * s), math.exp(1.959964 * s)) for s in (0.1, 0.3)]
        result = stats.geomean_interval(own, [0.1, 0.3])
        assert math.log(result.high) == pytest.approx(1.959964 * 0.2, rel=1e-5)

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


def two_levels(n, part, noise, draw):
    """Return `n` values on 1 and 1.05 with that noise, `part` of them on the higher level."""
    return [1.05 if i < part * n else 1.0 for i in range(n)] + noise * draw.normal(size=n)


ONE_HUMP = {
    "normal": lambda draw, n: 1 + 0.03 * draw.normal(size=n),
    "even": lambda draw, n: 1 + 0.1 * draw.uniform(size=n),
    "exponential": lambda draw, n: 1 + 0.05 * draw.exponential(size=n),
    "lognormal": lambda draw, n: draw.lognormal(sigma=0.5, size=n),
    "very skewed": lambda draw, n: 1 + 0.02 * draw.lognormal(sigma=1.0, size=n),
}
"""Samples of n values that lie on one level, however skewed."""


class TestLevels:
    def test_two_levels_are_returned_as_their_means(self):
        """13 values around 100 and 7 around 110 lie on levels of 100 and 110, in whatever order."""
        values = [99.0, 100.0, 101.0] * 4 + [100.0] + [109.0, 110.0, 111.0] * 2 + [110.0]
        random.Random(1).shuffle(values)  # noqa: S311
        assert stats.levels(values) == pytest.approx((100.0, 110.0))

    @pytest.mark.parametrize("n", [100, 101, 20, 21])
    def test_the_split_is_the_best_of_all(self, n):
        """Tried one by one with numpy's variances, no split has less within its parts."""
        ordered = np.sort(two_levels(n, 0.4, 0.003, np.random.default_rng(n)))
        within = {k: k * np.var(ordered[:k]) + (n - k) * np.var(ordered[k:]) for k in range(1, n)}
        best = min(within, key=within.get)
        expected = (np.mean(ordered[:best]), np.mean(ordered[best:]))
        assert stats.levels(list(ordered)) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("low", "high", "few", "expected"),
        [
            (100.0, 110.0, 4, True),
            (100.0, 110.0, 3, False),  # a few outliers are no level: 15 %
            (100.0, 101.1, 4, True),
            (100.0, 100.9, 4, False),  # nobody minds levels 1 % apart
        ],
    )
    def test_the_smaller_part_and_the_distance_count(self, low, high, few, expected):
        """Of 20 values at least 4 must be on the other level, more than 1 % away."""
        assert (stats.levels([low] * (20 - few) + [high] * few) is not None) == expected
        assert (stats.levels([high] * (20 - few) + [low] * few) is not None) == expected

    @pytest.mark.parametrize(("deviation", "expected"), [(1.5, True), (1.6, False)])
    def test_levels_must_be_apart_by_more_than_they_spread(self, deviation, expected):
        """20 values need 1.9 + 25/20 = 3.15 sums of deviations: of 1.5 each (9.45) 10 is more, of 1.6 not."""
        # Of ten values, one `side` above and one below their mean: 2 side^2 / 9 is the variance.
        side = deviation * math.sqrt(9 / 2)
        level = [-side, side, *[0.0] * 8]
        assert (stats.levels([*(100 + v for v in level), *(110 + v for v in level)]) is not None) == expected

    @pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0] * 9, [3.0] * 50])
    def test_few_or_equal_values_tell_nothing(self, values):
        """Two levels need 20 values, and two values."""
        assert stats.levels(values) is None

    @pytest.mark.parametrize("shape", ONE_HUMP)
    @pytest.mark.parametrize("n", [20, 40, 100, 200])
    def test_one_hump_is_not_taken_for_two(self, shape, n):
        """In at most 1 % of the samples: of 500 samples no more than 12 (1 % and three deviations)."""
        draw = np.random.default_rng(n)
        samples = (ONE_HUMP[shape](draw, n).tolist() for _ in range(500))
        assert sum(stats.levels(values) is not None for values in samples) <= 12

    @pytest.mark.parametrize(
        ("n", "part", "noise"),
        [
            (20, 0.3, 0.005),
            (40, 0.3, 0.007),
            (40, 0.5, 0.007),
            (100, 0.3, 0.01),
            (100, 0.5, 0.01),
            (200, 0.3, 0.01),
        ],
    )
    def test_two_levels_are_found(self, n, part, noise):
        """5 % apart, in 95 % of the samples: 10 deviations with 20 values, 7 with 40, 5 with 100."""
        draw = np.random.default_rng(n)
        samples = (two_levels(n, part, noise, draw).tolist() for _ in range(300))
        assert sum(stats.levels(values) is not None for values in samples) >= 285
