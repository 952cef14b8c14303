"""The table that says why; its golden files are in test_tables."""

import pytest

from src import vocabulary
from src.analysis import why
from src.analysis.summary import summarize
from tests.rows import bad, best, explained, row

EAGER = explained("eager", 240.0, device_us=90.0, host_us=200.0, cpu_us=240.0, bound="launch")


def arms(*rows):
    grid = why.why_of(summarize(rows)).grids[-1]
    return [line.labels[-1] for line in grid.lines]


def titles(*rows, grid=-1):
    return [column.title for column in why.why_of(summarize(rows)).grids[grid].columns]


class TestWhyOf:
    def test_rows_that_explain_nothing_are_refused(self):
        """The message says what makes rows that do."""
        with pytest.raises(why.WhyError, match=r"measure\.explain=true"):
            why.why_of(summarize([row(), row(optimizer="sgd")]))

    def test_a_line_for_each_arm_that_was_timed(self):
        """Named with the implementation that it ran."""
        after = {"eager_after_compile_us": 600.0}
        timed = row(**EAGER, **best("fused", 90.0), **after, eager_path="foreach")
        assert arms(timed) == ["eager (foreach)", "best eager (fused)", "compiled", "eager after compile"]

    def test_the_best_implementation_may_be_the_eager_arm(self):
        """It has one line then, also where both arms are explained."""
        same = best("foreach", 240.0, margin=0.01) | {"eager_best_device_us": 90.0}
        assert arms(row(**EAGER, **same)) == ["eager = best (foreach)", "compiled"]

    @pytest.mark.parametrize(
        ("device", "present", "absent"),
        [("cuda", {"device us", "host us"}, "CPU us"), ("cpu", {"CPU us"}, "-")],
    )
    def test_columns_are_those_that_say_something(self, device, present, absent):
        """CPU time only where no GPU does the work; a column of nulls is left out."""
        found = set(titles(row(**EAGER, device=device)))
        assert present <= found
        assert absent not in found
        assert "kernels" not in found

    @pytest.mark.parametrize(("size", "unit", "entry"), [(2**20, "MiB", "1.00"), (2**31, "GiB", "2.00")])
    def test_memory_is_in_a_unit_that_all_lines_share(self, size, unit, entry):
        """GiB from one GiB on."""
        rows = [row(**EAGER, eager_peak_bytes=size)]
        grid = why.why_of(summarize(rows)).grids[-1]
        assert grid.columns[-1].title == f"peak {unit}"
        assert grid.lines[0].entries[-1] == (entry,)
        assert grid.lines[1].entries[-1] == ("-",)

    def test_the_floor_stands_above(self):
        """Least bytes, bandwidth and floor of each cell that has them."""
        document = why.why_of(summarize([row(**EAGER), row(optimizer="sgd")]))
        floors = document.grids[0]
        assert [c.title for c in floors.columns] == ["must move MiB", "bandwidth GB/s", "floor us"]
        assert [(line.labels, line.entries) for line in floors.lines] == [
            (("adam",), (("280",), ("4450",), ("66.0",)))
        ]

    def test_cells_without_a_time_are_named(self):
        """Nothing is dropped in silence."""
        rows = [row(**EAGER), bad("failed", "OOM", optimizer="sgd"), row(optimizer="lion", verdict="invalid")]
        assert why.why_of(summarize(rows)).remarks == (
            "Without a time that can be used: sgd (failed); lion (invalid).",
        )

    def test_the_words_for_bounds_are_those_in_use(self):
        """Each is explained, and no other."""
        assert [bound for bound, _ in why.why_of(summarize([row(**EAGER)])).legend] == ["launch"]


class TestToTable:
    def test_a_row_for_each_cell_and_arm(self):
        """Numbers with their unit in the name; names of the arms as in the columns of a row."""
        table = why.to_table(summarize([row(**EAGER, **best("fused", 90.0))])).to_pylist()
        assert [(line["arm"], line["us"], line["device_us"]) for line in table] == [
            ("eager", 240.0, 90.0),
            ("eager_best", 90.0, None),
            ("compiled", 120.0, None),
        ]
        assert {line["parameters"] for line in table} == {10_485_760}
        assert table[0]["attained"] == pytest.approx(table[0]["floor_us"] / 240)

    def test_bounds_have_words_for_all_values_of_the_schema(self):
        """A bound that is added to the schema is explained here too."""
        assert set(why.BOUNDS) == set(vocabulary.BOUNDS)
