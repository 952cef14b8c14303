"""From how the arms ran to the path of the compiled arm and the doubts about it."""

from pathlib import Path

import pytest

from src import record, verdicts, vocabulary
from src.bench import judge
from src.bench.judge import Conduct
from src.vocabulary import INVALIDATING, WARNINGS


def conduct(**changes):
    """Return the conduct of a run in which nothing went wrong, with `changes`."""
    good = {
        "device": "cuda",
        "mode": "default",
        "compiles": True,
        "graphs": 1,
        "limit_hit": False,
        "warm": True,
        "eager_ops": 0,
        "eager_path": "foreach",
        "compilations_while_timing": 0,
        "cudagraph_skips": 0,
        "cache_asked_warm": False,
        "cache_misses": 1,
        "eager_compiled": False,
        "parity_asked": True,
        "parity": "passed",
        "reference": True,
        "optimizer_class": "Adam",
        "torch_chooses": True,
        "lr_as_tensor": False,
        "gradients_written": False,
        "finite": True,
        "enough_steps": True,
        "foreign_load": 0.01,
    }
    return Conduct(**good | changes)


LEFT_FOREACH = {"lr_as_tensor": True, "eager_path": "forloop"}
"""Adam on a GPU with a tensor as learning rate, whose implementation torch chooses."""

PRESENT = {
    "recompiled_while_timing": {"compilations_while_timing": 1},
    "recompiling": {"warm": False},
    "fell_back_to_eager": {"limit_hit": True},
    "never_compiled": {"graphs": 0},
    "cache_not_warm": {"cache_asked_warm": True, "cache_misses": 1},
    "cudagraphs_skipped": {"mode": "reduce-overhead", "cudagraph_skips": 1},
    "cpu_modes_same_code": {"device": "cpu", "mode": "max-autotune"},
    "early_steps": {"device": "cpu", "enough_steps": False},
    "parity_failed": {"parity": "failed"},
    "no_reference": {"reference": False},
    "eager_compiled": {"eager_compiled": True},
    "parity_unknown": {"parity": None, "reference": False},
    "partly_compiled": {"eager_ops": 1},
    "eager_left_foreach": LEFT_FOREACH,
    "gradients_written": {"gradients_written": True},
    "non_finite_parameters": {"finite": False},
    "foreign_load": {"foreign_load": 0.051},
    "governor_saves_power": {"saves_power": True},
}
"""For every warning about how the arms ran, what deserves this one and no other."""

GIVEN_ELSEWHERE = {
    "foreign_gpu_process": "src/bench/gpu_state.py",
    "clock_throttled": "src/bench/gpu_state.py",
    "clocks_moved": "src/bench/gpu_state.py",
    "in_cache": "src/verdicts.py",
    "warm_compile_failed": "src/sweep/job.py",
}
"""Warnings that neither the conduct nor the block times give, and who gives them."""

ABSENT = [
    ("never_compiled", {"compiles": False, "graphs": 0}),
    ("recompiled_while_timing", {"compilations_while_timing": 0}),
    ("cache_not_warm", {"cache_asked_warm": True, "cache_misses": 0}),
    ("cache_not_warm", {"compiles": False, "cache_asked_warm": True}),
    ("cudagraphs_skipped", {"cudagraph_skips": 1}),
    ("cudagraphs_skipped", {"mode": "max-autotune-no-cudagraphs", "cudagraph_skips": 1}),
    ("cudagraphs_skipped", {"device": "cpu", "mode": "max-autotune", "cudagraph_skips": 1}),
    ("cpu_modes_same_code", {"device": "cpu"}),
    ("cpu_modes_same_code", {"mode": "max-autotune"}),
    ("cpu_modes_same_code", {"device": "cpu", "mode": "max-autotune", "compiles": False}),
    ("early_steps", {"enough_steps": False}),
    ("parity_failed", {"parity": None}),
    # a process that repeats a run is not asked to compare
    ("parity_unknown", {"parity_asked": False, "parity": None, "reference": False}),
    ("no_reference", {"parity_asked": False, "parity": None, "reference": False}),
    ("partly_compiled", {"eager_ops": None}),
    # where it has another name already
    ("partly_compiled", {"eager_ops": 2, "graphs": 0}),
    ("partly_compiled", {"eager_ops": 2, "limit_hit": True}),
    ("partly_compiled", {"eager_ops": 2, "compiles": False}),
    # another reason to loop: the device, a flag of the user's, an optimizer that stays multi-tensor
    ("eager_left_foreach", LEFT_FOREACH | {"device": "cpu"}),
    ("eager_left_foreach", LEFT_FOREACH | {"torch_chooses": False}),
    ("eager_left_foreach", LEFT_FOREACH | {"optimizer_class": "SGD"}),
    ("eager_left_foreach", LEFT_FOREACH | {"optimizer_class": None}),
    # capturable keeps it multi-tensor; a float does too
    ("eager_left_foreach", LEFT_FOREACH | {"eager_path": "foreach"}),
    ("eager_left_foreach", LEFT_FOREACH | {"lr_as_tensor": False}),
    ("foreign_load", {"foreign_load": 0.05}),
]
"""What comes close to a warning, or for which it would mean nothing."""


class TestWarnings:
    def test_arms_that_ran_without_fault_have_none(self):
        """No news is good news."""
        assert judge.warnings_of(conduct()) == []

    def test_each_that_the_times_do_not_give_has_a_case_here(self):
        """A new warning wants a test; tests/test_verdicts.py has one for each of the times."""
        of_times = verdicts.time_warnings([], compiles=True, shortest=0.0).keys()
        assert PRESENT.keys() | GIVEN_ELSEWHERE.keys() == WARNINGS.keys() - of_times
        assert not PRESENT.keys() & GIVEN_ELSEWHERE.keys()

    @pytest.mark.parametrize(("name", "module"), GIVEN_ELSEWHERE.items())
    def test_the_others_are_given_by_another_module(self, name, module):
        """Every warning that is explained can be given."""
        assert f'"{name}"' in (Path(__file__).parents[2] / module).read_text()

    @pytest.mark.parametrize("name", PRESENT)
    def test_what_deserves_a_warning_gets_that_one(self, name):
        """One thing wrong gives one warning."""
        assert judge.warnings_of(conduct(**PRESENT[name])) == [name]

    @pytest.mark.parametrize(("name", "changes"), ABSENT)
    def test_what_does_not_deserve_a_warning_gets_none(self, name, changes):
        """At the limit, or where the question does not arise, nothing is said."""
        assert name not in judge.warnings_of(conduct(**changes))

    def test_they_come_in_the_order_of_their_explanations(self):
        """Rows list them alike, whatever was seen first."""
        bad = conduct(
            mode="max-autotune",
            graphs=0,
            limit_hit=True,
            warm=False,
            compilations_while_timing=3,
            cudagraph_skips=2,
            cache_asked_warm=True,
            parity="failed",
            reference=False,
            eager_compiled=True,
            gradients_written=True,
            finite=False,
            foreign_load=2.0,
            saves_power=True,
            **LEFT_FOREACH,
        )
        not_here = ("cpu_modes_same_code", "early_steps", "partly_compiled", "parity_unknown")
        expected = [name for name in WARNINGS if name in PRESENT and name not in not_here]
        assert judge.warnings_of(bad) == expected

    def test_a_warning_without_explanation_is_refused(self, monkeypatch):
        """A name that the schema does not explain never gets into a row, present or not."""
        known = {name: text for name, text in WARNINGS.items() if name not in ("foreign_load", "early_steps")}
        monkeypatch.setattr(judge, "WARNINGS", known)
        with pytest.raises(KeyError, match=r"without an explanation .*: early_steps, foreign_load"):
            judge.warnings_of(conduct())


class TestCompiledPath:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, "compiled"),
            ({"eager_ops": None}, "compiled"),
            ({"eager_ops": 3}, "partly"),
            ({"graphs": 0}, "never_compiled"),
            ({"limit_hit": True}, "eager_fallback"),
            ({"warm": False}, "recompiling"),
            ({"compiles": False}, None),
            # several at once: what came of it in the end
            ({"graphs": 0, "eager_ops": 3}, "never_compiled"),
            ({"graphs": 0, "limit_hit": True, "warm": False}, "never_compiled"),
            ({"limit_hit": True, "warm": False, "eager_ops": 3}, "eager_fallback"),
            ({"warm": False, "eager_ops": 3}, "recompiling"),
            ({"compiles": False, "graphs": 0, "eager_ops": 3}, None),
        ],
    )
    def test_it_says_how_the_arm_really_ran(self, changes, expected):
        """One word for the row."""
        assert judge.compiled_path(conduct(**changes)) == expected
        assert judge.judge(conduct(**changes))["compiled_path"] == expected

    def test_its_words_are_the_rows(self):
        """Each one that there is, can be reached."""
        ways = ({}, {"eager_ops": 1}, {"limit_hit": True}, {"warm": False}, {"graphs": 0})
        assert tuple(judge.compiled_path(conduct(**way)) for way in ways) == vocabulary.COMPILED_PATHS


class TestWithoutTimes:
    """A run that only traces has a path and doubts, and a verdict if there is nothing compiled."""

    def test_a_run_without_fault_has_no_verdict(self):
        """Nothing was timed."""
        assert judge.judge(conduct()) == {
            "compiled_path": "compiled",
            "warnings": [],
            "verdict": None,
            "verdict_reason": None,
        }

    @pytest.mark.parametrize("name", INVALIDATING)
    def test_without_a_compiled_step_it_is_invalid(self, name):
        """Times would not change that."""
        columns = judge.judge(conduct(**PRESENT[name]))
        assert (columns["verdict"], columns["verdict_reason"]) == ("invalid", name)
        assert columns["warnings"] == [name]

    def test_never_compiled_is_the_first_reason(self):
        """The most fundamental of several reasons is named."""
        assert (
            judge.judge(conduct(graphs=0, limit_hit=True, warm=False))["verdict_reason"] == "never_compiled"
        )

    @pytest.mark.parametrize("name", [name for name in PRESENT if name not in INVALIDATING])
    def test_other_doubts_leave_it_open(self, name):
        """They travel with the row instead."""
        assert judge.judge(conduct(**PRESENT[name]))["verdict"] is None

    def test_the_reasons_are_warnings_that_exist(self):
        """An invalid verdict always has its warning."""
        assert set(INVALIDATING) <= set(WARNINGS)

    def test_other_doubts_are_told(self):
        """As in a run with times."""
        columns = judge.judge(conduct(reference=False, eager_ops=2))
        assert columns["warnings"] == ["no_reference", "partly_compiled"]
        assert columns["verdict"] is None

    def test_all_are_columns_of_the_row(self):
        """Names and types fit."""
        record.to_table({"status": "ok"} | judge.judge(conduct(graphs=0)))
