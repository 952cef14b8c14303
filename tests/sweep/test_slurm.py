"""What SLURM says of its jobs, and what a sweep makes of it."""

import subprocess

import pytest

from src.vocabulary import STATUSES
from tests.needed import needed_module

needed_module("submitit")

from src.sweep import slurm  # noqa: E402  # without the extra there is nothing to test

# `man squeue` of SLURM 22.05, JOB STATE CODES.
GO_ON = (
    *("COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING"),
    *("RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED"),
)
END = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
)


class Slurm:
    """Answers with what it was told last, and counts the questions."""

    def __init__(self):
        self.now, self.asked, self.states = 0.0, 0, {}

    def ask(self):
        self.asked += 1
        if isinstance(self.states, Exception):
            raise self.states
        return dict(self.states)

    def queue(self, *jobs):
        queue = slurm.Queue(self.ask, lambda: self.now)
        for job in jobs:
            queue.register_job(job)
        return queue


@pytest.fixture
def told():
    return Slurm()


class TestQueue:
    @pytest.mark.parametrize("state", GO_ON)
    def test_a_job_that_may_still_run_is_waited_for(self, told, state):
        """submitit itself takes a suspended job, or one that is being set up, for done."""
        told.states = {"12_0": state}
        assert not told.queue("12_0").is_done("12_0")

    @pytest.mark.parametrize("state", END)
    def test_a_job_that_has_ended_is_not(self, told, state):
        """However it did."""
        told.states = {"12_0": state}
        queue = told.queue("12_0")
        assert queue.is_done("12_0")
        assert queue.get_state("12_0") == state

    def test_every_end_has_a_status_of_a_row(self):
        """The states in which a run may have left none."""
        assert set(slurm.ENDED) == {*END, "GONE"}
        assert set(slurm.ENDED.values()) <= set(STATUSES)

    def test_a_job_that_slurm_forgot_is_gone_the_second_time(self, told):
        """It forgets jobs some minutes after their end; a requeue may hide one for a moment."""
        told.states = {"12_0": "RUNNING", "12_1": "RUNNING"}
        queue = told.queue("12_0", "12_1")
        assert queue.get_state("12_0", "force") == "RUNNING"
        told.states = {"12_1": "RUNNING"}
        assert not queue.is_done("12_0", "force")
        told.states = {"12_0": "PENDING", "12_1": "RUNNING"}
        assert not queue.is_done("12_0", "force")
        told.states = {"12_1": "RUNNING"}
        assert not queue.is_done("12_0", "force")
        assert queue.is_done("12_0", "force")
        assert queue.get_state("12_0", "cache") == "GONE"
        assert not queue.is_done("12_1", "cache")

    def test_an_end_is_not_forgotten(self, told):
        """What SLURM said before it forgot the job counts."""
        told.states = {"12": "TIMEOUT"}
        queue = told.queue("12")
        assert queue.is_done("12")
        told.states = {}
        for _ in range(3):
            queue.update()
        assert queue.get_state("12", "cache") == "TIMEOUT"

    @pytest.mark.parametrize("error", [FileNotFoundError("squeue"), subprocess.TimeoutExpired("squeue", 60)])
    def test_silence_is_no_answer(self, told, error):
        """A controller that restarts does not end a sweep."""
        told.states = {"12_0": "RUNNING"}
        queue = told.queue("12_0")
        assert queue.get_state("12_0") == "RUNNING"
        told.states = error
        for _ in range(5):
            assert not queue.is_done("12_0", "force")
        assert queue.get_state("12_0", "cache") == "RUNNING"

    def test_questions_become_seldom(self, told):
        """At once, after 2 s, then at half the time that has passed, and every 30 s at least."""
        told.states = {"12_0": "RUNNING", "12_1": "RUNNING"}
        queue = told.queue("12_0", "12_1")
        at = []
        for second in range(121):
            told.now = float(second)
            before = told.asked
            queue.is_done("12_0")
            queue.is_done("12_1")
            if told.asked > before:
                at.append(second)
        assert at == [0, 2, 4, 8, 16, 32, 62, 92]

    def test_how_long_ago_a_job_was_seen_to_have_ended(self, told):
        """From then on its result may take a while to be seen."""
        told.states = {"12_0": "FAILED"}
        queue = told.queue("12_0")
        assert queue.ended_for("12_0") == 0
        told.now = 100.0
        assert queue.is_done("12_0")
        told.now = 107.0
        queue.update()
        assert queue.ended_for("12_0") == 7

    def test_arrays_are_cancelled_as_a_whole(self, told):
        """By the number that all their jobs share."""
        assert told.queue("12", "12_0", "12_1", "9").numbers() == ["9", "12"]

    def test_an_array_is_told_once(self, told):
        """For the user, who may want to look at it."""
        numbers = []
        queue = slurm.Queue(told.ask, lambda: 0.0, numbers.append)
        for job in ("12", "12_0", "12_1", "13"):
            queue.register_job(job)
        assert numbers == ["12", "13"]


class TestWatched:
    def test_submitit_is_left_as_it_was(self):
        """For whoever else uses it in this process."""
        from submitit.slurm.slurm import SlurmJob

        before = SlurmJob.watcher, SlurmJob.results
        with slurm.watched() as jobs:
            assert SlurmJob.watcher is jobs.queue
        assert (SlurmJob.watcher, SlurmJob.results) == before
