"""From times and conduct to warnings, verdict and gate."""

from collections import Counter

import pytest

from src import record
from src.bench import judge
from src.bench.judge import Conduct
from src.bench.timing import ArmTimes, Plan, Timing, time_arms
from src.record import WARNINGS
from src.spec import ARMS
from tests.bench.fake_machine import FakeMachine

STEADY = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0, 101.0, 99.0]
"""Nine blocks without noise or drift to speak of."""


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


def timing(eager=STEADY, compiled=STEADY, converged=True, **others):
    """Return the timing that gave these block times in us."""
    arms = {"eager": eager, "compiled": compiled, **others}
    return Timing(
        {name: ArmTimes(10, tuple(blocks)) for name, blocks in arms.items()}, len(eager), 1.5, converged
    )


def judged(times=None, how=None, min_effect=0.03, min_speedup=None):
    """Judge a run, by default one without fault or difference."""
    return judge.judge_timing(
        times or timing(), how or conduct(), min_effect=min_effect, min_speedup=min_speedup
    )


def by(factor, blocks=STEADY):
    """Return block times `factor` times as long."""
    return [factor * b for b in blocks]


LEFT_FOREACH = {"lr_as_tensor": True, "eager_path": "forloop"}
"""Adam on a GPU with a tensor as learning rate, whose implementation torch chooses."""

PRESENT = {
    "too_few_rounds": (timing(STEADY[:5], STEADY[:5]), conduct()),
    "not_converged": (timing(converged=False), conduct()),
    # middle half from 90 to 103: 13 % of the median
    "noisy": (timing([100.0, 90, 103, 100, 90, 103, 100, 90, 103]), conduct()),
    # medians of the thirds: 100, then 106
    "drift": (timing([100.0, 100, 100, 103, 103, 103, 106, 106, 106]), conduct()),
    "recompiled_while_timing": (timing(), conduct(compilations_while_timing=1)),
    "recompiling": (timing(), conduct(warm=False)),
    "fell_back_to_eager": (timing(), conduct(limit_hit=True)),
    "never_compiled": (timing(), conduct(graphs=0)),
    "cache_not_warm": (timing(), conduct(cache_asked_warm=True, cache_misses=1)),
    "cudagraphs_skipped": (timing(), conduct(mode="reduce-overhead", cudagraph_skips=1)),
    "cpu_modes_same_code": (timing(), conduct(device="cpu", mode="max-autotune")),
    "early_steps": (timing(), conduct(device="cpu", enough_steps=False)),
    "parity_failed": (timing(), conduct(parity="failed")),
    "no_reference": (timing(), conduct(reference=False)),
    "eager_compiled": (timing(), conduct(eager_compiled=True)),
    "parity_unknown": (timing(), conduct(parity=None, reference=False)),
    "partly_compiled": (timing(), conduct(eager_ops=1)),
    "eager_left_foreach": (timing(), conduct(**LEFT_FOREACH)),
    "gradients_written": (timing(), conduct(gradients_written=True)),
    "non_finite_parameters": (timing(), conduct(finite=False)),
    "foreign_load": (timing(), conduct(foreign_load=0.051)),
}
"""For every warning a run that deserves this one and no other."""

ABSENT = [
    ("too_few_rounds", timing(STEADY[:6], STEADY[:6]), conduct()),
    # middle half from 95.5 to 104.5: 9 % of the median
    ("noisy", timing([100.0, 95.5, 104.5, 100, 95.5, 104.5, 100, 95.5, 104.5]), conduct()),
    # medians of the thirds: 100, then 104
    ("drift", timing([100.0, 100, 100, 103, 103, 103, 104, 104, 104]), conduct()),
    ("drift", timing([100.0, 110.0], [100.0, 110.0]), conduct()),
    ("never_compiled", timing(), conduct(compiles=False, graphs=0)),
    ("cache_not_warm", timing(), conduct(cache_asked_warm=True, cache_misses=0)),
    ("cache_not_warm", timing(), conduct(compiles=False, cache_asked_warm=True)),
    ("cudagraphs_skipped", timing(), conduct(cudagraph_skips=1)),
    ("cudagraphs_skipped", timing(), conduct(mode="max-autotune-no-cudagraphs", cudagraph_skips=1)),
    ("cudagraphs_skipped", timing(), conduct(device="cpu", mode="max-autotune", cudagraph_skips=1)),
    ("cpu_modes_same_code", timing(), conduct(device="cpu")),
    ("cpu_modes_same_code", timing(), conduct(mode="max-autotune")),
    ("cpu_modes_same_code", timing(), conduct(device="cpu", mode="max-autotune", compiles=False)),
    ("early_steps", timing(), conduct(enough_steps=False)),
    ("parity_failed", timing(), conduct(parity=None)),
    ("partly_compiled", timing(), conduct(eager_ops=None)),
    # where it has another name already
    ("partly_compiled", timing(), conduct(eager_ops=2, graphs=0)),
    ("partly_compiled", timing(), conduct(eager_ops=2, limit_hit=True)),
    ("partly_compiled", timing(), conduct(eager_ops=2, compiles=False)),
    # another reason to loop: the device, a flag of the user's, an optimizer that stays multi-tensor
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"device": "cpu"})),
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"torch_chooses": False})),
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"optimizer_class": "SGD"})),
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"optimizer_class": None})),
    # capturable keeps it multi-tensor; a float does too
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"eager_path": "foreach"})),
    ("eager_left_foreach", timing(), conduct(**LEFT_FOREACH | {"lr_as_tensor": False})),
    ("foreign_load", timing(), conduct(foreign_load=0.05)),
]
"""Runs that come close to a warning, or for which it would mean nothing."""


class TestWarnings:
    def test_a_run_without_fault_has_none(self):
        """No news is good news."""
        assert judged()["warnings"] == []

    def test_each_has_a_case_here(self):
        """A new warning wants a test."""
        assert PRESENT.keys() == WARNINGS.keys()

    @pytest.mark.parametrize("name", PRESENT)
    def test_what_deserves_a_warning_gets_that_one(self, name):
        """One thing wrong gives one warning."""
        assert judged(*PRESENT[name])["warnings"] == [name]

    @pytest.mark.parametrize(("name", "times", "how"), ABSENT)
    def test_what_does_not_deserve_a_warning_gets_none(self, name, times, how):
        """At the limit, or where the question does not arise, nothing is said."""
        assert name not in judged(times, how)["warnings"]

    def test_every_arm_is_watched_for_noise_and_drift(self):
        """A third arm that drifts is as much a doubt as the two of the pair."""
        drifting = [100.0, 100, 100, 110, 110, 110, 120, 120, 120]
        assert judged(timing(eager_after_compile=drifting))["warnings"] == ["noisy", "drift"]

    def test_they_come_in_the_order_of_their_explanations(self):
        """Rows list them alike, whatever was seen first."""
        times = timing([100.0, 90, 103, 120, 90, 103, 150, 150, 150], converged=False)
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
            **LEFT_FOREACH,
        )
        not_here = (
            "too_few_rounds",
            "cpu_modes_same_code",
            "early_steps",
            "partly_compiled",
            "parity_unknown",
        )
        assert judged(times, bad)["warnings"] == [name for name in WARNINGS if name not in not_here]

    def test_a_warning_without_explanation_is_refused(self, monkeypatch):
        """A name that the schema does not explain never gets into a row, present or not."""
        known = {name: text for name, text in WARNINGS.items() if name not in ("drift", "noisy")}
        monkeypatch.setattr(judge, "WARNINGS", known)
        with pytest.raises(KeyError, match=r"without an explanation .*: drift, noisy"):
            judged()


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
        assert judged(how=conduct(**changes))["compiled_path"] == expected

    def test_its_words_are_the_rows(self):
        """Each one that there is, can be reached."""
        ways = ({}, {"eager_ops": 1}, {"limit_hit": True}, {"warm": False}, {"graphs": 0})
        assert tuple(judge.compiled_path(conduct(**way)) for way in ways) == record.COMPILED_PATHS


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

    @pytest.mark.parametrize("name", judge.INVALIDATING)
    def test_without_a_compiled_step_it_is_invalid(self, name):
        """Times would not change that."""
        columns = judge.judge(PRESENT[name][1])
        assert (columns["verdict"], columns["verdict_reason"]) == ("invalid", name)
        assert columns["warnings"] == [name]

    def test_other_doubts_are_told(self):
        """As in a run with times."""
        columns = judge.judge(conduct(reference=False, eager_ops=2))
        assert columns["warnings"] == ["no_reference", "partly_compiled"]
        assert columns["verdict"] is None

    def test_all_are_columns_of_the_row(self):
        """Names and types fit."""
        record.to_table({"status": "ok"} | judge.judge(conduct(graphs=0)))


class TestVerdict:
    @pytest.mark.parametrize(
        ("eager", "expected"),
        [(1.0, "no_difference"), (1.02, "no_difference"), (1.1, "faster"), (0.9, "slower")],
    )
    def test_a_valid_run_is_judged_by_its_speedup(self, eager, expected):
        """With min_effect 0.03 a ratio of 1.02 is no difference, 1.1 and 0.9 are."""
        columns = judged(timing(eager=by(eager)))
        assert (columns["verdict"], columns["verdict_reason"]) == (expected, None)
        assert columns["speedup"] == pytest.approx(eager)

    def test_without_an_interval_there_is_no_difference(self):
        """Five rounds at twice the speed are no evidence yet."""
        assert judged(timing(by(2.0)[:5], STEADY[:5]))["verdict"] == "no_difference"

    @pytest.mark.parametrize("name", judge.INVALIDATING)
    def test_without_a_compiled_step_it_is_invalid(self, name):
        """However fast it was, the reason says why it is nobody's compiled step."""
        _, how = PRESENT[name]
        columns = judged(timing(eager=by(2.0)), how)
        assert (columns["verdict"], columns["verdict_reason"]) == ("invalid", name)
        assert columns["speedup"] == pytest.approx(2.0)

    def test_never_compiled_is_the_first_reason(self):
        """The most fundamental of several reasons is named."""
        columns = judged(how=conduct(graphs=0, limit_hit=True, warm=False))
        assert columns["verdict_reason"] == "never_compiled"

    @pytest.mark.parametrize("name", [n for n in PRESENT if n not in (*judge.INVALIDATING, "too_few_rounds")])
    def test_other_doubts_leave_it_valid(self, name):
        """They travel with the number instead."""
        assert judged(*PRESENT[name])["verdict"] != "invalid"

    def test_the_reasons_are_warnings_that_exist(self):
        """An invalid verdict always has its warning."""
        assert set(judge.INVALIDATING) <= set(WARNINGS)


class TestGate:
    @pytest.mark.parametrize(
        ("min_speedup", "expected"), [(None, None), (1.2, "passed"), (1.25, "passed"), (1.26, "failed")]
    )
    def test_the_speedup_must_reach_the_gate(self, min_speedup, expected):
        """A speedup of 1.25 passes a gate of 1.25; without a gate there is no answer."""
        assert judged(timing(eager=by(1.25)), min_speedup=min_speedup)["gate"] == expected

    @pytest.mark.parametrize("name", judge.INVALIDATING)
    def test_an_invalid_run_fails_it(self, name):
        """An eager step that is fast passes no gate for compiled ones."""
        assert judged(timing(eager=by(2.0)), PRESENT[name][1], min_speedup=1.2)["gate"] == "failed"

    def test_an_invalid_run_without_gate_has_no_answer(self):
        """Nothing was asked."""
        assert judged(how=conduct(graphs=0))["gate"] is None


class TestColumns:
    def test_all_are_columns_of_the_row(self):
        """Times and judgement of all arms fit the schema."""
        times = timing(**dict.fromkeys(ARMS, STEADY))
        columns = judge.times(times) | judged(times, min_speedup=1.2)
        table = record.to_table({"status": "ok"} | columns)
        assert {name for name in columns if table[name][0].as_py() is None} == {"verdict_reason"}

    def test_the_times_of_an_arm(self):
        """Six blocks have the interval from the least to the greatest."""
        columns = judge.times(timing(eager=[6.0, 1, 5, 2, 4, 12], compiled=STEADY[:6]))
        expected = {
            "rounds": 6,
            "timing_s": 1.5,
            "eager_us": 4.5,
            "eager_us_low": 1,
            "eager_us_high": 12,
            "eager_mean_us": 5,
            "eager_block_us": [6.0, 1, 5, 2, 4, 12],
            "eager_steps_per_block": 10,
        }
        assert {name: columns[name] for name in expected} == expected

    def test_an_arm_that_was_not_timed_has_none(self):
        """No column rather than a zero."""
        assert not [name for name in judge.times(timing()) if name.startswith("eager_after_compile")]

    def test_the_speedup_has_its_interval(self):
        """Ratios of the rounds: 2, 2, 2, 2, 2 and 3."""
        columns = judged(timing([2.0, 4, 6, 8, 10, 18], [1.0, 2, 3, 4, 5, 6]), min_effect=0.01)
        assert [columns[n] for n in ("speedup", "speedup_low", "speedup_high")] == [2, 2, 3]
        assert columns["min_effect"] == 0.01


class TestSimulation:
    """Whole timings on a noisy machine, many seeds each."""

    SEEDS = range(100)

    def verdicts(self, eager_cost, compiled_cost, noise=0.03):
        """Count the verdicts over the seeds."""
        plan = Plan(min_block_seconds=0.02, min_rounds=20, max_seconds=10.0, target_relative_width=0.01)
        counted = Counter()
        for seed in self.SEEDS:
            machine = FakeMachine(noise, seed)
            arms = {
                "eager": machine.arm("eager", eager_cost),
                "compiled": machine.arm("compiled", compiled_cost),
            }
            times = time_arms(arms, plan, machine.now, ("eager", "compiled"))
            counted[judged(times)["verdict"]] += 1
        return counted

    def test_two_equal_arms_show_no_difference(self):
        """With 3 % noise a block, no seed of a hundred finds 3 % between an arm and itself."""
        assert self.verdicts(1e-4, 1e-4) == {"no_difference": 100}

    def test_a_tenth_is_found(self):
        """An eager step 10 % dearer is found every time."""
        assert self.verdicts(1.1e-4, 1e-4) == {"faster": 100}

    def test_swapped_arms_swap_the_verdict(self):
        """What was faster is slower the other way round."""
        assert self.verdicts(1e-4, 1.1e-4) == {"slower": 100}
