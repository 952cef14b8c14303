"""docs/memory.md: what does not fit ends as it says, and its numbers are those of rows."""

import re

import pandas as pd
import pytest

from tests import pages

PAGE = "docs/memory.md"
RESULTS = pages.ROOT / "experiments" / "results"
ADAM_BYTES = 4 * (1 + 1 + 2)  # of an element: parameter, gradient, two states


def mb(size):
    return f"{size / 1e6:.1f} MB"


def rounded(size):
    return f"{size / 1e6:.0f} MB"


def one(file, **having):
    """Return the only row of a file that has these values."""
    rows = pd.read_parquet(RESULTS / f"{file}.parquet")
    for name, value in having.items():
        rows = rows[rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


class TestCommand:
    @pytest.mark.slow
    def test_a_model_that_cannot_fit_is_a_row_with_both_numbers(self, tmp_path):
        """32 layers of a million squared, in three arms; exit 0."""
        (done,) = pages.Folder(tmp_path, PAGE).run_all()
        row = done.row
        assert (done.command.code, row["status"], row["stage"]) == (0, "unsupported", "prepare")
        needed, available = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes", row["reason"]))
        assert needed == 3 * ADAM_BYTES * 32 * 1_000_000**2
        assert available < needed


class TestNumbers:
    def test_batches_are_those_of_the_committed_rows(self):
        """Both arms need more for a larger batch, and the compiled one less than the eager one."""
        rows = pd.read_parquet(RESULTS / "cpu_training_memory.parquet").sort_values("batch_size")
        names = ("batch_size", "eager_peak_bytes", "compiled_peak_bytes")
        expected = [[str(n), mb(eager), mb(compiled)] for n, eager, compiled in rows[list(names)].to_numpy()]
        assert pages.table(PAGE, *names) == expected
        for name in names:
            assert rows[name].is_monotonic_increasing
        assert (rows["compiled_peak_bytes"] < rows["eager_peak_bytes"]).all()

    def test_modes_and_gradients_are_those_of_the_committed_rows(self):
        """The smallest of three models."""
        small = {"model": "tutorial"}
        expected = [
            ("default", "fresh", one("h200_adam_sizes", compile_mode="default", **small)),
            ("reduce-overhead", "fresh", one("h200_adam_sizes", compile_mode="reduce-overhead", **small)),
            (
                "reduce-overhead",
                "static",
                one("h200_gradients", compile_mode="reduce-overhead", grads="static"),
            ),
            ("max-autotune", "fresh", one("h200_adam_sizes", compile_mode="max-autotune", **small)),
        ]
        assert pages.table(PAGE, "mode", "measure.grads", "compiled_peak_bytes") == [
            [mode, grads, rounded(row["compiled_peak_bytes"])] for mode, grads, row in expected
        ]
        default, copied, static, _ = (row for *_, row in expected)
        # 4 bytes for each parameter, which the allocator rounds up
        copies = copied["compiled_peak_bytes"] - static["compiled_peak_bytes"]
        assert copies == pytest.approx(4 * default["parameters"], rel=1e-5)
        assert rounded(copies) == "42 MB"
        assert static["compiled_peak_bytes"] == pytest.approx(default["compiled_peak_bytes"], rel=1e-5)

    def test_the_larger_model_is_that_of_the_committed_rows(self):
        """Where the copy of the gradients outweighs what max-autotune keeps besides."""
        sizes = [
            one("h200_adam_sizes", compile_mode=mode, model="large")
            for mode in ("max-autotune", "reduce-overhead")
        ]
        told = [f"{row['compiled_peak_bytes'] / 1e9:.1f}" for row in sizes]
        assert told == ["10.8", "10.7"]
        assert (
            f"at 537 M parameters it needs\n{told[0]} GB where `reduce-overhead` needs {told[1]}."
            in pages.text(PAGE)
        )
        assert {round(row["parameters"] / 1e6) for row in sizes} == {537}

    def test_the_eager_step_is_that_of_the_committed_rows(self):
        """Multi-tensor Adam holds copies, the fused and the compiled step hold none."""
        row = one("h200_adam_sizes", compile_mode="default", model="tutorial")
        assert (row["eager_path"], row["eager_best"]) == ("foreach", "fused")
        shown = [
            rounded(row[name])
            for name in ("eager_peak_bytes", "eager_best_peak_bytes", "compiled_peak_bytes")
        ]
        assert shown == ["210 MB", "168 MB", "168 MB"]
        assert rounded(row["eager_peak_bytes"] - row["working_set_bytes"]) == "42 MB"
        assert row["eager_best_peak_bytes"] == row["compiled_peak_bytes"] == row["working_set_bytes"]
        assert "210 MB with the multi-tensor implementation" in pages.text(PAGE)
