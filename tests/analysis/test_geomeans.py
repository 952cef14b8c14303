"""Geomeans over comparable cells only."""

import math

import pytest

from src.analysis.axes import axes_of
from src.analysis.cells import cells_of
from src.analysis.geomeans import geomeans_of
from tests.rows import bad, best, row, times


def cell(optimizer, mode, speedup, **changes):
    return row(optimizer=optimizer, compile_mode=mode, **times(100.0 * speedup, 100.0)) | changes


def geomeans(*rows):
    cells = cells_of(rows)
    return geomeans_of(cells, axes_of(cells))


class TestGeomeansOf:
    def test_one_for_each_way_of_compiling(self):
        """sqrt(2 * 8) = 4 and sqrt(1 * 9) = 3."""
        result = geomeans(
            cell("adam", "default", 2),
            cell("sgd", "default", 8),
            cell("adam", "max", 1),
            cell("sgd", "max", 9),
        )
        assert [g.label for g in result] == ["default", "max"]
        assert [g.speedup.center for g in result] == pytest.approx([4, 3])
        assert {(g.covered, g.total, g.note) for g in result} == {(2, 2, "")}

    def test_against_the_best_eager_implementation(self):
        """sqrt(0.5 * 2) = 1; one cell without such a speedup leaves none."""
        (result,) = geomeans(
            cell("adam", "default", 2, **best("fused", 50.0, 100.0)),
            cell("sgd", "default", 8, **best("fused", 200.0, 100.0)),
        )
        assert (result.speedup.center, result.vs_best.center) == (pytest.approx(4), pytest.approx(1))
        (result,) = geomeans(cell("adam", "default", 2, **best("fused", 50.0)), cell("sgd", "default", 8))
        assert result.vs_best is None

    def test_baselines_are_not_averaged(self):
        """Over what all of them have: sqrt(2 * 8) = 4 against the loop, sqrt(1 * 4) = 2 against fused."""
        speedups = {"forloop": (2, 8), "fused": (1, 4)}
        result = geomeans(
            *(
                cell(optimizer, "default", speedup, baseline=name)
                for name, both in speedups.items()
                for optimizer, speedup in zip(("adam", "sgd"), both, strict=True)
            )
        )
        assert [g.label for g in result] == ["baseline=forloop", "baseline=fused"]
        assert [g.speedup.center for g in result] == pytest.approx([4, 2])

    def test_workloads_that_one_way_failed_are_left_out_of_all(self):
        """A mean over other workloads would compare the workloads; the left out one is named."""
        result = geomeans(
            *(cell(o, m, 4) for o in ("adam", "sgd") for m in ("default", "max")),
            cell("lion", "default", 1000),
            bad("failed", "OOM", optimizer="lion", compile_mode="max"),
        )
        assert [g.speedup.center for g in result] == pytest.approx([4, 4])
        assert result[0].note == "left out: lion (failed with max)"
        assert (result[0].covered, result[0].total) == (2, 3)

    def test_a_workload_that_one_way_never_ran_is_left_out(self):
        """A hole in the sweep is named too."""
        result = geomeans(
            *(cell(o, m, 4) for o in ("adam", "sgd") for m in ("default", "max")), cell("lion", "default", 9)
        )
        assert result[0].note == "left out: lion (not run with max)"

    def test_an_invalid_cell_is_left_out(self):
        """A number that is not believed enters nothing."""
        result = geomeans(
            cell("adam", "default", 2),
            cell("sgd", "default", 8),
            cell("lion", "default", 1e6, verdict="invalid"),
        )
        assert result[0].speedup.center == pytest.approx(4)

    def test_a_partly_failed_cell_is_left_out(self):
        """A cell that failed in one of two runs is not comparable."""
        result = geomeans(
            cell("adam", "default", 2),
            bad("crashed", "", seed=1),
            cell("sgd", "default", 8),
            cell("lion", "default", 2),
        )
        assert result[0].note == "left out: adam (crashed)"

    def test_fewer_than_two_shared_cells_have_none(self):
        """A mean of one is no mean."""
        (result,) = geomeans(cell("adam", "default", 2), cell("sgd", "max", 8))
        assert result.speedup is None
        assert "0 of 2 measured without fault by every way of compiling" in result.note

    def test_a_single_workload_has_none(self):
        """One cell is its own summary."""
        (result,) = geomeans(row())
        assert (result.speedup, result.note) == (None, "none of a single workload")

    def test_machines_are_never_mixed(self):
        """Each machine has a geomean of its own."""
        result = geomeans(
            *(cell(o, "default", s, hostname=h) for h, s in (("a", 2), ("b", 5)) for o in ("adam", "sgd"))
        )
        assert [(g.label, g.speedup.center) for g in result] == [
            ("host=a", pytest.approx(2)),
            ("host=b", pytest.approx(5)),
        ]

    def test_reciprocal_speedups_have_the_reciprocal_geomean(self):
        """Swapping baseline and arm inverts the summary."""
        there = geomeans(cell("adam", "default", 2), cell("sgd", "default", 3))
        back = geomeans(cell("adam", "default", 1 / 2), cell("sgd", "default", 1 / 3))
        assert there[0].speedup.center == pytest.approx(1 / back[0].speedup.center)

    def test_many_left_out_workloads_are_counted(self):
        """A note stays short."""
        holes = [bad("failed", "", optimizer=f"o{i}") for i in range(9)]
        result = geomeans(cell("adam", "default", 2), cell("sgd", "default", 2), *holes)
        assert result[0].note.endswith("; and 4 more")


class TestShared:
    def test_what_processes_share_is_in_the_geomean_whole(self):
        """100 cells with nothing else in their intervals: as wide as one of them."""
        margin = 1.959964 * 0.01
        told = {"speedup": 2.0, "speedup_low": 2 * math.exp(-margin), "speedup_high": 2 * math.exp(margin)}
        rows = [row(job=n, width=n + 1, shared_spread=0.01, **told) for n in range(100)]
        (result,) = geomeans(*rows)
        assert (result.speedup.low, result.speedup.high) == pytest.approx(
            (told["speedup_low"], told["speedup_high"]), rel=1e-5
        )

    def test_a_row_from_before_it_was_known_has_none_of_it(self):
        """Nothing is taken out of its interval, and nothing is added."""
        rows = [row(job=n, width=n + 1, shared_spread=None) for n in range(4)]
        (result,) = geomeans(*rows)
        assert math.log(result.speedup.high / 2) == pytest.approx(math.log(1.01) / 2)


class TestEqualLabels:
    def test_cells_that_their_labels_do_not_tell_apart_all_count(self):
        """By hand: the geometric mean of 2, 4, 1 and 1 is 8 ** (1 / 4)."""
        arguments = ('{"x": 1}', '{"x": "1"}')
        rows = [
            cell(optimizer, "default", speedup, optimizer_args=args, job=n)
            for n, (optimizer, args, speedup) in enumerate(
                [("adam", arguments[0], 2), ("adam", arguments[1], 4), ("sgd", "{}", 1), ("muon", "{}", 1)]
            )
        ]
        (result,) = geomeans(*rows)
        assert (result.covered, result.total) == (4, 4)
        assert result.speedup.center == pytest.approx(8**0.25)
