"""What a place of a table can hold."""

import pyarrow as pa
import pytest

from src.analysis import contents
from src.analysis.cells import cells_of
from src.analysis.contents import CONTENTS, Number, Unit
from src.analysis.facts import CELL_FACTS
from src.analysis.numbers import to_table
from src.analysis.summary import summarize
from tests.rows import bad, best, explained, row


def number_of(name, *rows):
    (cell,) = cells_of(rows)
    return CONTENTS[name].number(cell)


class TestContents:
    def test_every_number_of_the_summary_is_one(self):
        """Whatever `summary.csv` has of a cell, a table can show."""
        schema = to_table(summarize([row()])).schema
        numbers = {f.name for f in schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)}
        numbers = {name.removesuffix("_low").removesuffix("_high") for name in numbers - set(CELL_FACTS)}
        assert numbers <= {name for name, content in CONTENTS.items() if content.number}

    def test_each_is_a_number_or_words(self):
        """Never both, never neither; with a title and a meaning."""
        for content in CONTENTS.values():
            assert (content.number is None) != (content.words is None)
            assert (content.kind == "words") == (content.number is None)
            assert content.title
            assert content.meaning

    def test_numbers_are_those_of_the_cell(self):
        """With their intervals; 240 / 120 and 180 / 120 by hand."""
        one = row(**best("fused", 180.0), **explained("compiled", 120.0, kernels=2))
        assert number_of("eager_us", one) == Number(240.0, 240.0 * 0.99, 240.0 * 1.01)
        assert number_of("speedup_vs_best", one).value == 1.5
        assert number_of("compiled_kernels", one) == Number(2.0)
        assert number_of("compiled_attained", one).value == pytest.approx(28 * 10_485_760 / 4450e3 / 120)
        assert number_of("recompiles", one) == Number(0.0, 0.0, 0.0)

    def test_what_does_not_exist_is_none(self):
        """No time from a run that failed or is invalid, no fact that was not measured."""
        assert number_of("eager_us", bad("failed", "OOM")) is None
        assert number_of("speedup", row(verdict="invalid")) is None
        assert number_of("eager_device_us", row()) is None
        assert number_of("sequential_speedup", row()) is None

    def test_a_count_that_differs_between_runs_is_a_range(self):
        """Without a mean."""
        assert number_of("recompiles", row(recompiles=4), row(recompiles=6, seed=1)) == Number(None, 4.0, 6.0)

    def test_words_of_several_runs_are_all_told(self):
        """Each once."""
        rows = [row(parity="passed"), row(parity="failed", seed=1), row(parity="passed", seed=2)]
        (cell,) = cells_of(rows)
        assert CONTENTS["parity"].words(cell) == "passed or failed"
        assert CONTENTS["verdict_vs_best"].words(cell) is None


class TestUnitOf:
    @pytest.mark.parametrize(
        ("kind", "values", "label"),
        [
            ("us", [240.0, 120.0, 10_600.0], "us"),
            ("us", [0.5], "us"),
            ("us", [240.0, 2000.0, 10_600.0], "ms"),
            ("us", [2e6], "s"),
            ("s", [3.6, 0.2], "s"),
            ("s", [0.01, 0.02], "ms"),
            ("bytes", [2**30, 2**31], "GiB"),
            ("bytes", [5.0], "bytes"),
            ("steps", [30_100.0], "1000 steps"),
            ("part", [0.97], "%"),
            ("us", [], "us"),
        ],
    )
    def test_the_middle_number_is_at_least_one(self, kind, values, label):
        """The largest such unit."""
        assert contents.unit_of(kind, values).label == label


class TestShown:
    @pytest.mark.parametrize(
        ("kind", "number", "unit", "text"),
        [
            ("us", Number(10_543.0), Unit("us", 1.0), "10500"),
            ("us", Number(10_543.0), Unit("ms", 1e3), "10.5"),
            ("us", Number(91.24), Unit("ms", 1e3), "0.0912"),
            ("s", Number(3.613), Unit("s", 1.0), "3.61"),
            ("ratio", Number(2.0, 1.98, 2.02), Unit("", 1.0), "2.00"),
            ("ratio", Number(1.0, 0.998, 1.003), Unit("", 1.0), "1.000"),
            ("part", Number(0.973), Unit("%", 0.01), "97"),
            ("count", Number(4.0, 4.0, 4.0), Unit("", 1.0), "4"),
            ("count", Number(None, 4.0, 8.0), Unit("", 1.0), "4-8"),
            ("bytes", Number(3 * 2.0**20), Unit("MiB", 2.0**20), "3.00"),
            ("us", None, Unit("us", 1.0), "-"),
        ],
    )
    def test_a_number_is_bare(self, kind, number, unit, text):
        """Three significant digits, no unit."""
        assert contents.shown(kind, number, unit) == text

    @pytest.mark.parametrize(
        ("kind", "number", "text"),
        [
            ("us", Number(100.0, 98.0, 102.0), "±2.0 %"),
            ("ratio", Number(2.0, 1.98, 2.02), "[1.98, 2.02]"),
            ("count", Number(4.0, 4.0, 4.0), ""),
            ("us", Number(100.0), ""),
            ("us", None, ""),
        ],
    )
    def test_its_interval_is_said_apart(self, kind, number, text):
        """A count has none."""
        assert contents.spread(kind, number) == text
