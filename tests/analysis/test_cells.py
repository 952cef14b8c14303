"""Rows become cells: what is one number, what is kept apart, what never enters."""

import json

import pytest

from src import stats
from src.analysis.cells import ROW_COLUMNS, cells_of
from src.analysis.outcomes import NOT_TIMED, outcome
from src.stats import Interval
from tests.rows import bad, best, row, times, traced


class TestGrouping:
    def test_rows_that_differ_in_the_seed_are_one_cell(self):
        """Repeats over seeds and sweeps are repeats of one cell."""
        (cell,) = cells_of([row(seed=0), row(seed=1), row(seed=1, sweep_id="second")])
        assert cell.used == 3

    @pytest.mark.parametrize(
        "change", [{"width": 8}, {"torch_version": "2.12.0"}, {"hostname": "lab2"}, {"gpu": "A100"}]
    )
    def test_other_axes_and_machines_are_other_cells(self, change):
        """Two machines or torch versions are never put into one number."""
        assert len(cells_of([row(), row(**change)])) == 2

    def test_arguments_are_compared_as_values(self):
        """The order of keys and arguments left to torch make no difference."""
        args = ({"lr": 0.1, "eps": 1e-8}, {"eps": 1e-8, "lr": 0.1, "foreach": None})
        assert len(cells_of([row(optimizer_args=json.dumps(a)) for a in args])) == 1

    def test_a_run_that_crashed_before_it_knew_its_machine_joins_the_machine_of_its_sweep(self):
        """A crash must not look like another machine."""
        nowhere = dict.fromkeys(("hostname", "cpu", "gpu", "torch_version", "cuda_version"))
        (cell,) = cells_of([row(), bad("crashed", "SIGSEGV", **nowhere)])
        assert cell.outcomes == ("ok", "crashed")

    def test_it_stays_apart_where_two_machines_are_possible(self):
        """No guess which machine it was."""
        nowhere = dict.fromkeys(("hostname", "cpu", "gpu", "torch_version", "cuda_version"))
        assert len(cells_of([row(), row(hostname="lab2"), bad("crashed", "SIGSEGV", **nowhere)])) == 3


class TestRowsOfEarlierSchemaVersions:
    OLD = dict.fromkeys(("param_groups", "frozen_layers", "layers_without_grad", "grads", "flush_cache"))

    def test_an_axis_that_they_lack_has_the_value_they_were_measured_with(self):
        """An old row and a new one of the same thing repeat one cell."""
        (cell,) = cells_of([row(**self.OLD, schema_version=1), row(seed=1)])
        assert cell.used == 2

    @pytest.mark.parametrize(
        "change",
        [
            {"second_dtype": "bfloat16"},
            {"param_groups": "two"},
            {"frozen_layers": 1},
            {"layers_without_grad": 1},
            {"grads": "static"},
            {"flush_cache": True},
            {"pinned_cpus": "0,1"},
        ],
    )
    def test_another_value_is_another_cell(self, change):
        """What the new axes say is not lost beside old rows."""
        assert len(cells_of([row(**self.OLD), row(**change)])) == 2


class TestTraced:
    def test_a_run_without_times_has_the_counts_of_its_trace(self):
        """Nothing was timed, nothing is wrong."""
        (cell,) = cells_of([traced(recompiles=3, graphs=4), traced(recompiles=4, graphs=5, seed=1)])
        assert (cell.outcomes, cell.used, cell.reasons) == (("traced", "traced"), 2, ())
        assert (cell.trace.recompiles, cell.trace.graphs) == ((3, 4), (4, 5))
        assert cell.compile_s.center == pytest.approx(3.61)
        assert (cell.speedup, cell.verdict, cell.comparable) == (None, None, False)

    def test_an_invalid_verdict_keeps_its_reason(self):
        """A trace that found a fault says which."""
        (cell,) = cells_of([traced(verdict="invalid", verdict_reason="ran eager")])
        assert (cell.outcomes, cell.reasons) == (("traced",), ("invalid: ran eager",))

    def test_recompiles_of_an_invalid_run_are_told(self):
        """They are facts, and often why it is invalid."""
        (cell,) = cells_of([row(verdict="invalid", recompiles=7, compiled_path="eager_fallback")])
        assert (cell.trace.recompiles, cell.trace.limit_hit, cell.speedup) == ((7, 7), True, None)


class TestRetested:
    @pytest.mark.parametrize(
        ("change", "found"),
        [
            ({}, ("no closure",)),
            ({"parity": "failed"}, ()),
            ({"compiled_path": "never_compiled"}, ()),
            ({"verdict": "invalid"}, ()),
            ({"status": "failed"}, ()),
        ],
    )
    def test_only_a_run_that_works_contradicts_the_list(self, change, found):
        """Status ok alone is not enough."""
        (cell,) = cells_of([row(exclusion="no closure", **change)])
        assert cell.retested == found


ENDS_OF_BEST = ("speedup_vs_best_low", "speedup_vs_best_high")


class TestNumbers:
    def test_one_row_shows_its_own_interval_and_verdict(self):
        """A single row is not estimated again."""
        (cell,) = cells_of([row(verdict="no_difference", eager_us_low=239.0, eager_us_high=245.0)])
        assert cell.eager == Interval(240.0, 239.0, 245.0)
        assert cell.verdict == "no_difference"

    def test_several_rows_are_a_geomean_with_a_t_interval(self):
        """The interval over rows comes from the spread of the rows."""
        told = {"shared_spread": 0.0}
        rows = [row(seed=i, **told, **times(240.0, 240.0 / s)) for i, s in enumerate((1.9, 2.0, 2.2))]
        (cell,) = cells_of(rows)
        expected = stats.log_t_interval([1.9, 2.0, 2.2])
        assert cell.speedup.center == pytest.approx(expected.center)
        assert cell.speedup.low == pytest.approx(expected.low)

    def test_the_verdict_of_several_rows_comes_from_their_interval(self):
        """Three rows that say faster by little and differ by much are no difference together."""
        rows = [
            row(seed=i, verdict="faster", **times(100.0 * s, 100.0)) for i, s in enumerate((1.02, 1.5, 1.1))
        ]
        assert cells_of(rows)[0].verdict == "no_difference"

    def test_what_all_rows_share_widens_their_interval(self):
        """Three rows that agree wholly: 1.96 times 1 % on either side, in logarithms; a single row has it."""
        told = {"shared_spread": 0.01, "speedup_vs_best": 1.5, **dict.fromkeys(ENDS_OF_BEST, 1.5)}
        rows = [row(seed=i, eager_best="fused", eager_best_us=180.0, **told) for i in range(3)]
        (cell,) = cells_of(rows)
        margin = 1.0197928  # e ** (1.959964 * 0.01)
        assert (cell.speedup.low, cell.speedup.high) == pytest.approx((2 / margin, 2 * margin))
        assert cell.best.speedup.high == pytest.approx(1.5 * margin)
        assert cell.eager.high == pytest.approx(240)
        assert cells_of(rows[:1])[0].speedup.high == rows[0]["speedup_high"]

    def test_rows_from_before_that_was_known_have_what_is_known_of_the_device(self):
        """0.1 % on a GPU, 1 % on a CPU."""
        for device, margin in (("cuda", 1.0019619), ("cpu", 1.0197928)):
            (cell,) = cells_of([row(seed=i, device=device) for i in range(3)])
            assert cell.speedup.high == pytest.approx(2 * margin)

    def test_invalid_and_failed_rows_never_enter(self):
        """Wild numbers of an invalid row leave the cell as it is without that row."""
        good = row()
        wild = row(seed=1, verdict="invalid", verdict_reason="ran eager", **times(1e9, 1.0))
        (cell,) = cells_of([good, wild, bad("failed", "OOM", seed=2)])
        assert cell.speedup == cells_of([good])[0].speedup
        assert cell.outcomes == ("ok", "invalid", "failed")
        assert cell.reasons == ("invalid: ran eager", "failed: OOM")
        assert not cell.comparable

    def test_a_cell_without_an_ok_row_has_no_number(self):
        """Null, never 0, infinity or -1."""
        (cell,) = cells_of([bad("unsupported", "needs CUDA")])
        numbers = (
            cell.eager,
            cell.compiled,
            cell.speedup,
            cell.break_even,
            cell.trace.recompiles,
            cell.verdict,
        )
        assert numbers == (None,) * 6

    def test_recompiles_are_a_range_where_they_differ(self):
        """Counts are exact: they are not averaged."""
        (cell,) = cells_of([row(recompiles=8), row(seed=1, recompiles=4)])
        assert cell.trace.recompiles == (4, 8)

    def test_an_ok_row_without_times_is_not_timed(self):
        """A row may end ok and still have no number."""
        assert outcome(row(speedup=None)) == NOT_TIMED

    def test_the_method_of_publications_is_a_ratio_of_its_own(self):
        """Eager steps of a compiled optimizer take 600 us here, the compiled step 120."""
        after = {"eager_after_compile_us": 600.0, "eager_after_compile_us_low": 594.0}
        (cell,) = cells_of([row(**after, eager_after_compile_us_high=606.0)])
        assert cell.as_published.center == 5
        assert cell.speedup.center == 2


class TestBest:
    def test_one_row_has_its_own_interval(self):
        """A fused step of 90 us against a compiled one of 120: 0.75."""
        (cell,) = cells_of([row(**best("fused", 90.0))])
        assert (cell.best.names, cell.best.us.center, cell.best.speedup.center) == (("fused",), 90.0, 0.75)
        assert (cell.best.speedup.low, cell.best.verdict) == (pytest.approx(0.74625), "slower")

    def test_rows_may_disagree_on_which_it_is(self):
        """Two implementations that are equally fast win in turn; both are named."""
        rows = [
            row(seed=i, shared_spread=0.0, **best(name, us))
            for i, (name, us) in enumerate((("fused", 90.0), ("foreach", 91.0)))
        ]
        (cell,) = cells_of(rows)
        expected = stats.log_t_interval([90 / 120, 91 / 120])
        assert cell.best.names == ("fused", "foreach")
        assert cell.best.speedup.low == pytest.approx(expected.low)

    def test_rows_without_it_have_none(self):
        """Also where the row is invalid: its numbers enter nothing."""
        assert cells_of([row()])[0].best is None
        assert cells_of([row(verdict="invalid", **best("fused", 90.0))])[0].best is None

    def test_the_eager_arm_may_be_the_best(self):
        """It is then timed once, and has one time."""
        same = best("foreach", 240.0, margin=0.01)
        assert cells_of([row(**same)])[0].eager_is_best
        assert not cells_of([row(**best("foreach", 240.1, margin=0.01))])[0].eager_is_best
        assert not cells_of([row()])[0].eager_is_best


class TestSequential:
    def test_several_rows_are_a_geomean(self):
        """sqrt(2 * 8) = 4."""
        (cell,) = cells_of([row(seed=s, sequential_speedup=v) for s, v in enumerate((2.0, 8.0))])
        assert cell.sequential.speedup.center == pytest.approx(4)
        assert cells_of([row()])[0].sequential is None


class TestBreakEven:
    def test_compile_seconds_over_seconds_saved_per_step(self):
        """3.6 s of compile and 120 us saved a step: 30,000 steps."""
        (cell,) = cells_of([row(compile_s=3.6)])
        assert cell.break_even.center == pytest.approx(30_000)
        # speedup 1.98: saves 240 * (1 - 1/1.98) = 118.79 us a step
        assert cell.break_even.high == pytest.approx(3.6e6 / 118.787879)

    def test_from_a_warm_cache_as_well(self):
        """0.36 s instead of 3.6 s: 3,000 steps; the intervals are equally wide."""
        (cell,) = cells_of([row(compile_s=3.6, compile_warm_s=0.36)])
        assert (cell.compile_warm_s.center, cell.break_even_warm.center) == (0.36, pytest.approx(3_000))
        assert cell.break_even_warm.relative_width == pytest.approx(cell.break_even.relative_width)

    def test_a_run_without_a_warm_compile_has_no_warm_number(self):
        """The cold one stays."""
        (cell,) = cells_of([row()])
        assert (cell.compile_warm_s, cell.break_even_warm) == (None, None)
        assert cell.break_even is not None

    @pytest.mark.parametrize("verdict", ["slower", "no_difference"])
    def test_nothing_saved_is_never_earned_back(self, verdict):
        """Without a verdict of faster there is no number."""
        (cell,) = cells_of([row(verdict=verdict, compile_warm_s=0.3)])
        assert (cell.break_even, cell.break_even_warm) == (None, None)


class TestRowColumns:
    def test_block_times_are_not_read(self):
        """A summary of many runs must not load every block."""
        assert not [name for name in ROW_COLUMNS if name.endswith("_block_us")]


class TestHostileRows:
    def test_what_a_list_or_a_gate_lacks_is_not_told(self):
        """A row of another program may have nulls where ours has none."""
        (cell,) = cells_of(
            [row(recompile_reasons=[None], warnings=[None], gate="failed", gate_min_speedup=None)]
        )
        assert (cell.trace.reasons, cell.warnings, cell.failed_gates) == ((), (), ())

    def test_arguments_nested_without_end_are_kept_as_text(self):
        """Reading them as JSON would exceed Python's stack."""
        (cell,) = cells_of([row(optimizer_args="[" * 100_000)])
        assert cell.facts["optimizer_args"].startswith("[[[")
