"""What is said about a cell, and about several together."""

import pytest

from src import vocabulary
from src.analysis.cells import cells_of
from src.analysis.doubts import doubts_of, intervals, retested, same_kernels, slower_than_best
from src.analysis.summary import summarize
from tests.rows import best, row, times, traced


def modes(*names, make=row, **changes):
    return summarize([make(compile_mode=name, code_hash="ab12cd34ef", **changes) for name in names])


class TestDoubtsOf:
    def test_a_parity_failure_is_told_once(self):
        """The reason says more than the warning of the same thing."""
        cells = cells_of([row(parity="failed", parity_reason="step is off by 1", warnings=["parity_failed"])])
        assert doubts_of(cells[0]) == ["parity failed: step is off by 1"]

    def test_a_parity_failure_without_a_reason_is_the_warning(self):
        """It is never passed over."""
        (doubt,) = doubts_of(cells_of([row(parity="failed", warnings=["parity_failed"])])[0])
        assert doubt.startswith("parity failed: the compiled arm")

    def test_a_hint_is_a_footnote_of_its_own(self):
        """Equal hints of many cells then share one number."""
        assert doubts_of(cells_of([row(hint="use a tensor"), row(seed=1, hint="use a tensor")])[0]) == [
            "hint: use a tensor"
        ]

    def test_the_warning_on_the_eager_path_says_which(self):
        """The path of the eager arm is told where it was moved."""
        (doubt,) = doubts_of(cells_of([row(warnings=["eager_left_foreach"], eager_path="forloop")])[0])
        assert doubt.endswith("(it ran: forloop)")

    @pytest.mark.parametrize(
        ("warning", "column", "value", "end"),
        [
            ("slowed_by_compiling", "eager_before_compile_us", 95.43, "eager_before_compile_us=95.4"),
            ("clock_throttled", "throttle_reasons", ["heat", "power"], "throttle_reasons=heat, power"),
            ("governor_saves_power", "cpu_governor", "powersave", "cpu_governor=powersave"),
            ("governor_saves_power", "cpu_governor", None, "for performance: cpu_governor"),
        ],
    )
    def test_a_warning_that_ends_with_a_column_is_followed_by_its_value(self, warning, column, value, end):
        """A reader of a table has no row to look it up in."""
        (doubt,) = doubts_of(cells_of([row(warnings=[warning], **{column: value})])[0])
        assert doubt.endswith(end)

    @pytest.mark.parametrize("name", vocabulary.WARNINGS)
    def test_every_warning_is_a_name_and_a_sentence(self, name):
        """As a footnote reads it."""
        (doubt,) = doubts_of(cells_of([row(warnings=[name])])[0])
        assert doubt == f"{name}: {vocabulary.WARNINGS[name]}" or name == "parity_failed"


class TestAgainstBest:
    def cell(self, verdict, best_us, **changes):
        (cell,) = cells_of([row(verdict=verdict, **best("fused", best_us, 100.0), **times(200.0, 100.0))])
        return cell

    @pytest.mark.parametrize(
        ("verdict", "best_us", "slower", "footnotes"),
        [
            ("faster", 90.0, "fused", []),
            ("no_difference", 90.0, "fused", []),
            ("slower", 90.0, None, []),
            ("faster", 150.0, None, []),
            ("faster", 100.0, None, ["against the best eager implementation (fused): no difference"]),
            ("slower", 150.0, None, ["against the best eager implementation (fused): faster"]),
        ],
    )
    def test_a_verdict_that_differs_is_told_once(self, verdict, best_us, slower, footnotes):
        """A compiled step that loses against the best is told beside the verdict, the rest below."""
        cell = self.cell(verdict, best_us)
        assert (slower_than_best(cell), doubts_of(cell)) == (slower, footnotes)

    @pytest.mark.parametrize(("best_us", "slower"), [(99.49, None), (98.0, "fused")])
    def test_the_whole_interval_must_lie_below(self, best_us, slower):
        """With min_effect 0.01 below 1 / 1.01 = 0.9901: 0.9949 +- 0.5 % ends at 0.9999, 0.98 at 0.9849."""
        assert slower_than_best(self.cell("faster", best_us)) == slower

    def test_rows_without_a_best_say_nothing(self):
        """Rows of earlier schema versions have none."""
        (cell,) = cells_of([row()])
        assert (slower_than_best(cell), doubts_of(cell)) == (None, [])


class TestIntervals:
    def test_says_what_the_interval_of_a_row_is_over(self):
        """One sentence where all rows are alike."""
        over = (
            "Intervals over 5 fresh processes, those of speedups widened by what all share (shared_spread); "
            "times and speedups are geometric means over them"
        )
        assert intervals(summarize([row(processes=5)])) == [f"{over}."]
        assert intervals(summarize([row(processes=5), row(processes=5, optimizer="sgd")])) == [f"{over}."]

    def test_says_what_is_assumed_of_one_process(self):
        """The spread of one process is not seen, so it comes from elsewhere."""
        (sentence,) = intervals(summarize([row(processes=1, process_spread=0.015)]))
        assert sentence.startswith("Intervals of one process: ")
        assert "an assumed spread of 1.5 % over processes" in sentence
        (sentence,) = intervals(summarize([row(processes=1, process_spread=0.0)]))
        assert sentence == "Intervals of one process: they lack the spread over processes."

    def test_names_the_cells_where_they_differ(self):
        """Two kinds of interval in one table are told apart."""
        sentences = intervals(summarize([row(processes=3), row(optimizer="sgd", processes=1)]))
        assert [sentence.rpartition(" (")[2] for sentence in sentences] == ["adam).", "sgd)."]

    def test_rows_that_do_not_say_are_of_one_process(self):
        """Those of schema versions 1 and 2."""
        said = ["Intervals of one process: they lack the spread over processes."]
        assert intervals(summarize([row(), row(optimizer="sgd", processes=None)])) == said

    def test_is_silent_on_cells_of_several_rows(self):
        """The head of the table tells of intervals over rows."""
        assert intervals(summarize([row(processes=1), row(processes=1, seed=1)])) == []


class TestSameKernels:
    def test_modes_with_equal_kernels_differ_by_noise(self):
        """Only where there are times to differ."""
        sentence = "Modes default, max-autotune-no-cudagraphs gave the same kernels (code_hash ab12cd34)"
        names = ("default", "max-autotune-no-cudagraphs")
        assert same_kernels(modes(*names)) == [f"{sentence}: their times differ by noise alone."]
        assert same_kernels(modes(*names, make=traced)) == [f"{sentence}."]

    @pytest.mark.parametrize(("device", "count"), [("cuda", 0), ("cpu", 1)])
    def test_cuda_graphs_are_a_difference(self, device, count):
        """The kernels are the same, how they are launched is not; a CPU has no CUDA graphs."""
        assert len(same_kernels(modes("default", "reduce-overhead", device=device))) == count

    def test_other_workloads_are_not_compared(self):
        """Equal code of two optimizers is no news about modes."""
        rows = [row(optimizer=o, compile_mode=m, code_hash="ab") for o, m in (("adam", "a"), ("sgd", "b"))]
        assert same_kernels(summarize(rows)) == []

    def test_runs_of_a_cell_that_disagree_have_no_hash(self):
        """A cell is compared only where all its runs got the same."""
        rows = [row(code_hash="a"), row(seed=1, code_hash="b"), row(compile_mode="x", code_hash="a")]
        assert same_kernels(summarize(rows)) == []


class TestRetested:
    def test_names_what_works_and_why_it_was_listed(self):
        """So that the list can be corrected."""
        summary = summarize([row(exclusion="no closure"), row(optimizer="sgd")])
        assert retested(summary) == [
            "1 combination listed as impossible works here: adam (listed because: no closure)."
        ]
        assert retested(summarize([row()])) == []
