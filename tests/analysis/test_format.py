"""How numbers and names read."""

import pytest

from src.analysis import format as fmt
from src.stats import Interval


class TestTime:
    @pytest.mark.parametrize(
        ("us", "expected"),
        [
            (None, "-"),
            (0, "0 us"),
            (0.1234, "0.123 us"),
            (83.25, "83.2 us"),
            (234.4, "234 us"),
            (999.6, "1.00 ms"),
            (1052.9, "1.05 ms"),
            (999_700, "1.00 s"),
            (3_610_000, "3.61 s"),
            (312_000_000, "312 s"),
        ],
    )
    def test_three_digits_and_a_scaled_unit(self, us, expected):
        """Times read in the unit in which they have one to three digits before the point."""
        assert expected == fmt.time_us(us)

    def test_seconds_use_the_same_units(self):
        """A warm compile of 0.25 s reads 250 ms."""
        assert fmt.time_s(0.25) == "250 ms"


class TestSignificant:
    @pytest.mark.parametrize(
        ("value", "expected"), [(None, "-"), (0.0, "0"), (83.25, "83.2"), (9.996, "10.0"), (10547.0, "10500")]
    )
    def test_three_digits_without_a_unit(self, value, expected):
        """The unit is in the title of the column."""
        assert expected == fmt.significant(value)


class TestPercent:
    @pytest.mark.parametrize(
        ("value", "expected"), [(None, "-"), (0.92, "92"), (0.0994, "9.9"), (0.0996, "10"), (1.3, "130")]
    )
    def test_one_decimal_below_ten(self, value, expected):
        """0.0996 is 9.96 %, which reads 10."""
        assert expected == fmt.percent(value)


class TestHalfWidth:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (99.5, 100.5, "±0.5 %"),
            (80, 120, "±20 %"),
            (99.98, 100.02, "±0.02 %"),
            (1, 2001, "±>999 %"),
            (None, None, ""),
        ],
    )
    def test_half_of_the_relative_width(self, low, high, expected):
        """The interval 99.5 to 100.5 around 100 reads ±0.5 %."""
        assert expected == fmt.half_width(Interval(100, low, high))


class TestRatio:
    @pytest.mark.parametrize(
        ("interval", "center", "ends"),
        [
            (Interval(0.69, 0.68, 0.701), "0.69x", "[0.68, 0.70]"),
            (Interval(1.003, 1.001, 1.005), "1.003x", "[1.001, 1.005]"),
            (Interval(1.0003, 1.0001, 1.0005), "1.0003x", "[1.0001, 1.0005]"),
            (Interval(2.5, None, None), "2.50x", ""),
            (None, "-", ""),
        ],
    )
    def test_as_many_decimals_as_the_interval_needs(self, interval, center, ends):
        """Two ends that differ never read alike."""
        assert (center, ends) == (fmt.ratio(interval), fmt.bounds(interval))


class TestCount:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [(None, "-"), (0, "0"), (512.4, "512"), (5986.7, "5990"), (12_345, "12.3k"), (10_485_760, "10.5M")],
    )
    def test_three_digits(self, value, expected):
        """Large counts are shortened."""
        assert expected == fmt.count(value)

    def test_a_range_only_where_counts_differ(self):
        """Equal counts of all rows are one number."""
        assert (fmt.count_range((4, 4)), fmt.count_range((4, 8)), fmt.count_range(None)) == ("4", "4-8", "-")


class TestPlain:
    def test_nothing_steers_the_terminal(self):
        """Escape sequences and line breaks in names are shown, not obeyed."""
        assert fmt.plain("a\n\x1b[31mred\u202e") == r"a \x1b[31mred\u202e"


class TestValue:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [(None, "null"), (True, "true"), (0.1, "0.1"), (1e-8, "1e-08"), ([0.9, 0.999], "[0.9,0.999]")],
    )
    def test_reads_as_on_the_command_line(self, raw, expected):
        """Values of axes are written as Hydra takes them."""
        assert expected == fmt.value(raw)
