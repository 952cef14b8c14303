"""Limits, with a clock and a memory that are set by hand."""

import os
import subprocess
from pathlib import Path

import pytest

from src.bench import child
from src.spec import LimitsSpec
from src.sweep import limits
from src.sweep.limits import Broken, Watch


class Host:
    """A clock in s and the memory of a run in bytes."""

    def __init__(self):
        self.time, self.memory = 1000.0, 0

    def watch(self, run=100.0, compiling=None, timing=None, gib=None):
        asked = LimitsSpec(run, compiling, timing, gib)
        return Watch(asked, lambda: self.time, lambda _pid: self.memory)

    def stages(self, watch, *stages):
        """Let a run be in each stage for so many seconds."""
        for stage, seconds in stages:
            watch.enter(stage)
            self.time += seconds


@pytest.fixture
def host():
    return Host()


def timed_out(words):
    return Broken("timed_out", f"over the time limit of {words}")


class TestTime:
    def test_of_the_whole_run(self, host):
        """Whatever the stages are."""
        watch = host.watch(run=100)
        host.stages(watch, ("prepare", 60), ("build", 39))
        assert (watch.broken(1), watch.next_look(), watch.left()) == (None, 1.0, 1.0)
        host.time += 1
        assert watch.broken(1) == timed_out("100 s (limits.run_seconds)")
        assert watch.next_look() == 0.0

    def test_before_the_first_stage_counts(self, host):
        """A process that never says anything."""
        watch = host.watch(run=100)
        host.time += 100
        assert watch.broken(None) == timed_out("100 s (limits.run_seconds)")

    def test_of_compiling_alone(self, host):
        """What is built, timed or waited for does not count; compiling of every process does."""
        watch = host.watch(compiling=10)
        host.stages(watch, ("build", 20), ("trace of the compiled arm", 6), ("time", 20), ("compile", 3))
        assert (watch.broken(1), watch.next_look()) == (None, 1.0)
        host.time += 1
        assert watch.broken(1) == timed_out("10 s for compiling (limits.compile_seconds)")

    def test_of_timing_alone(self, host):
        """From warm-up to explanation, and before compiling."""
        watch = host.watch(timing=15)
        host.stages(watch, ("time before compiling", 2), ("trace of the compiled arm", 50), ("warm-up", 3))
        host.stages(watch, ("watch", 1), ("time", 5), ("explain", 3))
        assert watch.broken(1) is None
        host.time += 1
        assert watch.broken(1) == timed_out("15 s for timing (limits.timing_seconds)")

    def test_waiting_for_the_device_is_no_time_of_the_run(self, host):
        """A queue of many runs times none of them out."""
        watch = host.watch(run=100, timing=10)
        host.stages(watch, ("build", 50), (limits.WAITING, 10_000))
        assert (watch.broken(1), watch.left()) == (None, 50.0)
        host.stages(watch, ("time", 9))
        assert (watch.broken(1), watch.left(), watch.next_look()) == (None, 41.0, 1.0)

    def test_the_names_are_those_of_stages(self):
        """Of the run's process, which tells them."""
        text = Path(child.__file__).read_text()
        for stage in (*limits._COMPILING, *limits._TIMING):
            assert f'"{stage}"' in text


class TestMemory:
    def test_is_looked_at_twice_a_second_where_there_is_a_limit(self, host):
        """And not at all elsewhere."""
        assert host.watch().next_look() == 100.0
        assert host.watch(gib=4).next_look() == 0.5

    def test_beyond_the_limit_is_told_with_what_was_used(self, host):
        """The bytes of a GiB are 2**30."""
        watch = host.watch(gib=4)
        host.memory = 4 * 2**30
        assert watch.broken(1) is None
        host.memory = 5 * 2**30
        told = "over the memory limit of 4 GiB: 5 GiB with the processes it had started (limits.memory_gib)"
        assert watch.broken(1) == Broken("too_large", told)
        assert watch.broken(None) is None

    def test_that_of_children_counts(self):
        """Compilers are part of the run."""
        script = "kept = bytearray(200_000_000); print('ready', flush=True); input()"
        held = ["python3", "-c", f"import subprocess,sys; subprocess.run([sys.executable, '-c', {script!r}])"]
        parent = subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            parent.stdout.readline()
            assert 200_000_000 < limits.used_bytes(parent.pid) < 300_000_000
        finally:
            parent.communicate("\n")

    def test_of_what_has_ended_is_none(self):
        """It may have, a moment before."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        assert limits.used_bytes(ended.pid) == 0
        assert limits.used_bytes(os.getpid()) > 0
