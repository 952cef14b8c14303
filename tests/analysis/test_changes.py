"""Comparisons of rows: verdicts, what is told of them, and golden documents."""

import math
import random

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from src.analysis import html, latex, spreadsheet, tables, text
from src.analysis.changes import IMPROVEMENT, NO_CHANGE, REGRESSION, UNTESTED, compare
from src.analysis.changes_document import document_of, percent
from src.analysis.changes_estimates import METRICS
from src.analysis.changes_fail import ConditionError, condition, failures
from src.analysis.changes_table import to_table
from src.analysis.changes_traces import good, recompiles_of, same_steps, states_of
from src.stats import Interval
from src.vocabulary import WARNINGS
from tests import simulated_changes
from tests.analysis import golden
from tests.analysis.test_tables import HOSTILE, LR_CAUSE, REASON
from tests.rows import bad, best, row, times, traced
from tests.simulated_changes import ALPHA, Kind, Side

LATER = {"sweep_id": "second", "torch_version": "2.14.0", "stepsweep_version": "0.2.0"}
KNOWN = {"processes": 1, "process_spread": 0.003, "shared_spread": 0.001}


def timed(speedup, margin=0.01, **changes):
    return row(**times(240.0, 240.0 / speedup, margin), **KNOWN | changes)


def only(base, new, **options):
    (change,) = compare([base], [new], **options).changes
    return change


def words(base, new, **options):
    return text.render(document_of(compare(base, new, **options)), 200)


class TestVerdicts:
    @pytest.mark.parametrize(("new", "verdict"), [(2.1, IMPROVEMENT), (1.9, REGRESSION), (2.01, NO_CHANGE)])
    def test_a_speedup_is_better_when_it_is_larger(self, new, verdict):
        """By 5 %, with margins of 0.6 %; by 0.5 % nothing is told."""
        found = only(timed(2.0, 0.006), timed(new, 0.006))
        assert found.verdict == verdict
        assert found.ratio.center == pytest.approx(new / 2.0)

    @pytest.mark.parametrize(
        ("new", "verdict"), [(480.0, REGRESSION), (120.0, IMPROVEMENT), (245.0, NO_CHANGE)]
    )
    def test_a_time_is_better_when_it_is_smaller(self, new, verdict):
        """On a CPU, where a run differs from another by 4 %."""
        base, later = (row(**times(us, 100.0), device="cpu", **KNOWN) for us in (240.0, new))
        assert only(base, later, metric="eager_us").verdict == verdict

    def test_the_host_bound_time_of_a_gpu_must_move_by_more_than_runs_differ(self):
        """The same step took 240 and 384 us in two runs: that is told of no change."""
        base, later = (row(**times(us, 100.0), **KNOWN) for us in (240.0, 384.0))
        assert only(base, later, metric="eager_us").verdict == NO_CHANGE

    def test_the_interval_of_one_cell_decides_as_it_does_for_a_row(self):
        """Beyond the least effect or not; `--min-effect` sets another, the larger of both rows counts."""
        base, new = timed(2.0, 0.004), timed(2.06, 0.004)
        assert only(base, new).verdict == IMPROVEMENT
        assert only(base, new, min_effect=0.03).verdict == NO_CHANGE
        assert only(base, new | {"min_effect": 0.03}).verdict == NO_CHANGE
        assert only(base, new | {"min_effect": 0.03}).min_effect == 0.03

    def test_a_change_that_one_cell_would_show_is_none_among_fifty(self):
        """2.25 % with deviations of 0.31 % on each side, beyond 1 %: p = 0.0045 (z = 2.84), times 50."""
        names = [f"opt{n}" for n in range(50)]
        base = [timed(2.0, 0.006, optimizer=name) for name in names]
        new = [timed(2.0 if n else 2.045, 0.006, optimizer=name) for n, name in enumerate(names)]
        assert only(base[0], new[0]).verdict == IMPROVEMENT
        found = compare(base, new)
        assert {change.verdict for change in found.changes} == {NO_CHANGE}
        assert found.changes[0].adjusted == pytest.approx(50 * found.changes[0].p)

    @pytest.mark.parametrize(
        ("base", "new", "reason"),
        [
            (timed(2.0), bad("failed", "OOM"), "failed in new"),
            (timed(2.0, verdict="invalid"), timed(2.0), "invalid in base"),
            (bad("timed_out", "slow"), bad("timed_out", "slow"), "timed out in both"),
            (timed(2.0), traced(), "not timed in new"),
            (timed(2.0), timed(2.0) | {"speedup_low": None}, "no interval in new"),
            (bad("failed", "x"), timed(2.0) | {"speedup_low": None}, "failed in base, no interval in new"),
        ],
    )
    def test_what_cannot_be_tested_says_why(self, base, new, reason):
        """And does not count among the tests."""
        found = only(base, new)
        assert (found.verdict, found.reason, found.p) == (UNTESTED, reason, None)

    def test_a_metric_that_a_side_lacks(self):
        """The best eager implementation was timed on one side alone."""
        found = only(timed(2.0), timed(2.0) | best("fused", 100.0), metric="speedup_vs_best")
        assert (found.verdict, found.reason) == (UNTESTED, "no speedup_vs_best in base")

    @pytest.mark.parametrize("metric", METRICS)
    def test_equal_rows_have_no_change_in_any_metric(self, metric):
        """Two runs of each cell, so that the compile seconds have an interval."""
        rows = [
            timed(2.0 + n / 100, seed=n, compile_s=3.6 + n / 10) | best("fused", 100.0 + n) for n in range(2)
        ]
        (found,) = compare(rows, rows, metric).changes
        assert (found.verdict, found.ratio.center) == (NO_CHANGE, pytest.approx(1.0))

    def test_equal_sides_are_told_apart_in_5_percent_of_the_comparisons_at_most(self):
        """The whole way from rows, with five cells; seeds are fixed, the bound is 3.1 deviations above."""
        kind, told, n = Kind(Side(5), Side(), cells=5), 0, 60
        for seed in range(n):
            draw = random.Random(seed)  # noqa: S311
            base, new = (
                [
                    row(optimizer=f"opt{c}") | simulated_changes.row(side, kind, draw.gauss(0, 0.001), draw)
                    for c in range(kind.cells)
                ]
                for side in (kind.base, kind.new)
            )
            told += any(c.verdict in (REGRESSION, IMPROVEMENT) for c in compare(base, new).changes)
        assert told / n <= ALPHA + 3.1 * math.sqrt(ALPHA * (1 - ALPHA) / n)


class TestGeomean:
    def test_is_over_cells_that_both_sides_measured_without_fault(self):
        """Changes of 1.1 and 1 / 1.1 cancel; a failed run keeps its cell out."""
        base = [timed(2.0, optimizer=o, seed=s) for o in ("adam", "sgd", "lion") for s in (0, 1)]
        new = [timed(s, optimizer=o) for o, s in (("adam", 2.2), ("sgd", 2.0 / 1.1), ("lion", 3.0))]
        new.append(bad("failed", "OOM", optimizer="lion", seed=1))
        found = compare(base, new)
        assert (found.geomean.center, found.covered) == (pytest.approx(1.0), 2)
        assert found.geomean.low < 1 < found.geomean.high

    def test_does_not_get_narrower_than_what_a_side_shares(self):
        """100 cells, 0.1 % on each side: 1.96 x sqrt(2) x 0.001."""
        rows = [timed(2.0, 0.004, optimizer=f"opt{n}") for n in range(100)]
        found = compare(rows, rows).geomean
        assert math.log(found.high) > 1.96 * math.sqrt(2) * 0.001

    def test_has_no_interval_when_a_cell_has_none(self):
        """A centre all the same."""
        rows = [timed(2.0, optimizer=o) for o in ("adam", "sgd")]
        found = compare(rows, [rows[0], rows[1] | {"speedup_low": None, "speedup": 4.0}]).geomean
        assert (found.low, found.center) == (None, pytest.approx(math.sqrt(2)))

    def test_one_cell_has_none(self):
        """It would repeat the cell."""
        assert compare([timed(2.0)], [timed(2.0)]).geomean is None


class TestTraces:
    def found(self, base, new):
        change = only(base, new)
        return change.base_cell, change.new_cell

    def test_more_recompiles_name_the_cause_that_came(self):
        """Beyond those that were there."""
        cells = self.found(
            traced(recompiles=1, recompile_causes=["state: entries added"]),
            traced(recompiles=4, recompile_causes=["state: entries added", *[LR_CAUSE] * 3]),
        )
        found = recompiles_of(*cells)
        assert (found.base, found.new, found.cause, found.more) == ((1, 1), (4, 4), LR_CAUSE, True)
        back = recompiles_of(*reversed(cells))
        assert (back.cause, back.more) == (f"no more: {LR_CAUSE}", False)

    def test_rows_without_causes_name_the_guard(self):
        """As older rows have them."""
        found = recompiles_of(*self.found(traced(), traced(recompiles=1, recompile_reasons=[REASON])))
        assert found.cause == "guard failed: self.param_groups[0]['lr'] == 0.00333"

    def test_counts_over_other_numbers_of_steps_are_not_compared(self):
        """A longer trace meets more learning rates."""
        cells = self.found(traced(trace_steps=5), traced(trace_steps=12, recompiles=4))
        assert not same_steps(*cells)
        assert recompiles_of(*cells) is None

    def test_equal_and_unknown_counts_are_no_change(self):
        """Null is not 0."""
        assert recompiles_of(*self.found(traced(), traced())) is None
        assert recompiles_of(*self.found(traced(), traced(recompiles=None))) is None

    def test_states_that_changed_with_their_reasons(self):
        """What a run became, its parity, its paths and its best eager implementation."""
        base = timed(2.0, compiled_path="compiled", eager_path="foreach", parity="passed", graphs=1)
        new = base | best("fused", 100.0) | {"compiled_path": "partly", "eager_path": "forloop", "graphs": 3}
        new |= {"parity": "failed", "parity_reason": "exp_avg is off", "verdict": "invalid"}
        found = states_of(
            *self.found(base | best("foreach", 100.0), new | {"verdict_reason": "parity_failed"})
        )
        assert [(s.what, s.base, s.new, s.reason) for s in found] == [
            ("status", "ok", "invalid", "invalid: parity_failed"),
            ("parity", "passed", "failed", "exp_avg is off"),
            ("path", "compiled", "partly", ""),
            ("eager path", "foreach", "forloop", ""),
            ("graphs", "1", "3", ""),
        ]

    def test_a_run_without_the_times_that_there_were_is_told(self):
        """It ended well, and says less."""
        cells = self.found(timed(2.0), traced(compiled_path=None, eager_path=None, parity=None))
        (state,) = states_of(*cells)
        assert (state.what, state.base, state.new) == ("status", "ok", "traced")
        assert good(cells[1])

    def test_runs_of_a_cell_that_ended_differently(self):
        """Each outcome with its number."""
        base, new = [timed(2.0, seed=s) for s in (0, 1)], [timed(2.0), bad("failed", "OOM", seed=1)]
        (change,) = compare(base, new).changes
        (state,) = states_of(change.base_cell, change.new_cell)
        assert (state.base, state.new) == ("ok", "ok 1, failed 1")
        assert (good(change.base_cell), good(change.new_cell)) == (True, False)


class TestDiffers:
    def test_facts_of_machine_versions_and_settings(self):
        """Each with its values; what is equal is not told."""
        found = words(
            [timed(2.0)],
            [timed(2.0, **LATER | {"threads": 4, "processes": 5, "schema_version": 5})],
        )
        assert (
            "Differs: threads 8 -> 4; torch_version 2.13.0 -> 2.14.0; stepsweep_version 0.1.0 -> 0.2.0; "
            in found
        )
        assert "schema_version 4 -> 5; processes 1 -> 5." in found

    def test_facts_of_some_cells_have_their_number(self):
        """A cluster of unequal nodes."""
        base = [timed(2.0), timed(2.0, optimizer="sgd")]
        new = [timed(2.0), timed(2.0, optimizer="sgd", hostname="lab2")]
        assert "Differs: hostname lab1 -> lab2 (in 1 of 2 cells)." in words(base, new)

    def test_nothing_differs(self):
        """Said in words."""
        assert "No recorded fact of the machine or versions differs." in words([timed(2.0)], [timed(2.0)])


class TestFailures:
    def met(self, asked, base, new, **options):
        return failures(compare(base, new, **options), [condition(asked)])

    def test_a_regression_beyond_the_limit_at_its_centre(self):
        """1 / 0.95 is 5.3 % worse."""
        base, new = [timed(2.0, 0.006)], [timed(1.9, 0.006)]
        assert self.met("regression", base, new) == ["regression in 1: the only cell"]
        assert self.met("regression:5%", base, new) == ["regression beyond 5 % in 1: the only cell"]
        assert self.met("regression:5.5%", base, new) == []
        assert self.met("regression", new, base) == []

    def test_a_regression_that_cannot_be_looked_for_is_taken_for_one(self):
        """A check that cannot be made must not pass."""
        assert self.met("regression", [traced()], [traced()]) == ["regression: no cell could be tested"]

    def test_a_cell_that_lost_its_times_meets_regression_and_failed(self):
        """Traced alone, or not timed: nothing can be said of it."""
        both = {"optimizer": "sgd", "job": 1}
        base, new = [timed(2.0), timed(2.0, **both)], [timed(2.0), traced(**both)]
        assert self.met("regression", base, new) == ["regression: 1 could not be checked: sgd, default"]
        assert self.met("failed", base, new) == ["failed in 1: sgd, default"]
        assert self.met("failed", [traced()], [traced()]) == []

    def test_a_cell_of_which_no_run_is_left_has_failed_even_where_some_had_before(self):
        """One of two crashed in the base, both in the new one."""
        base = [timed(2.0), bad("failed", "OOM", seed=1)]
        new = [bad("failed", "OOM"), bad("failed", "OOM", seed=1)]
        assert len(self.met("failed", base, new)) == 1

    def test_recompiles_over_other_steps_cannot_be_compared(self):
        """Twelve steps have more than five."""
        base, new = [traced(trace_steps=5)], [traced(trace_steps=12, recompiles=4)]
        assert self.met("recompiles", base, new) == ["recompiles: 1 could not be checked: the only cell"]

    def test_recompiles_that_became_more(self):
        """Not those that became fewer."""
        base, new = [traced()], [traced(recompiles=1)]
        assert (len(self.met("recompiles", base, new)), self.met("recompiles", new, base)) == (1, [])

    @pytest.mark.parametrize(
        "new",
        [bad("failed", "x"), bad("unsupported", "x"), timed(2.0, verdict="invalid"), traced(parity="failed")],
    )
    def test_a_cell_that_failed_in_the_new_side_alone(self, new):
        """What failed before is no news."""
        assert len(self.met("failed", [timed(2.0)], [new])) == 1
        assert self.met("failed", [new], [new]) == []

    def test_vanished_cells(self):
        """New ones are welcome."""
        both = [timed(2.0), timed(2.0, optimizer="sgd")]
        assert self.met("vanished", both, both[:1]) == ["vanished in 1: sgd"]
        assert self.met("vanished", both[:1], both) == []

    @pytest.mark.parametrize(
        "asked",
        ["", "regresion", "regression:", "regression:5", "regression:-1%", "regression:nan%", "failed:5%"],
    )
    def test_other_conditions_are_refused(self, asked):
        """With what there is."""
        with pytest.raises(ConditionError, match="regression"):
            condition(asked)


class TestPercent:
    @pytest.mark.parametrize(
        ("interval", "entry"),
        [
            (Interval(1.0312, 1.0201, 1.0423), ("+3.1 %", "[+2.0, +4.2]")),
            (Interval(0.9991, 0.9979, 1.0003), ("-0.09 %", "[-0.21, +0.03]")),
            (Interval(1.00001, 0.98, 1.02), ("0.0 %", "[-2.0, +2.0]")),
            (Interval(2.5, 1.1, 6.0), ("+150 %", "[+10, +500]")),
            (Interval(0.5, None, None), ("-50.0 %",)),
        ],
    )
    def test_decimals_follow_the_width(self, interval, entry):
        """Hand-worked."""
        assert percent(interval) == entry


def two_torches():
    """Return a release against the next: one worse, one better, one that fails now, others."""
    base = [
        timed(2.0, 0.006, recompiles=1, recompile_causes=["state: entries added"]),
        timed(1.5, 0.006, optimizer="sgd"),
        timed(1.2, 0.006, optimizer="lion"),
        timed(1.8, 0.006, optimizer="nadam", parity="passed", compiled_path="compiled"),
        timed(1.1, 0.006, optimizer="rprop", warnings=["noisy"]),
        timed(1.1, 0.006, optimizer="adagrad"),
    ]
    new = [
        {**base[0], **times(240.0, 132.0, 0.006), "recompiles": 5, "warnings": ["noisy"],
         "recompile_causes": ["state: entries added", *[LR_CAUSE] * 4]},
        {**base[1], **times(240.0, 150.0, 0.006)},
        bad("failed", "RuntimeError: no kernel", optimizer="lion", stage="trace"),
        {**base[3], "verdict": "invalid", "verdict_reason": "parity_failed", "parity": "failed",
         "parity_reason": "mu_product is off by 0.1", "warnings": ["parity_failed"]},
        {**base[4], **times(240.0, 217.0, 0.006)},
        timed(1.3, 0.006, optimizer="muon"),
        bad("unsupported", "no sparse gradients", optimizer="sparse_adam"),
    ]  # fmt: skip
    return base, [each | LATER for each in new]


def hostile():
    base = timed(2.0, 0.006, optimizer=HOSTILE, model=HOSTILE, sweep_id=HOSTILE, hostname=HOSTILE)
    new = base | {"hostname": HOSTILE[::-1], "recompiles": 2, "recompile_causes": [HOSTILE] * 2}
    failed = bad("failed", HOSTILE, optimizer=HOSTILE, model="x", sweep_id=HOSTILE)
    return [base, timed(2.0, optimizer=HOSTILE, model="x")], [new, failed]


def traces_only():
    """Return traces of two versions: counts that fell in one and rose in another."""
    floats = {"recompile_causes": [LR_CAUSE] * 5, "recompiles": 5}
    base = [traced(scheduler="linear", **floats), traced(), traced(optimizer="sgd", scheduler="linear")]
    new = [traced(scheduler="linear", recompiles=1, recompile_causes=[LR_CAUSE]), traced()]
    new.append(traced(optimizer="sgd", scheduler="linear", **floats, compiled_path="eager_fallback"))
    return base, [each | LATER for each in new]


def one_cell():
    return [timed(2.0, 0.006)], [timed(2.1, 0.006)]


def no_common_cell():
    return [timed(2.0)], [timed(2.0, compile_mode="max-autotune", **LATER)]


def repeats():
    """Return cells of five runs each, and times of them."""
    return tuple(
        [timed(2.0 * f * (1 + s / 500), seed=s, optimizer=o) for o, f in cells for s in range(5)]
        for cells in ((("adam", 1.0), ("sgd", 1.0)), (("adam", 1.0), ("sgd", 0.9)))
    )


GOLDEN = {
    "compare_torch_versions": two_torches,
    "compare_hostile": hostile,
    "compare_traces": traces_only,
    "compare_one_cell": one_cell,
    "compare_no_common_cell": no_common_cell,
    "compare_repeats": repeats,
}


class TestGolden:
    @pytest.mark.parametrize("name", GOLDEN)
    def test_text(self, name):
        """As a terminal of 80 columns shows it."""
        shown = text.render(document_of(compare(*GOLDEN[name]())), 80)
        golden.check(f"{name}.txt", shown)
        assert max(map(len, shown.splitlines())) <= 80 or name == "compare_hostile"

    @pytest.mark.parametrize("name", ["compare_torch_versions", "compare_hostile"])
    def test_other_formats(self, name):
        """As issues and papers show it."""
        document = document_of(compare(*GOLDEN[name]()), ["dtype=float32"])
        golden.check(f"{name}.md", tables.to_markdown(document))
        golden.check(f"{name}.html", html.to_html(document))
        golden.check(f"{name}.tex", latex.to_latex(document, "comparison"))

    def test_times(self):
        """Of different processes, with a sentence of warning."""
        golden.check("compare_times.txt", text.render(document_of(compare(*repeats(), "compiled_us")), 80))

    def test_ascii(self):
        """For a terminal without Unicode."""
        shown = text.render(document_of(compare(*hostile())), 80, unicode=False)
        assert shown.isascii()


class TestTable:
    def test_has_a_row_for_each_cell_of_either_side(self):
        """Matched ones with both sides, others with nulls in one."""
        found = to_table(compare(*two_torches()))
        frame = found.to_pandas()
        assert list(frame["cell"]) == ["matched"] * 5 + ["vanished"] + ["new"] * 2
        assert list(frame["optimizer"][5:]) == ["adagrad", "muon", "sparse_adam"]
        first = frame.iloc[0]
        assert (first["verdict"], first["base_recompiles_high"], first["new_recompiles_high"]) == (
            REGRESSION,
            1,
            5,
        )
        assert first["change"] == pytest.approx(120 / 132)
        assert pd.isna(frame["new_torch_version"][5])
        assert (first["base_torch_version"], first["new_torch_version"]) == ("2.13.0", "2.14.0")
        assert frame["untested_reason"][2] == "failed in new"

    def test_survives_csv(self):
        """Numbers come back as they were."""
        found = to_table(compare(*two_torches()))
        again = pa.csv.read_csv(pa.py_buffer(spreadsheet.to_csv(found).encode()))
        assert again["change"].to_pylist() == found["change"].to_pylist()


class TestFootnotes:
    def test_a_ratio_that_changed_tells_the_times_of_both_arms(self):
        """A smaller speedup may be a faster eager step. The intervals are those of different processes."""
        base, new = (row(**times(us, 100.0, 0.006), **KNOWN, device="cpu") for us in (300.0, 200.0))
        (note,) = document_of(compare([base], [new])).footnotes
        times_of = "eager 300 us ±8.8 % -> 200 us ±8.8 %, compiled 100 us ±8.8 % -> 100 us ±8.8 %"
        assert note == f"the times behind it: {times_of} (of different processes)"

    def test_a_warning_of_both_sides_is_one_footnote(self):
        """And one of a side alone says of which."""
        rows = [timed(2.0, warnings=["noisy"])], [timed(2.0, warnings=["noisy", "drift"])]
        assert document_of(compare(*rows)).footnotes == (
            f"both: noisy: {WARNINGS['noisy']}",
            f"new: drift: {WARNINGS['drift']}",
        )
