"""What a page says beside its numbers."""

from datetime import timedelta

from src import vocabulary
from src.analysis import page_facts
from src.analysis.cells import ROW_COLUMNS
from src.analysis.summary import summarize
from tests.rows import START, bad, best, row, traced


class TestMachines:
    def test_each_machine_is_told_once(self):
        """With its versions and how many rows it has."""
        rows = [row(python_version="3.11.9"), row(job=1), row(job=2, gpu="A100", hostname="lab2")]
        first, second = page_facts.machines(rows)
        assert dict(first.facts)["GPU"] == "NVIDIA H200"
        assert dict(first.facts)["Python"] == "3.11.9"
        assert (first.rows, second.rows) == (2, 1)
        assert dict(second.facts)["host"] == "lab2"

    def test_what_no_row_knows_is_left_out(self):
        """Not shown as null."""
        (machine,) = page_facts.machines([row(gpu=None, cuda_version=None)])
        assert {"GPU", "CUDA"}.isdisjoint(dict(machine.facts))

    def test_a_run_that_ended_too_early_has_none(self):
        """It could not say where it ran."""
        assert page_facts.machines([bad("failed", "no disk", torch_version=None)]) == ()

    def test_its_columns_are_read(self):
        """All of them are among those that the analysis reads."""
        assert set(page_facts._MACHINE) | set(page_facts._ORIGIN) <= set(ROW_COLUMNS)


class TestOrigin:
    def test_it_has_sweeps_and_the_time_of_the_rows(self):
        """In UTC, from the first run to the last."""
        later = START + timedelta(hours=3)
        facts = dict(page_facts.origin([row(), row(job=1, sweep_id="second", started_at=later)]))
        assert facts["sweeps"] == "first; second"
        assert facts["measured"] == "2025-03-01 12:00 UTC to 2025-03-01 15:00 UTC"
        assert facts["stepsweep"] == "0.1.0"


class TestVerdicts:
    def test_every_cell_counts_once(self):
        """With what became of it where it has no verdict."""
        rows = [
            row(),
            row(job=1, optimizer="sgd", verdict="no_difference"),
            bad("failed", "it raised", job=2, optimizer="muon"),
            row(job=3, optimizer="lbfgs", verdict="invalid", verdict_reason="never_compiled"),
            traced(job=4, optimizer="rprop"),
        ]
        ((words, counts),) = page_facts.verdicts(summarize(rows))
        assert words == "cells, against the eager step"
        assert dict(counts) == {"faster": 1, "no difference": 1, "failed": 1, "invalid": 1, "traced": 1}

    def test_the_best_eager_step_is_judged_apart(self):
        """Compiling may be faster than the default and slower than a flag."""
        found = page_facts.verdicts(summarize([row(**best("fused", 100.0))]))
        assert [dict(counts) for _, counts in found] == [{"faster": 1}, {"slower": 1}]


class TestFailures:
    def test_one_reason_is_told_once_with_all_its_cells(self):
        """And what to do about it."""
        same = {"status": "failed", "reason": "out of memory"}
        rows = [
            bad(**same, hint="a smaller model"),
            bad(**same, job=1, optimizer="sgd", hint="a smaller model"),
            row(job=2, optimizer="muon"),
        ]
        (failure,) = page_facts.failures(summarize(rows))
        assert failure.reason == "failed: out of memory"
        assert failure.cells == ("adam", "sgd")
        assert failure.hints == ("a smaller model",)
        assert failure.outcomes == "failed"

    def test_runs_that_ended_well_have_none(self):
        """Nothing to tell."""
        assert page_facts.failures(summarize([row()])) == ()


class TestWarnings:
    def test_each_has_its_meaning_and_the_number_of_its_cells(self):
        """The commonest first."""
        rows = [row(warnings=["noisy", "drift"]), row(job=1, optimizer="sgd", warnings=["drift"])]
        assert page_facts.warnings(summarize(rows)) == (
            ("drift", 2, vocabulary.WARNINGS["drift"]),
            ("noisy", 1, vocabulary.WARNINGS["noisy"]),
        )

    def test_one_of_another_version_is_shown_all_the_same(self):
        """With what is known of it: nothing."""
        ((name, count, meaning),) = page_facts.warnings(summarize([row(warnings=["of_tomorrow"])]))
        assert (name, count, meaning) == ("of_tomorrow", 1, "not known to this version")
