"""Changes and their tests against hand-worked numbers, scipy, and simulated truth."""

import math
import random
from dataclasses import replace

import pytest
import scipy.stats

from src import inference, stats
from src.inference import Estimate, change, holm, mean_change, repeated
from src.stats import Interval
from tests import simulated_changes
from tests.simulated_changes import ALPHA, MIN_EFFECT, SIDES, Kind, Side, rates

EXACT = Estimate(0.0)


class TestEstimate:
    def test_two_values_by_hand(self):
        """Logarithms 0 and 1: mean 0.5, variance 0.5, of the mean 0.25, one degree of freedom."""
        found = repeated([1.0, math.e], shared=0.04)
        assert (found.log, found.sampled, found.df, found.shared) == (0.5, 0.25, 1, 0.04)

    def test_one_value_is_refused(self):
        """It says nothing about another."""
        with pytest.raises(ValueError, match="at least two values"):
            repeated([2.0], 0.0)

    def test_interval_of_a_sample_is_the_t_interval_widened_by_what_is_shared(self):
        """As rows that repeat a cell are summarised."""
        values = [1.9, 2.1, 2.0, 2.4]
        expected = stats.widened(stats.log_t_interval(values), 0.01)
        found = repeated(values, 0.01**2).interval()
        assert (found.low, found.center, found.high) == pytest.approx(
            (expected.low, expected.center, expected.high)
        )

    def test_interval_of_what_is_known_is_the_lognormal_one(self):
        """scipy's interval of a factor e^N(0, 0.05), of 0.03 and 0.04 together."""
        low, high = scipy.stats.lognorm.interval(0.95, s=0.05, scale=1.25)
        found = Estimate(math.log(1.25), assumed=0.03**2, shared=0.04**2).interval()
        assert (found.low, found.high) == pytest.approx((low, high))


class TestChange:
    def test_interval_is_that_of_the_quotient(self):
        """Margins of both sides join as `stats.quotient` joins them."""
        base, new = repeated([2.0, 2.1, 2.2], 1e-4), Estimate(0.9, 0.002, 4, assumed=3e-4, shared=1e-4)
        expected = stats.quotient(new.interval(), base.interval())
        found = change(base, new).interval()
        assert (found.low, found.center, found.high) == pytest.approx(
            (expected.low, expected.center, expected.high)
        )

    def test_swapped_sides_have_the_swapped_interval_and_the_same_p_value(self):
        """1 / a change is the change the other way round."""
        base, new = Estimate(0.1, 0.0004, 4), Estimate(0.2, assumed=0.0002)
        forth, back = change(base, new), change(new, base)
        assert 1 / back.interval().high == pytest.approx(forth.interval().low)
        assert back.p_value(0.01) == pytest.approx(forth.p_value(0.01))


class TestPValue:
    def test_of_one_sample_is_that_of_the_t_test(self):
        """Against a quantity known exactly and no least effect: scipy's test of the logarithms."""
        values = [1.02, 1.05, 0.99, 1.04, 1.03]
        expected = scipy.stats.ttest_1samp([math.log(v) for v in values], 0.0).pvalue
        assert change(EXACT, repeated(values, 0.0)).p_value(0.0) == pytest.approx(expected)

    def test_of_what_is_known_is_that_of_the_normal_distribution(self):
        """4 % at a deviation of 1 % on each side, beyond the least effect of 1 %: both tails."""
        one = 0.01**2
        found = change(Estimate(0.0, assumed=one), Estimate(math.log(1.04), shared=one)).p_value(0.01)
        expected = 2 * scipy.stats.norm.sf((math.log(1.04) - math.log(1.01)) / math.sqrt(2 * one))
        assert found == pytest.approx(expected)

    @pytest.mark.parametrize("min_effect", [0.01, 0.02])
    def test_a_change_within_the_least_effect_has_1(self, min_effect):
        """However sure it is."""
        assert change(EXACT, Estimate(math.log(1 / 1.0099))).p_value(min_effect) == 1

    def test_is_the_level_at_which_the_interval_begins_to_touch_the_least_effect(self):
        """With all kinds of variance, and unequal samples."""
        base = Estimate(0.0, 0.0002, 1, assumed=1e-5, shared=1e-6)
        found = change(base, Estimate(0.3, 0.0004, 4, shared=1e-6))
        p = found.p_value(0.01)
        assert found.margin(p) == pytest.approx(0.3 - math.log(1.01), rel=1e-3)

    def test_is_below_5_percent_just_when_the_interval_is_beyond_the_least_effect(self):
        """The rule by which rows are judged, over many sides."""
        draw = random.Random(7)  # noqa: S311
        seen = set()
        for _ in range(400):
            sides = [
                Estimate(
                    draw.gauss(0, 0.1), draw.random() * 1e-3, draw.choice([1, 2, 4]), draw.random() * 1e-4
                )
                for _ in range(2)
            ]
            found = change(*sides)
            told = stats.verdict(found.interval(), 0.02) != "no_difference"
            assert (found.p_value(0.02) < ALPHA) == told
            seen.add(told)
        assert seen == {True, False}

    def test_nothing_is_told_beyond_what_anybody_knows(self):
        """A change of a factor of 2 that is known exactly has the least p-value there is."""
        assert change(EXACT, Estimate(math.log(2))).p_value(0.01) == inference.LEAST_P
        assert change(EXACT, Estimate(9.0, assumed=1e-6)).p_value(0.01) == inference.LEAST_P


class TestMeanChange:
    def test_what_cells_have_of_their_own_averages_out_and_what_they_share_does_not(self):
        """100 cells with variances of 1 own and 4 shared on each side: 2 x (1 / 100 + 4)."""
        pair = (Estimate(0.0, assumed=1.0, shared=4.0), Estimate(0.5, assumed=1.0, shared=4.0))
        found = mean_change([pair] * 100)
        assert (found.log, found.known) == pytest.approx((0.5, 8.02))

    def test_shares_of_different_size_count_with_their_mean_deviation(self):
        """Deviations of 1 and 3 that move together move the mean by 2."""
        pairs = [(Estimate(0.0, shared=s**2), Estimate(0.0)) for s in (1.0, 3.0)]
        assert mean_change(pairs).known == pytest.approx(4.0)

    def test_is_the_quotient_of_the_geomeans_of_both_sides(self):
        """Without shares, as the geomeans of a summary have their intervals."""
        base = [Estimate(0.1, assumed=0.01), Estimate(0.5, 0.02, 4)]
        new = [Estimate(0.2, assumed=0.03), Estimate(0.4, assumed=0.01)]
        sides = [stats.geomean_interval([e.interval() for e in side]) for side in (new, base)]
        expected = stats.quotient(*sides)
        found = mean_change(list(zip(base, new, strict=True))).interval()
        assert (found.low, found.center, found.high) == pytest.approx(
            (expected.low, expected.center, expected.high)
        )

    def test_no_cells_are_refused(self):
        """A mean of nothing is a mistake of the caller."""
        with pytest.raises(ValueError, match="at least one"):
            mean_change([])


class TestHolm:
    def test_by_hand(self):
        """0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 x 1 which must not be below the one before."""
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_never_exceeds_1(self):
        """It is a probability."""
        assert holm([0.6, 0.7, 1.0]) == [1.0, 1.0, 1.0]

    def test_of_one_and_of_none(self):
        """One test needs no adjustment."""
        assert (holm([0.03]), holm([])) == ([0.03], [])


def bound(part, n):
    """Return what a share of `n` with this true part exceeds once in 1000 times."""
    return part + 3.1 * math.sqrt(part * (1 - part) / n)


class TestRates:
    """docs/method.md has the same of more comparisons."""

    @pytest.mark.parametrize("sides", SIDES)
    @pytest.mark.parametrize(("cells", "comparisons"), [(1, 1000), (10, 100), (50, 20)])
    def test_where_nothing_changed_5_percent_of_the_comparisons_tell_a_change_at_most(
        self, sides, cells, comparisons
    ):
        """Family-wise, over all cells of a comparison."""
        assert rates(Kind(*SIDES[sides], cells), comparisons).false <= bound(0.05, comparisons)

    @pytest.mark.parametrize("sides", SIDES)
    def test_where_all_changed_by_the_least_effect_too(self, sides):
        """The hardest case of no effect: half of the estimates are beyond it."""
        kind = Kind(*SIDES[sides], cells=10, change=1 + MIN_EFFECT)
        assert rates(kind, 100).false <= bound(0.05, 100)

    @pytest.mark.parametrize("sides", SIDES)
    def test_intervals_of_cells_and_of_the_geomean_cover_the_truth(self, sides):
        """95 % or more, at a change that is none and at a large one."""
        for true in (1.0, 1.5):
            found = rates(Kind(*SIDES[sides], cells=5, change=true), 100)
            assert found.covered >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / 500)
            assert found.mean_covered >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / 100)

    def test_a_geomean_over_many_cells_covers_the_truth_though_all_of_a_side_are_off_alike(self):
        """The luck of 50 cells averages out to less than what they share."""
        kind = Kind(Side(5, luck=0.001), Side(5, luck=0.001), cells=50, noise=0.001, shared=0.01)
        assert rates(kind, 60).mean_covered >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / 60)

    def test_a_planted_change_of_3_percent_is_found_where_rows_are_narrow_enough(self):
        """Five processes with a luck of 0.15 % have intervals of +-0.3 %; among ten cells as well."""
        kind = Kind(*SIDES["5 processes, luck 0.15 %"], cells=10, planted=1.03)
        found = rates(kind, 60)
        assert found.found == 1.0
        assert found.false <= bound(0.05, 60)

    def test_a_change_is_found_about_half_of_the_time_at_the_width_that_the_intervals_state(self):
        """A single cell, all variance known: the true change lies where the interval would just be told."""
        kind = Kind(Side(), Side())
        reach = stats.normal_quantile() * math.sqrt(2 * (0.01**2 + 0.002**2 + 0.001**2))
        found = rates(replace(kind, planted=math.exp(math.log1p(MIN_EFFECT) + reach)), 400).found
        assert 0.5 - 3.1 * 0.025 <= found <= 0.5 + 3.1 * 0.025

    def test_the_simulated_row_is_one_that_verdicts_would_make(self):
        """One process without luck: the assumed spread and what is shared, in a right triangle."""
        made = simulated_changes.row(Side(luck=0.0), Kind(Side(), Side(), noise=0.0), 0.0, random.Random(0))  # noqa: S311
        assert made["speedup"] == 1.0
        expected = stats.widened(Interval(1.0, 1.0, 1.0), math.hypot(0.01, 0.001))
        assert (made["speedup_low"], made["speedup_high"]) == pytest.approx((expected.low, expected.high))
