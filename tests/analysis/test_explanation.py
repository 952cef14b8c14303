"""What rows say of why their times are so, put together."""

import pytest

from src import record, vocabulary
from src.analysis import explanation
from src.analysis.cells import cells_of
from tests.rows import explained, row


def why(*rows):
    (cell,) = cells_of(rows)
    return cell.why


class TestColumns:
    def test_all_are_columns_of_a_row(self):
        """Of every arm that is timed, and of the step."""
        names = {column.name for column in record.COLUMNS}
        assert set(explanation.COLUMNS) <= names
        assert len(explanation.COLUMNS) == 9 * len(vocabulary.TIMED_ARMS) + 6


class TestExplanation:
    def test_one_row_is_told_as_it_is(self):
        """Not a digit differs, and what was not measured is None."""
        found = why(row(**explained("eager", 234.1, kernels=7, device_us=93.3, bound="launch")))
        facts = found.arms["eager"]
        assert (facts.kernels, facts.device_us, facts.bounds) == (7, 93.3, ("launch",))
        assert (facts.host_us, facts.peak_bytes, found.state_bytes) == (None, None, None)
        assert list(found.arms) == ["eager"]

    def test_numbers_of_several_rows_are_geometric_means(self):
        """sqrt(2 * 8) = 4; so attained stays floor / time."""
        rows = [row(seed=i, eager_device_us=us, floor_us=us) for i, us in enumerate((2.0, 8.0))]
        found = why(*rows)
        assert (found.arms["eager"].device_us, found.floor_us) == (pytest.approx(4), pytest.approx(4))

    def test_zero_has_no_geometric_mean(self):
        """The clock of CPU time may not have moved: the median of 0, 4 and 5 is 4."""
        rows = [row(seed=i, eager_cpu_us=us) for i, us in enumerate((0.0, 5.0, 4.0))]
        assert why(*rows).arms["eager"].cpu_us == 4.0

    def test_counts_and_sizes_stay_whole(self):
        """The upper of the two middle ones of 2, 3, 7 and 9."""
        rows = [row(seed=i, eager_kernels=n, eager_peak_bytes=n) for i, n in enumerate((9, 2, 7, 3))]
        facts = why(*rows).arms["eager"]
        assert (facts.kernels, facts.peak_bytes) == (7, 7)

    def test_bounds_that_differ_are_all_told(self):
        """Each once."""
        rows = [row(seed=i, compiled_bound=b) for i, b in enumerate(("launch", "bandwidth", "launch"))]
        assert why(*rows).arms["compiled"].bounds == ("launch", "bandwidth")

    def test_rows_that_are_not_used_say_nothing(self):
        """An invalid step explains no time."""
        found = why(row(), row(seed=1, verdict="invalid", eager_device_us=1.0, floor_us=1.0))
        assert (found.arms, found.floor_us) == ({}, None)
