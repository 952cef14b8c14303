"""From the block times of processes to columns, warnings, verdict and gate: by hand and by simulation."""

import math
import random
from dataclasses import replace

import pytest

from src import record, verdicts
from src.spec import ARMS
from src.timings import ArmTimes, ProcessTimes, Timing
from src.vocabulary import INVALIDATING, WARNINGS
from tests.simulated_runs import Kind, rates
from tests.specs import spec as spec_of

STEADY = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0, 101.0, 99.0]
"""Nine blocks without noise or drift to speak of."""


def by(factor, blocks=STEADY):
    """Return block times `factor` times as long."""
    return [factor * b for b in blocks]


def process(eager=STEADY, compiled=STEADY, *, converged=True, enough=True, others=None, **changes):
    """Return what a process reports that took these block times in us, with `changes`."""
    blocks = {"eager": eager, "compiled": compiled, **(others or {})}
    arms = {name: ArmTimes(10, tuple(us)) for name, us in blocks.items()}
    plain = ProcessTimes(
        timing=Timing(arms, len(eager), 1.5, converged, enough),
        best=None,
        before_compile_us=tuple(STEADY),
        sequential_us=None,
        warnings=(),
        timed_from_step=1100,
        foreign_cpus=0.5,
        compilations=0,
    )
    return replace(plain, **changes)


def spec(*overrides):
    """Return a spec that takes nothing to be shared by all processes, unless told."""
    return spec_of("measure.shared_spread=0", "measure.min_block_seconds=0.00002", *overrides)


def judged(*processes, asked=(), facts=None):
    """Return the columns of a run of these processes, by default of one without fault or difference."""
    return verdicts.columns(processes or (process(),), spec(*asked), {"device": "cpu"} | (facts or {}))


PRESENT = {
    "too_few_rounds": process(enough=False),
    "not_converged": process(converged=False),
    # middle half from 90 to 103: 13 % of the median
    "noisy": process([100.0, 90, 103, 100, 90, 103, 100, 90, 103]),
    # six blocks from 99 to 101, six between, six from 103 to 105: medians of 100 and 104
    "drift": process(*2 * [[99.0, 100, 101] * 2 + [101.0, 102, 103] * 2 + [103.0, 104, 105] * 2]),
    # 12 blocks on one level, 8 on the other
    "bimodal": process([100.0, 100, 106, 100, 106] * 4, by(1.0, [99.0, 100, 101, 100] * 5)),
    # ten steps of 0.9 us: 9 us, where 20 us were asked for
    "short_blocks": process(by(0.009), by(0.009)),
    "all_equal": process([100.0] * 9),
    # from 96 to 100: by 4.2 %, and the whole interval from 99 to 101 is above that from 95 to 97
    "slowed_by_compiling": process(before_compile_us=(95.0, 96, 97, 96, 95, 97, 96, 96)),
}
"""For every warning about times a process that deserves this one and no other."""

ABSENT = [
    ("too_few_rounds", process(STEADY[:6], STEADY[:6])),
    # middle half from 95.5 to 104.5: 9 % of the median
    ("noisy", process([100.0, 95.5, 104.5, 100, 95.5, 104.5, 100, 95.5, 104.5])),
    ("all_equal", process([100.0] * 8 + [100.1])),
    ("all_equal", process([100.0], [100.0])),
]
"""Processes that come close to a warning, or for which it would mean nothing."""


class TestWarnings:
    def test_a_run_without_fault_has_none(self):
        """No news is good news."""
        assert judged()["warnings"] == []

    def test_each_about_times_has_a_case_here(self):
        """A new warning wants a test; tests/bench/test_judge.py has the others."""
        assert PRESENT.keys() == verdicts.time_warnings([process()], compiles=True, shortest=0.0).keys()

    @pytest.mark.parametrize("name", PRESENT)
    def test_what_deserves_a_warning_gets_that_one(self, name):
        """One thing wrong gives one warning, and leaves the verdict valid."""
        columns = judged(PRESENT[name])
        assert (columns["warnings"], columns["verdict"]) == ([name], "no_difference")

    @pytest.mark.parametrize("name", PRESENT)
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_doubt_about_any_process_is_one_about_the_run(self, name, place):
        """It is told once, whichever of three processes it concerns."""
        processes = [process()] * 3
        processes[place] = PRESENT[name]
        assert judged(*processes)["warnings"] == [name]

    @pytest.mark.parametrize(("name", "of"), ABSENT)
    def test_what_does_not_deserve_a_warning_gets_none(self, name, of):
        """At the limit, or where the question does not arise, nothing is said."""
        assert name not in judged(of)["warnings"]

    def test_five_rounds_are_too_few_however_few_were_asked_for(self):
        """Their median has no interval."""
        assert "too_few_rounds" in judged(process(STEADY[:5], STEADY[:5]))["warnings"]

    def test_every_arm_is_watched(self):
        """A third arm that drifts is as much a doubt as the two of the pair."""
        drifting = [100.0 + i for i in range(18)]
        steady = STEADY * 2
        third = process(steady, steady, others={"eager_after_compile": drifting})
        assert judged(third)["warnings"] == ["drift"]

    def test_what_the_processes_report_is_told_once_and_in_order(self):
        """With the doubts about their times, as `WARNINGS` lists them, not as they came."""
        first = process(warnings=("foreign_load", "recompiled_while_timing"))
        second = process(converged=False, warnings=("cpu_modes_same_code", "foreign_load"))
        expected = ["not_converged", "recompiled_while_timing", "cpu_modes_same_code", "foreign_load"]
        assert judged(first, second)["warnings"] == expected
        assert expected == [name for name in WARNINGS if name in expected]

    def test_a_warning_without_explanation_is_refused(self):
        """A name that the schema does not explain is a mistake of ours, and not dropped in silence."""
        with pytest.raises(KeyError, match=r"without an explanation .*: solar_wind"):
            judged(process(warnings=("noisy", "solar_wind")))


class TestInCache:
    FITS = {"working_set_bytes": 1000, "last_level_cache_bytes": 1000}  # noqa: RUF012

    def test_a_working_set_that_fits_into_the_cache_is_told(self):
        """The floor of memory bounds nothing then."""
        assert judged(facts=self.FITS)["warnings"] == ["in_cache"]

    @pytest.mark.parametrize(
        ("change", "asked"),
        [
            ({"working_set_bytes": 1001}, ()),
            ({"working_set_bytes": None}, ()),
            ({"last_level_cache_bytes": None}, ()),
            ({}, ("measure.flush_cache=true",)),
        ],
    )
    def test_one_that_does_not_or_whose_size_is_unknown_is_not(self, change, asked):
        """Nor one whose cache is emptied before every step."""
        assert judged(facts=self.FITS | change, asked=asked)["warnings"] == []

    def test_without_the_facts_nothing_is_said(self):
        """They are not known unless measure.explain is asked for."""
        assert judged(facts={})["warnings"] == []


class TestSlowedWithoutCompiling:
    def test_where_nothing_is_compiled_nothing_slows_by_it(self):
        """Two eager arms: what moved is the machine."""
        columns = judged(PRESENT["slowed_by_compiling"], asked=("compile=none",))
        assert columns["warnings"] == []


class TestDrifts:
    @pytest.mark.parametrize(
        ("blocks", "expected"),
        [
            # thirds of six blocks; all of the last must be beyond all of the first
            ([100.0] * 12 + [103.1] * 6, True),
            ([100.0] * 12 + [102.9] * 6, False),
            ([100.0] * 12 + [96.9] * 6, True),
            ([100.0] * 12 + [97.1] * 6, False),
            ([100.0] * 5 + [104.0] * 8 + [104.0] * 5, False),
            # a middle that is elsewhere does not count, nor do few blocks
            ([100.0] * 6 + [150.0] * 6 + [100.0] * 6, False),
            ([100.0] * 5 + [110.0] * 12, False),
            ([100.0], False),
            ([], False),
            # a steady change of 5 %, and one of 4 %
            ([100 + 5 * i / 59 for i in range(60)], True),
            ([105 - 5 * i / 59 for i in range(60)], True),
            ([100 + 4 * i / 59 for i in range(60)], False),
            # with 100 blocks one outlier in a third is nothing
            ([100.0] * 66 + [105.0] * 33 + [99.0], True),
        ],
    )
    def test_the_last_third_must_differ_from_the_first_by_more_than_three_per_cent(self, blocks, expected):
        """And by more than the intervals of their medians."""
        assert verdicts.drifts(blocks) == expected

    @pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
    @pytest.mark.parametrize("n", [20, 50, 200])
    def test_noise_is_not_taken_for_drift(self, noise, n):
        """In at most 1 % of the samples: of 500 no more than 12 (1 % and three deviations)."""
        draw = random.Random(n)  # noqa: S311
        samples = ([draw.gauss(1, noise) for _ in range(n)] for _ in range(500))
        assert sum(map(verdicts.drifts, samples)) <= 12

    @pytest.mark.parametrize(("n", "noise"), [(20, 0.01), (50, 0.02), (200, 0.03)])
    def test_a_slow_down_by_a_tenth_is_seen(self, n, noise):
        """In 95 % of the samples."""
        draw = random.Random(n)  # noqa: S311
        samples = ([(1 + 0.1 * i / n) * draw.gauss(1, noise) for i in range(n)] for _ in range(300))
        assert sum(map(verdicts.drifts, samples)) >= 285


class TestSlowed:
    BEFORE = (100.0, 99.0, 101.0, 100.0, 99.0, 101.0, 100.0, 100.0)

    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [
            (BEFORE, [103.1] * 6, True),
            (BEFORE, [103.0] * 6, False),
            (BEFORE, [90.0] * 6, False),
            # intervals that overlap: 104 is in the one before, 100 in the one after
            ((*BEFORE[:6], 110.0, 90.0), [104.0] * 6, False),
            (BEFORE, [104.0] * 5 + [100.5], False),
            # no interval, no claim
            (BEFORE[:5], [200.0] * 6, False),
            (BEFORE, [200.0] * 5, False),
            ((), [200.0] * 6, False),
        ],
    )
    def test_the_step_must_be_slower_by_more_than_three_per_cent_and_both_intervals(
        self, before, after, expected
    ):
        """Of six and eight blocks the interval is the whole range."""
        assert verdicts.slowed(before, {"eager": ArmTimes(1, tuple(after))}) == expected

    def test_noise_is_not_taken_for_it(self):
        """Blocks with 3 % noise, eight before and fifty after: in at most 1 % of 500 samples, 12."""
        draw = random.Random(1)  # noqa: S311

        def blocks(n):
            return tuple(draw.gauss(100, 3) for _ in range(n))

        seen = [verdicts.slowed(blocks(8), {"eager": ArmTimes(1, blocks(50))}) for _ in range(500)]
        assert sum(seen) <= 12


class TestVerdict:
    @pytest.mark.parametrize(
        ("asked", "limit"),
        [
            # the interval of blocks without noise is the normal one of the spread, 1.96 * 1 %
            ((), 1.01 * math.exp(0.0195996)),
            (("measure.min_effect=0",), math.exp(0.0195996)),
            (("measure.process_spread=0",), 1.01),
            (("measure.process_spread=0.017", "measure.min_effect=0.03"), 1.03 * math.exp(0.0333194)),
        ],
    )
    def test_one_process_must_be_beyond_spread_and_least_effect(self, asked, limit):
        """The spread of processes around it first, then the least effect that counts."""
        for factor, expected in (
            (1.001 * limit, "faster"),
            (0.999 * limit, "no_difference"),
            (1 / (0.999 * limit), "no_difference"),
            (1 / (1.001 * limit), "slower"),
        ):
            columns = judged(process(eager=by(factor)), asked=asked)
            assert (columns["verdict"], columns["verdict_reason"]) == (expected, None)
            assert columns["speedup"] == pytest.approx(factor)

    def test_several_processes_need_no_assumed_spread(self):
        """Three that agree on 2 % are sure of it; one that says so is not."""
        agreeing = [process(eager=by(1.02))] * 3
        assert judged(*agreeing)["verdict"] == "faster"
        assert judged(agreeing[0])["verdict"] == "no_difference"

    def test_processes_that_disagree_show_no_difference(self):
        """10 %, 5 % and 20 % faster: the interval of the three reaches below 1."""
        columns = judged(*(process(eager=by(factor)) for factor in (1.1, 1.05, 1.2)))
        assert columns["speedup_low"] < 1
        assert columns["verdict"] == "no_difference"

    def test_without_an_interval_there_is_no_difference(self):
        """Five rounds at twice the speed are no evidence yet."""
        columns = judged(process(by(2.0)[:5], STEADY[:5]))
        assert (columns["verdict"], columns["speedup_low"], columns["speedup_high"]) == (
            "no_difference",
            None,
            None,
        )

    @pytest.mark.parametrize("name", INVALIDATING)
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_without_a_compiled_step_in_every_process_it_is_invalid(self, name, place):
        """However fast it was, the reason says why it is nobody's compiled step."""
        processes = [process(eager=by(2.0))] * 3
        processes[place] = process(eager=by(2.0), warnings=("foreign_load", name))
        columns = judged(*processes)
        assert (columns["verdict"], columns["verdict_reason"]) == ("invalid", name)
        assert columns["speedup"] == pytest.approx(2.0)

    def test_never_compiled_is_the_first_reason(self):
        """The most fundamental of several reasons is named."""
        columns = judged(process(warnings=tuple(reversed(INVALIDATING))))
        assert columns["verdict_reason"] == "never_compiled"


class TestGate:
    @pytest.mark.parametrize(
        ("min_speedup", "expected"), [("null", None), (1.2, "passed"), (1.25, "passed"), (1.26, "failed")]
    )
    @pytest.mark.parametrize("processes", [1, 3])
    def test_the_speedup_must_reach_the_gate(self, min_speedup, expected, processes):
        """A speedup of 1.25 passes a gate of 1.25; without a gate there is no answer."""
        asked = [f"gate.min_speedup={min_speedup}"]
        assert judged(*[process(by(1.25, [1.0] * 6), [1.0] * 6)] * processes, asked=asked)["gate"] == expected

    @pytest.mark.parametrize("name", INVALIDATING)
    def test_an_invalid_run_fails_it(self, name):
        """An eager step that is fast passes no gate for compiled ones."""
        invalid = process(eager=by(2.0), warnings=(name,))
        assert judged(invalid, asked=["gate.min_speedup=1.2"])["gate"] == "failed"
        assert judged(invalid)["gate"] is None


class TestOneProcess:
    def test_the_times_of_an_arm(self):
        """Six blocks have the interval from the least to the greatest."""
        columns = judged(process(eager=[6.0, 1, 5, 2, 4, 12], compiled=STEADY[:6]))
        expected = {
            "processes": 1,
            "process_spread": 0.01,
            "process_rounds": [6],
            "rounds": 6,
            "timing_s": 1.5,
            "timed_from_step": 1100,
            "foreign_cpus": 0.5,
            "recompiles_timing": 0,
            "eager_us": 4.5,
            "eager_us_low": 1,
            "eager_us_high": 12,
            "eager_mean_us": 5,
            "eager_process_us": [4.5],
            "eager_block_us": [6.0, 1, 5, 2, 4, 12],
            "eager_steps_per_block": 10,
        }
        assert {name: columns[name] for name in expected} == expected

    def test_the_speedup_is_the_median_of_the_rounds_with_the_spread_around_its_interval(self):
        """Ratios of the rounds: 2, 2, 2, 2, 2 and 3. Of the logarithm 0 below and log 1.5 above."""
        columns = judged(process([2.0, 4, 6, 8, 10, 18], [1.0, 2, 3, 4, 5, 6]))
        assert columns["speedup"] == 2
        assert columns["process_speedup"] == [2]
        assert math.log(columns["speedup_low"] / 2) == pytest.approx(-0.0195996, rel=1e-5)
        above = math.hypot(math.log(1.5), 0.0195996)
        assert math.log(columns["speedup_high"] / 2) == pytest.approx(above, rel=1e-5)

    def test_what_was_asked_for_stands_beside_the_verdict(self):
        """A reader can judge again."""
        columns = judged(asked=["measure.min_effect=0.02", "measure.process_spread=0.005"])
        assert (columns["min_effect"], columns["process_spread"]) == (0.02, 0.005)

    @pytest.mark.parametrize(
        "what", ["eager_best", "eager_after_compile", "sequential", "eager_before", "speedup_vs_best"]
    )
    def test_what_was_not_timed_has_no_column(self, what):
        """No column rather than a zero."""
        assert not [name for name in judged(process(before_compile_us=())) if what in name]

    def test_with_two_eager_arms_there_is_no_count_of_compilations(self):
        """Nothing could compile."""
        assert judged(asked=["compile=none"])["recompiles_timing"] is None


class TestSeveralProcesses:
    THREE = (
        process(eager=by(math.exp(0.1)), foreign_cpus=1.0, timed_from_step=1200, compilations=1),
        process(eager=by(math.exp(0.2)), foreign_cpus=2.0, timed_from_step=1150),
        process([e * math.exp(0.3) for e in STEADY[:6]], STEADY[:6], compilations=2),
    )
    MARGIN = 4.302653 * 0.1 / math.sqrt(3)
    """Of the logarithms 0.1, 0.2 and 0.3: the t quantile for two degrees of freedom (NIST/SEMATECH
    e-Handbook, table 1.3.6.7.2: 4.303), the deviation 0.1, and three values."""

    def test_the_speedup_is_their_geometric_mean_with_a_t_interval(self):
        """Over processes, not blocks, and without an assumed spread."""
        columns = judged(*self.THREE)
        assert columns["process_speedup"] == pytest.approx([math.exp(x) for x in (0.1, 0.2, 0.3)])
        logs = [math.log(columns[name]) for name in ("speedup", "speedup_low", "speedup_high")]
        assert logs == pytest.approx([0.2, 0.2 - self.MARGIN, 0.2 + self.MARGIN], rel=1e-5)
        assert columns["process_spread"] is None

    def test_so_are_the_times(self):
        """The eager medians are 100 us times e^0.1, e^0.2 and e^0.3."""
        columns = judged(*self.THREE)
        assert columns["eager_process_us"] == pytest.approx([100 * math.exp(x) for x in (0.1, 0.2, 0.3)])
        logs = [math.log(columns[name] / 100) for name in ("eager_us", "eager_us_low", "eager_us_high")]
        assert logs == pytest.approx([0.2, 0.2 - self.MARGIN, 0.2 + self.MARGIN], rel=1e-5)
        assert columns["compiled_us"] == pytest.approx(100)
        assert columns["compiled_us_low"] == pytest.approx(100)

    def test_the_row_keeps_all_of_it(self):
        """Blocks in the order of the processes, and where one ends and the next begins."""
        columns = judged(*self.THREE)
        blocks = [b for p in self.THREE for b in p.timing.arms["eager"].block_us]
        assert columns["eager_block_us"] == blocks
        assert columns["eager_mean_us"] == pytest.approx(sum(blocks) / 24)
        assert columns["process_rounds"] == [9, 9, 6]
        assert (columns["processes"], columns["rounds"], columns["timing_s"]) == (3, 24, 4.5)
        assert columns["timed_from_step"] == 1100
        assert columns["foreign_cpus"] == pytest.approx(3.5 / 3)
        assert columns["recompiles_timing"] == 3

    def test_two_have_an_interval(self):
        """A wide one: the t quantile for one degree of freedom is 12.706."""
        columns = judged(process(eager=by(1.0)), process(eager=by(math.e)))
        assert math.log(columns["speedup_high"]) == pytest.approx(0.5 + 12.7062 * 0.5, rel=1e-5)


CUDA = {"device": "cuda"}


class TestWhatProcessesShare:
    """`measure.shared_spread`: what no repetition shows."""

    @pytest.mark.parametrize(("device", "spread"), [("cuda", 0.001), ("cpu", 0.01)])
    def test_unless_told_it_is_what_is_known_of_the_device(self, device, spread):
        """As seen between equal arms."""
        columns = verdicts.columns([process()] * 3, spec_of(), {"device": device})
        assert columns["shared_spread"] == spread

    def test_it_widens_an_interval_over_processes_that_agree_wholly(self):
        """Three equal medians: 1.96 times 0.1 % on either side, in logarithms."""
        columns = verdicts.columns([process(by(1.1))] * 3, spec_of("measure.shared_spread=0.001"), CUDA)
        ends = [columns["speedup_low"], columns["speedup_high"]]
        assert ends == pytest.approx([1.1 / 1.00196189, 1.1 * 1.00196189], rel=1e-7)
        assert (columns["shared_spread"], columns["process_spread"]) == (0.001, None)

    def test_it_adds_to_the_spread_of_a_single_process_as_the_sides_of_a_triangle(self):
        """3 % and 4 % are 5 %: exp(1.959964 * 0.05) is 1.10296."""
        asked = ("measure.process_spread=0.03", "measure.shared_spread=0.04")
        columns = verdicts.columns([process([100.0] * 9, [100.0] * 9)], spec_of(*asked), CUDA)
        ends = [columns["speedup_low"], columns["speedup_high"]]
        assert ends == pytest.approx([1 / 1.102961, 1.102961], rel=1e-6)

    def test_it_is_in_the_speedup_against_the_best_too(self):
        """One rule for both."""
        columns = verdicts.columns(
            [process(by(1.1), best="eager")] * 3, spec_of("measure.shared_spread=0.001"), CUDA
        )
        assert columns["speedup_vs_best_low"] == columns["speedup_low"] < columns["speedup"]


class TestFastestEager:
    def test_it_has_times_and_a_speedup_of_its_own(self):
        """Eager 100 us, its fastest implementation 50, compiled 40."""
        columns = judged(
            process(eager=by(1.0), compiled=by(0.4), others={"eager_best": by(0.5)}, best="eager_best")
        )
        names = ("eager_us", "compiled_us", "eager_best_us", "speedup", "speedup_vs_best")
        assert [columns[name] for name in names] == pytest.approx([100, 40, 50, 2.5, 1.25])
        margin = math.exp(0.0195996)
        ends = [columns["speedup_vs_best_low"], columns["speedup_vs_best_high"]]
        assert ends == pytest.approx([1.25 / margin, 1.25 * margin], rel=1e-5)
        assert columns["process_speedup_vs_best"] == pytest.approx([1.25])

    def test_it_may_be_the_eager_arm_itself(self):
        """Then one arm is timed, and has both columns."""
        columns = judged(process(eager=by(1.2), best="eager"))
        for name in ("us", "us_low", "us_high", "mean_us", "process_us", "block_us", "steps_per_block"):
            assert columns[f"eager_best_{name}"] == columns[f"eager_{name}"]
        for name in ("", "_low", "_high"):
            assert columns[f"speedup_vs_best{name}"] == columns[f"speedup{name}"]

    def test_an_eager_arm_that_beats_it_in_the_rounds_is_it_instead(self):
        """The trials were brief: what they took for fastest takes 200 us, the eager arm 100."""
        told = {"eager_best": "fused", "eager_path": "forloop", "eager_best_kernels": 2, "eager_kernels": 70}
        columns = judged(process(others={"eager_best": by(2.0)}, best="eager_best"), facts=told)
        assert (columns["eager_best"], columns["eager_best_kernels"]) == ("forloop", 70)
        assert (columns["eager_best_us"], columns["speedup_vs_best"]) == (columns["eager_us"], 1.0)

    def test_over_processes_it_has_a_t_interval(self):
        """Ratios of 1.5 and 1.5: no doubt left."""
        two = [process(by(2.0), others={"eager_best": by(1.5)}, best="eager_best")] * 2
        columns = judged(*two)
        assert columns["speedup_vs_best_low"] == pytest.approx(1.5)
        assert columns["process_speedup_vs_best"] == pytest.approx([1.5, 1.5])


class TestAttained:
    def test_it_is_the_floor_over_the_time_of_each_arm(self):
        """A floor of 20 us is half of the 40 us of compiled, a fifth of the 100 us of eager."""
        columns = judged(
            process(compiled=by(0.4), others={"eager_best": by(0.5)}, best="eager_best"),
            facts={"floor_us": 20.0},
        )
        found = {name: value for name, value in columns.items() if name.endswith("_attained")}
        assert found == pytest.approx(
            {"eager_attained": 0.2, "compiled_attained": 0.5, "eager_best_attained": 0.4}
        )

    def test_an_eager_arm_that_is_the_fastest_has_both(self):
        """One arm, two names."""
        columns = judged(process(best="eager"), facts={"floor_us": 20.0})
        assert columns["eager_best_attained"] == columns["eager_attained"] == pytest.approx(0.2)

    @pytest.mark.parametrize("facts", [{}, {"floor_us": None}])
    def test_without_a_floor_there_is_none(self, facts):
        """It is not known unless measure.explain is asked for."""
        assert not [name for name in judged(facts=facts) if name.endswith("_attained")]


class TestOtherTimes:
    def test_the_eager_step_before_compiling_has_its_median_and_interval(self):
        """Eight blocks: from the least to the greatest."""
        columns = judged(process(before_compile_us=(98.0, 99, 100, 101, 102, 100, 97, 103)))
        ends = [columns[f"eager_before_compile_us{end}"] for end in ("", "_low", "_high")]
        assert ends == [100, 97, 103]

    def test_over_processes_it_has_a_t_interval(self):
        """Medians of 100 us in each."""
        columns = judged(*[process(before_compile_us=tuple(STEADY))] * 3)
        assert columns["eager_before_compile_us_high"] == pytest.approx(100)

    def test_the_sequential_times_are_those_of_the_first_process(self):
        """A tutorial publishes one process."""
        columns = judged(process(sequential_us=(300.0, 100.0)), process(sequential_us=(500.0, 100.0)))
        names = ("sequential_eager_us", "sequential_compiled_us", "sequential_speedup")
        assert [columns[name] for name in names] == [300, 100, 3]


class TestRow:
    @pytest.mark.parametrize(
        ("processes", "null"), [(1, {"verdict_reason"}), (2, {"verdict_reason", "process_spread"})]
    )
    def test_all_are_columns_of_the_row(self, processes, null):
        """Names and types fit, and with everything timed nothing is left out."""
        full = process(
            others=dict.fromkeys(ARMS[2:], STEADY),
            best="eager_best",
            before_compile_us=tuple(STEADY),
            sequential_us=(3.0, 1.0),
        )
        columns = judged(*[full] * processes, asked=["gate.min_speedup=1.2"], facts={"floor_us": 1.0})
        table = record.to_table({"status": "ok"} | columns)
        assert {name for name in columns if table[name][0].as_py() is None} == null


class TestSimulation:
    """Whole runs of known speedup. Bounds leave three standard deviations for the simulation itself."""

    @pytest.mark.parametrize("noise", [0.01, 0.03])
    @pytest.mark.parametrize("luck", [0.003, 0.01])
    def test_one_process_with_no_more_luck_than_assumed(self, luck, noise):
        """Its interval covers the truth in 95 % of the runs; equal arms are told apart in 0.7 % or fewer."""
        found = rates(Kind(spec("measure.max_seconds=1"), luck, noise), 1500)
        assert found.covered >= 0.93
        assert found.told_apart <= 0.015

    def test_one_process_with_more_luck_than_assumed_is_the_limit_of_that(self):
        """With 1.7 % instead of 1 % equal arms are told apart in 8 %; with the right assumption in 1.2 %."""
        found = rates(Kind(spec("measure.max_seconds=1"), 0.017, 0.01), 1000)
        assert found.covered < 0.85
        assert found.told_apart > 0.03
        found = rates(Kind(spec("measure.max_seconds=1", "measure.process_spread=0.017"), 0.017, 0.01), 1000)
        assert found.covered >= 0.93
        assert found.told_apart <= 0.025

    def test_the_interval_of_the_blocks_alone_does_not_know_of_luck(self):
        """It covers the truth in under half of the runs: why there is a spread."""
        found = rates(Kind(spec("measure.process_spread=0"), luck=0.01, noise=0.01), 300)
        assert found.covered < 0.5
        assert found.told_apart > 0.05

    @pytest.mark.parametrize("luck", [0.001, 0.01, 0.03])
    @pytest.mark.parametrize("n", [3, 5, 10])
    def test_several_processes_assume_nothing_about_how_much_luck(self, n, luck):
        """95 % however much, and never more than 5 % of equal arms told apart."""
        found = rates(Kind(_processes(n), luck, noise=0.001), 600)
        assert 0.92 <= found.covered <= 0.98
        assert found.told_apart <= 0.05

    def test_without_a_least_effect_verdict_and_interval_are_one(self):
        """Then equal arms are told apart in the 5 % of the runs whose interval misses 1."""
        found = rates(Kind(_processes(5, "measure.min_effect=0"), luck=0.01, noise=0.001), 600)
        assert found.told_apart == pytest.approx(1 - found.covered)
        assert 0.02 <= found.told_apart <= 0.08

    def test_an_effect_as_large_as_the_least_one_is_claimed_in_few_runs(self):
        """A speedup of exactly 1.01 is called faster in 2.5 %, however precise the measurement."""
        found = rates(Kind(_processes(5), luck=0.001, noise=0.0001, speedup=1.01), 600)
        assert 3 <= found.verdicts["faster"] <= 27

    def test_luck_in_two_states_is_the_limit_of_that(self):
        """Where one process in five is on another level, five miss it too often; ten are better."""
        five, ten = (rates(Kind(_processes(n), 0.03, 0.001, on_high=0.2), 300).covered for n in (5, 10))
        assert five < 0.75
        assert 0.8 < ten < 0.95

    @pytest.mark.parametrize("noise", [0.003, 0.01, 0.02])
    def test_looking_after_every_round_costs_little(self, noise):
        """The median's interval covers 92 % or more, not 95 %, when rounds end as soon as it is narrow."""
        bare = spec("measure.process_spread=0", "measure.min_effect=0", "measure.max_seconds=12")
        assert rates(Kind(bare, 0.0, noise), 500).covered >= 0.90

    @pytest.mark.parametrize(("speedup", "expected"), [(1.03, "faster"), (1 / 1.03, "slower")])
    def test_three_per_cent_are_found_by_five_processes(self, speedup, expected):
        """Bandwidth-bound steps, luck of 0.15 %: of every 20 runs at least 19 have the right verdict."""
        kind = Kind(spec("measure=precise"), luck=0.0015, noise=0.003, speedup=speedup)
        batches = [rates(kind, 20, first_seed=20 * batch) for batch in range(10)]
        assert min(b.verdicts[expected] for b in batches) >= 19

    @pytest.mark.parametrize(("speedup", "expected"), [(1.05, "faster"), (1 / 1.05, "slower")])
    def test_five_per_cent_are_found_by_one_process(self, speedup, expected):
        """With little luck, in 19 of 20 runs, on either side."""
        kind = Kind(spec("measure.max_seconds=1"), luck=0.003, noise=0.01, speedup=speedup)
        assert rates(kind, 200).verdicts[expected] >= 190


def _processes(n, *asked):
    """Return the spec of a run of `n` processes with few rounds each, for many runs."""
    return spec(f"measure.processes={n}", "measure.min_rounds=6", "measure.max_seconds=1", *asked)
