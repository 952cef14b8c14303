"""The block times of a run as plain data."""

import pickle

import pytest

from src.stats import Interval
from src.timings import ArmTimes, ProcessTimes, Repeat, Timing
from tests.specs import spec

ARMS = {
    "eager": ArmTimes(10, (6.0, 12.0, 18.0, 24.0, 30.0, 42.0)),
    "compiled": ArmTimes(30, (3.0, 6.0, 9.0, 12.0, 15.0, 6.0)),
}


class TestArmTimes:
    def test_the_median_has_the_interval_of_its_blocks(self):
        """Of six blocks the whole range."""
        assert ARMS["eager"].median_us == Interval(21.0, 6.0, 42.0)


class TestTiming:
    def test_a_speedup_pairs_the_blocks_of_each_round(self):
        """The ratios are 2, 2, 2, 2, 2 and 7, where the ratio of the medians is 21 / 7.5."""
        timing = Timing(ARMS, 6, 1.0, True)
        assert timing.speedup("eager", "compiled") == Interval(2.0, 2.0, 7.0)
        assert timing.speedup("compiled", "eager").center == 0.5

    def test_arms_with_different_numbers_of_rounds_are_refused(self):
        """Rounds must pair."""
        timing = Timing(ARMS | {"third": ArmTimes(1, (1.0,))}, 6, 1.0, True)
        with pytest.raises(ValueError, match="shorter"):
            timing.speedup("eager", "third")


class TestBetweenProcesses:
    @pytest.mark.parametrize(
        "sent",
        [
            ProcessTimes(Timing(ARMS, 6, 1.0, True), "eager", (1.0,), (2.0, 3.0), ("noisy",), 12, 0.5, 0),
            Repeat(spec("measure.processes=3"), "fused", "foreach", compiled_first=True),
        ],
        ids=["times", "repeat"],
    )
    def test_they_arrive_as_they_were_sent(self, sent):
        """One process measures and another judges."""
        assert pickle.loads(pickle.dumps(sent)) == sent  # noqa: S301  # our own
