"""What a run may use: seconds of all of it, of compiling and of timing, and memory of the host.

The parent watches: a limit that the child kept itself would not end one that hangs. Memory is looked at
twice a second. RLIMIT_AS would be exact, but CUDA reserves many times the memory that there is and cannot
start under it, and a cgroup needs rights that users of a shared machine do not have; what grows faster than
that is ended by the kernel, which finds the run before it finds the sweep (`isolate`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from src.spec import LimitsSpec

WAITING = "wait for the device"
"""Stage in which a run waits for others, which is no time of its own."""

_COMPILING = ("trace of the compiled arm", "compile")
_TIMING = ("time before compiling", "warm-up", "watch", "time", "explain")

_LOOK_SECONDS = 0.5
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Broken:
    """A limit that a run has gone over."""

    how: str
    """timed_out or too_large."""
    reason: str


class Watch:
    """Watches one run, over all of its processes."""

    def __init__(
        self,
        limits: LimitsSpec,
        now: Callable[[], float] | None = None,
        used: Callable[[int], int] | None = None,
    ) -> None:
        """Begin to count.

        Args:
            limits: what the run may use.
            now: clock in s.
            used: gives the bytes that a process and its children use.
        """
        self._limits = limits
        self._now = now or time.monotonic
        self._used = used or used_bytes
        self._since = self._now()
        self._stage = ""
        self._spent = dict.fromkeys(("run", "compile", "timing"), 0.0)  # s

    def enter(self, stage: str) -> None:
        """Hear which stage the run enters."""
        self._count()
        self._stage = stage

    def next_look(self) -> float:
        """Return the seconds after which `broken` should be asked at the latest."""
        left = [limit - self._spent_now(part) for part, limit, _ in self._times() if self._counts(part)]
        if self._limits.memory_gib is not None:
            left.append(_LOOK_SECONDS)
        return max(0.0, min(left, default=_LOOK_SECONDS))

    def broken(self, pid: int | None) -> Broken | None:
        """Return the limit that the run has gone over, None when it keeps them all.

        Args:
            pid: the run's process; None where there is none yet.
        """
        for part, limit, told in self._times():
            if self._spent_now(part) >= limit:
                return Broken("timed_out", f"over the time limit of {limit:g} s{told}")
        gib = self._limits.memory_gib
        if gib is not None and pid is not None and (used := self._used(pid)) > gib * _GIB:
            told = f"{used / _GIB:.3g} GiB with the processes it had started (limits.memory_gib)"
            return Broken("too_large", f"over the memory limit of {gib:g} GiB: {told}")
        return None

    def left(self) -> float:
        """Return the seconds that are left of `limits.run_seconds`."""
        return self._limits.run_seconds - self._spent_now("run")

    def _times(self) -> list[tuple[str, float, str]]:
        asked = {
            "run": (self._limits.run_seconds, " (limits.run_seconds)"),
            "compile": (self._limits.compile_seconds, " for compiling (limits.compile_seconds)"),
            "timing": (self._limits.timing_seconds, " for timing (limits.timing_seconds)"),
        }
        return [(part, limit, told) for part, (limit, told) in asked.items() if limit is not None]

    def _counts(self, part: str) -> bool:
        stages = {"compile": _COMPILING, "timing": _TIMING}.get(part)
        return self._stage != WAITING if stages is None else self._stage in stages

    def _spent_now(self, part: str) -> float:
        return self._spent[part] + (self._now() - self._since if self._counts(part) else 0.0)

    def _count(self) -> None:
        self._spent = {part: self._spent_now(part) for part in self._spent}
        self._since = self._now()


def used_bytes(pid: int) -> int:
    """Return the memory of a process and of all that it has started, in bytes.

    Libraries, which processes share, are left out; what a run shares with the server that it was forked
    from, some 0.2 GiB, counts in each of them. 0 when they have ended.
    """
    try:
        if Path("/proc/self/status").exists():
            return _of_linux(pid)
        process = psutil.Process(pid)
        return sum(p.memory_info().rss for p in (process, *process.children(recursive=True)))
    except (OSError, psutil.Error, ValueError):
        return 0


def _of_linux(pid: int) -> int:
    """Read what the kernel counts; a look at all processes of a host would disturb what is timed."""
    total, left = 0, [pid]
    while left:
        process = Path("/proc") / str(left.pop())
        try:
            lines = (process / "status").read_text().splitlines()
            counted = [line.split() for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
            total += sum(int(number) * 1024 for _, number, _ in counted)
            for children in process.glob("task/*/children"):
                left += map(int, children.read_text().split())
        except OSError:  # it has ended meanwhile
            continue
    return total
