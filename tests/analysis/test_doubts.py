"""What is said about a cell, and about several together."""

import pytest

from src.analysis.cells import cells_of
from src.analysis.doubts import doubts_of, retested, same_kernels
from src.analysis.summary import summarize
from tests.rows import row, traced


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
