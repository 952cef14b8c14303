"""SLURM by hydra-submitit-launcher: what becomes of its jobs, asked of `squeue`.

submitit asks `sacct`, which needs SLURM's accounting database. Where there is none, a job that was killed
looks to submitit as if it ran for ever, and where there is one, the first job that died ends its wait for
all the others. Here `squeue` is asked, which every SLURM has; a job that died is noted, and the others
are waited for.
"""

import contextlib
import getpass
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from submitit.core import core, utils
from submitit.slurm import slurm as submitit_slurm

from src.sweep.lost import Lost

ENDED = {
    **{"CANCELLED": "interrupted", "PREEMPTED": "interrupted", "REVOKED": "interrupted"},
    **{"TIMEOUT": "timed_out", "DEADLINE": "timed_out"},
    **dict.fromkeys(("BOOT_FAIL", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"), "crashed"),
    "GONE": "crashed",
}
"""States in which a job does not run and will not, and the status of a run that left no row in one (the
states: `man squeue`, JOB STATE CODES). GONE is ours: SLURM does not know the job any more."""

_POLL_SECONDS = 30
"""Longest time between two questions to SLURM; it forgets a job after 300 s (MinJobAge)."""

_SHARED_FOLDER_SECONDS = 15
"""How long the result of a job that has ended may take to be seen through a shared folder."""

_CANCEL_SECONDS = 20
"""How long a cancelled job may take to write its row, before SLURM kills it."""


class SlurmError(Exception):
    """SLURM did not take the jobs; the message is what it said."""


def queued() -> dict[str, str]:
    """Return the states of this user's jobs, also of those that have ended of late, by job id.

    Raises:
        OSError: there is no `squeue`.
        subprocess.SubprocessError: it could not ask SLURM.
    """
    done = subprocess.run(
        [
            *("squeue", "--noheader", "--array", "--states=all", f"--user={getpass.getuser()}"),
            *("--format=%i %T",),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line)


class Queue(core.InfoWatcher):
    """Stands where submitit has its watcher of `sacct`: knows the states of the jobs of this process."""

    def __init__(
        self,
        ask: Callable[[], dict[str, str]] = queued,
        clock: Callable[[], float] = time.monotonic,
        on_number: Callable[[str], None] = lambda number: None,
    ) -> None:
        """Get ready to `ask` for the states of all jobs, seldom; `on_number` gets that of each new array."""
        super().__init__(delay_s=_POLL_SECONDS)
        self._ask, self._clock, self._on_number = ask, clock, on_number
        self._asked: float | None = None
        self._first = clock()
        self._states: dict[str, str] = {}
        self._unseen: dict[str, int] = {}
        self._ended: dict[str, float] = {}
        self._numbers: set[str] = set()
        self.jobs: list[str] = []

    def register_job(self, job_id: str) -> None:
        """Take note of a job; a question follows."""
        number = job_id.split("_", maxsplit=1)[0]
        if number not in self._numbers:
            self._numbers.add(number)
            self._on_number(number)
        self.jobs.append(job_id)
        self._first, self._asked = self._clock(), None

    def clear(self) -> None:
        """Forget what SLURM has said."""
        self._states, self._unseen, self._asked = {}, {}, None

    def get_info(self, job_id: str, mode: str = "standard") -> dict[str, str]:
        """Return the state of a job as submitit names it."""
        return {"State": self.get_state(job_id, mode)}

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return the state of a job, UNKNOWN before SLURM has said it."""
        self.update_if_long_enough(mode)
        return self._states.get(job_id, "UNKNOWN")

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Return whether the job does not run and will not."""
        return self.get_state(job_id, mode) in ENDED

    def update_if_long_enough(self, mode: str) -> None:
        """Ask where `mode` is force, or it is standard and time: after 2 s, then ever more seldom."""
        now = self._clock()
        wait = 0.0 if mode == "force" else min(_POLL_SECONDS, max(2.0, (now - self._first) / 2))
        if mode != "cache" and (self._asked is None or now - self._asked >= wait):
            self.update()

    def update(self) -> None:
        """Ask SLURM; when it does not answer, what was known stays."""
        self._asked = self._clock()
        try:
            told = self._ask()
        except (OSError, subprocess.SubprocessError):
            return
        for job_id in self.jobs:
            if job_id in told:
                self._states[job_id] = told[job_id]
                self._unseen[job_id] = 0
            elif self._states.get(job_id) not in ENDED:
                self._unseen[job_id] = self._unseen.get(job_id, 0) + 1
                if self._unseen[job_id] > 1:  # once may be a job that is just being requeued
                    self._states[job_id] = "GONE"
            if self._states.get(job_id) in ENDED:
                self._ended.setdefault(job_id, self._asked)

    def ended_for(self, job_id: str) -> float:
        """Return for how many s a job that is done has been known to be."""
        return self._clock() - self._ended.get(job_id, self._clock())

    def alive(self) -> bool:
        """Return whether a job of ours may still run, by SLURM's latest word."""
        told = self._ask()
        return any(
            job.split("_", maxsplit=1)[0] in self._numbers and state not in ENDED
            for job, state in told.items()
        )

    def numbers(self) -> list[str]:
        """Return the numbers of the jobs and arrays, which `scancel` takes."""
        return sorted(self._numbers, key=int)


@dataclass
class Jobs:
    """The jobs that submitit has started in this process."""

    queue: Queue
    lost: list[Lost] = field(default_factory=list)

    def results(self, job: "core.Job[Any]", plain: Callable[["core.Job[Any]"], list[Any]]) -> list[Any]:
        """Wait for a job and return what its run gave; one that is lost is noted, and gave nothing.

        submitit's launcher calls this for every job, one after the other.
        """
        state = self._wait(job)
        if state is not None:
            told = f"ended as {state} before its run had left a row"
            return self._note(job, ENDED.get(state, "crashed"), told, _tail(job.stderr()))
        try:
            result = plain(job)
        except (utils.UncompletedJobError, EOFError, OSError) as error:
            return self._note(job, "crashed", f"failed: {_last_line(str(error))}", _tail(str(error)))
        for returned in result:
            if returned.status is JobStatus.FAILED:
                return self._note(job, "failed", f"raised: {returned._return_value}", _tail(job.stderr()))
        return result

    def _wait(self, job: "core.Job[Any]") -> str | None:
        """Wait until the job has left its result; return its last state where it has died without."""
        job.wait()
        while not job.paths.result_pickle.exists():
            if self.queue.ended_for(job.job_id) > _SHARED_FOLDER_SECONDS:
                return self.queue.get_state(job.job_id, "cache")
            time.sleep(1)
        return None

    def _note(self, job: "core.Job[Any]", status: str, told: str, error: str | None) -> list[Any]:
        overrides, _, number, *_ = job.submission().args
        own = tuple(o for o in overrides if not o.lstrip("+~").startswith("hydra"))
        self.lost.append(Lost(number, own, status, f"SLURM job {job.job_id} {told}", error))
        return [JobReturn(status=JobStatus.COMPLETED)]

    def cancel(self) -> None:
        """Cancel all jobs: those that run are interrupted, so that they write their rows, then killed."""
        numbers = self.queue.numbers()
        if not numbers:
            return
        _scancel("--state=PENDING", *numbers)
        _scancel("--signal=INT", *numbers)
        deadline = time.monotonic() + _CANCEL_SECONDS
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            while self.queue.alive() and time.monotonic() < deadline:
                time.sleep(1)
        _scancel(*numbers)


def _scancel(*arguments: str) -> None:
    # What has ended already is no matter, and there is nobody to tell of the rest.
    subprocess.run(["scancel", "--quiet", *arguments], capture_output=True, check=False)


def _last_line(text: str) -> str:
    return next(reversed([line.strip() for line in text.splitlines() if line.strip(" -")]), "ended")


def _tail(text: str | None) -> str | None:
    return (text or "")[-4000:] or None


@contextlib.contextmanager
def watched(on_number: Callable[[str], None] = lambda number: None) -> Iterator[Jobs]:
    """Have submitit ask `squeue` and wait for all jobs while this is entered.

    Args:
        on_number: gets the number of each job or array that is submitted.

    Raises:
        SlurmError: SLURM did not take the jobs.
    """
    jobs = Jobs(Queue(on_number=on_number))
    job_class: Any = submitit_slurm.SlurmJob
    before, plain = job_class.watcher, job_class.results
    job_class.watcher = jobs.queue
    job_class.results = lambda job: jobs.results(job, plain)
    try:
        yield jobs
    except (utils.FailedJobError, utils.FailedSubmissionError) as error:
        raise SlurmError(_last_line(str(error)).rpartition(": ")[2]) from None
    except KeyboardInterrupt:
        jobs.cancel()
        raise
    finally:
        job_class.watcher, job_class.results = before, plain
